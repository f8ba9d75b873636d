"""Names in a tree: which are dangerous, which some systems cannot have, which collide.

Dangerous is what climbs out of a folder, is taken for `.git` by some file system, or cannot be
written at all; such a commit never becomes a version. The rest publishes with a warning.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_COMPONENT_BYTES = 255
_HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_RESERVED = re.compile(r"(?:aux|con|nul|prn|com[1-9¹²³]|lpt[1-9¹²³])(?: *\..*)?", re.IGNORECASE)
# The names that nearly all files have, of which nothing is dangerous (`git~1` has a tilde).
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}(?<!\.)")
_FORBIDDEN = re.compile(r'[<>:"|?*\\]')


def raw(name: str) -> bytes:
    """The exact bytes of a name or path."""
    return name.encode("utf-8", "surrogateescape")


def is_dotgit(name: str) -> bool:
    """True if some file system takes the name for `.git` (HFS+ and NTFS spellings included)."""
    plain = _HFS_IGNORED.sub("", name).split(":", 1)[0].rstrip(". ").lower()
    return plain in {".git", "git~1"}


def danger(name: str) -> str | None:
    """Why a component must not be in a version; None if it may."""
    if _PLAIN.fullmatch(name):
        return None
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return "is a step, not a name"
    if "/" in name:
        return "holds a slash"
    if "\0" in name:
        return "holds a NUL"
    pieces = name.split("\\")
    if len(pieces) > 1 and ".." in pieces:
        return "climbs out of its folder on Windows"
    if any(is_dotgit(piece) for piece in pieces):
        return "is taken for `.git` by some file systems"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"
    if size > MAX_COMPONENT_BYTES:
        return f"has more than {MAX_COMPONENT_BYTES} bytes"
    return None


def unportable(name: str) -> str | None:
    """Why Windows cannot have the name; None if it can."""
    if _RESERVED.fullmatch(name):
        return "is a reserved name"
    found = _FORBIDDEN.search(name)
    if found:
        return f"holds `{found[0]}`"
    if name[-1] in ". ":
        return "ends in a dot or a space"
    return None


def folded(path: str) -> str:
    """What a case-insensitive, normalising file system makes of a path."""
    return unicodedata.normalize("NFC", path).lower()


def collisions(paths: Iterable[str]) -> list[tuple[str, str]]:
    """All but the first (by bytes) of the paths that fold to one, each with that first one."""
    first: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for path in sorted(paths, key=raw):
        kept = first.setdefault(folded(path), path)
        if kept != path:
            found.append((path, kept))
    return found
