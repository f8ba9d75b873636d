"""`.gitignore` as Git understands it: nearest file first, last matching line wins."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.check.wildmatch import Pattern, parse_lines

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that hold in one folder, from the nearest file outwards.

    `base` is the folder of the file they come from; `patterns` begin with the last line.
    """

    base: str
    patterns: tuple[Pattern, ...]
    outer: Rules | None = None

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """True if the entry is ignored, its parents not considered."""
        rules: Rules | None = self
        while rules is not None:
            verdict = rules._decides(path, is_folder)
            if verdict is not None:
                return verdict
            rules = rules.outer
        return False

    def _decides(self, path: str, is_folder: bool) -> bool | None:
        inner = path.removeprefix(f"{self.base}/") if self.base else path
        raw = inner.encode("utf-8", "surrogateescape")
        name = raw.rpartition(b"/")[2]
        for pattern in self.patterns:
            if pattern.is_folder_only and not is_folder:
                continue
            if pattern.matches(name if pattern.is_name else raw):
                return not pattern.is_negative
        return None


def add_rules(outer: Rules | None, base: str, data: bytes) -> Rules | None:
    """The rules of one more `.gitignore`."""
    patterns = parse_lines(data[:MAX_BYTES])
    if not patterns:
        return outer
    return Rules(base, tuple(reversed(patterns)), outer)
