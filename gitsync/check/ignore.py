"""`.gitignore` as Git understands it: nearest file first, last matching line wins."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

MAX_BYTES = 1024 * 1024
MAX_LINE = 1000


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that hold in one folder, from the nearest file outwards.

    `base` is the folder of the file they come from; for a file above the root, `above` is the way
    from there down to the root.
    """

    base: str
    spec: GitIgnoreSpec
    outer: Rules | None = None
    above: str = ""

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """True if the entry is ignored, its parents not considered."""
        rules: Rules | None = self
        while rules is not None:
            inner = path.removeprefix(f"{rules.base}/") if rules.base else path
            inner = f"{rules.above}/{inner}" if rules.above else inner
            verdict = rules.spec.check_file(inner + "/" * is_folder).include
            if verdict is not None:
                return verdict
            rules = rules.outer
        return False


def add_rules(outer: Rules | None, base: str, data: bytes, *, above: str = "") -> Rules | None:
    """The rules of one more `.gitignore`; lines that are no patterns are left out."""
    lines = data[:MAX_BYTES].decode("utf-8", "surrogateescape").splitlines()
    good = [line[:MAX_LINE] for line in lines if _is_pattern(line[:MAX_LINE])]
    if not any(line.strip() and not line.startswith("#") for line in good):
        return outer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Rules(base, GitIgnoreSpec.from_lines(good), outer, above)


def _is_pattern(line: str) -> bool:
    """False for a line that cannot be made a pattern; the library warns of some others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            GitIgnoreSpec.from_lines([line])
        except (ValueError, re.error, RecursionError, OverflowError):
            return False
    return True
