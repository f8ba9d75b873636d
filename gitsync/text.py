"""Text from repositories made safe for terminals, logs, `remote:` lines and rows.

Rule: whatever comes from a repository, a webhook or a remote passes through here before a person
or a database sees it (decisions 30 and 43).
"""

from __future__ import annotations

import unicodedata

_KEEP = {"\t"}
_UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
MESSAGE_LIMIT = 64 * 1024


def printable(text: str, *, limit: int = 2000) -> str:
    """One line without control, bidirectional or undecodable characters.

    Unsafe characters become `\\xNN`, `\\uNNNN` or `\\UNNNNNNNN`; a surrogate escape becomes the
    `\\xNN` of the byte it stands for. Longer text is cut and ends in `…`.
    """
    if len(text) <= limit and text.isprintable():
        return text
    out: list[str] = []
    for char in text[:limit]:
        code = ord(char)
        if char not in _KEEP and unicodedata.category(char) in _UNSAFE:
            if 0xDC80 <= code <= 0xDCFF:
                out.append(f"\\x{code - 0xDC00:02x}")
            elif code < 0x100:
                out.append(f"\\x{code:02x}")
            else:
                out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
        else:
            out.append(" " if char == "\t" else char)
    return "".join(out) + ("…" if len(text) > limit else "")


def storable(text: str, *, limit: int = MESSAGE_LIMIT) -> str:
    """Text that every database and UTF-8 encoder takes: no NUL, no surrogates, bounded bytes."""
    clean = text[:limit].replace("\0", "�")
    clean = (
        clean.encode("utf-8", "replace").decode("utf-8")
        if clean.isascii()
        else "".join("�" if "\ud800" <= c <= "\udfff" else c for c in clean)
    )
    data = clean.encode("utf-8")
    return clean if len(data) <= limit else data[:limit].decode("utf-8", "ignore")
