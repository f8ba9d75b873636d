"""Plans shown as text: a patch that `git apply` takes, file by file.

Promise: applying the patch to the tree the plan was made for gives exactly the planned tree, modes,
links, deletions and binary files included. Nothing is escaped here; a door that shows it to a
person passes each line through `gitsync.text.printable`.
"""

from __future__ import annotations

import base64
import difflib
import zlib
from collections.abc import Iterator

from gitsync.template.files import MAX_FILE_BYTES, blob_id
from gitsync.template.plan import Plan
from gitsync.tree import Kind, Tree

_NULL = "0" * 40
_DIFF_LINES = 20_000  # beyond, a whole-file replacement is shown instead of a minimal one


def patch(tree: Tree, plan: Plan) -> bytes:
    """The whole plan as one patch."""
    return b"".join(text for _, text in file_patches(tree, plan))


def file_patches(tree: Tree, plan: Plan) -> Iterator[tuple[str, bytes]]:
    """Path and patch of each changed file; deletions come before what takes their place."""
    for path in sorted(plan.changes, key=lambda p: (plan.changes[p][1] is not None, p)):
        kind, data = plan.changes[path]
        entry = tree.entry(path)
        old: tuple[Kind, bytes] | None = None
        if entry is not None and (entry.is_file or entry.kind is Kind.LINK):
            old = (entry.kind, tree.read(path, limit=MAX_FILE_BYTES))
        new = (kind, data) if data is not None else None
        if old and new and Kind.LINK in (old[0], new[0]) and old[0] is not new[0]:
            yield path, _one(path, old, None) + _one(path, None, new)
        else:
            yield path, _one(path, old, new)


def _one(path: str, old: tuple[Kind, bytes] | None, new: tuple[Kind, bytes] | None) -> bytes:
    left, right = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    lines = [f"diff --git {left} {right}"]
    if old is None and new is not None:
        lines.append(f"new file mode {new[0].value}")
    elif new is None and old is not None:
        lines.append(f"deleted file mode {old[0].value}")
    elif old and new and old[0] is not new[0]:
        lines += [f"old mode {old[0].value}", f"new mode {new[0].value}"]
    before, after = (old or (None, b""))[1], (new or (None, b""))[1]
    if before == after and old and new:
        return ("\n".join(lines) + "\n").encode()
    ids = [blob_id(side[1]) if side else _NULL for side in (old, new)]
    same_mode = f" {new[0].value}" if old and new and old[0] is new[0] else ""
    lines.append(f"index {ids[0]}..{ids[1]}{same_mode}")
    head = ("\n".join(lines) + "\n").encode()
    if before == after:
        return head  # an empty file comes or goes
    if _is_binary(before) or _is_binary(after):
        return head + b"GIT binary patch\n" + _literal(after) + b"\n" + _literal(before) + b"\n"
    names = (left if old else "/dev/null", right if new else "/dev/null")
    return head + _hunks(before, after, names)


def _is_binary(data: bytes) -> bool:
    if b"\0" in data[:8000]:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _hunks(before: bytes, after: bytes, names: tuple[str, str]) -> bytes:
    a, b = _lines(before), _lines(after)
    out = [f"--- {names[0]}\n".encode(), f"+++ {names[1]}\n".encode()]
    if len(a) + len(b) > _DIFF_LINES:
        out.append(f"@@ -{1 if a else 0},{len(a)} +{1 if b else 0},{len(b)} @@\n".encode())
        out += [_marked(b"-", line) for line in a] + [_marked(b"+", line) for line in b]
        return b"".join(out)
    for line in list(difflib.diff_bytes(difflib.unified_diff, a, b, lineterm=b"\n"))[2:]:
        out.append(line if line.startswith(b"@@") else _marked(line[:1], line[1:]))
    return b"".join(out)


def _lines(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]] + (
        [data.rpartition(b"\n")[2]] if data and not data.endswith(b"\n") else []
    )


def _marked(mark: bytes, line: bytes) -> bytes:
    if line.endswith(b"\n"):
        return mark + line
    return mark + line + b"\n\\ No newline at end of file\n"


def _literal(data: bytes) -> bytes:
    """Git's base-85 form: a length letter, then at most 52 bytes a line."""
    packed = zlib.compress(data)
    out = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), 52):
        piece = packed[start : start + 52]
        size = len(piece)
        letter = bytes([size + 64 if size <= 26 else size + 70])
        out.append(letter + base64.b85encode(piece + b"\0" * (-size % 4)) + b"\n")
    return b"".join(out)


def _quoted(path: str) -> str:
    """Git's spelling of a path: quoted if it has unusual characters."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return path
    escaped = "".join(
        f"\\{byte:03o}"
        if byte < 0x20 or byte >= 0x7F
        else ("\\" + chr(byte) if byte in b'"\\' else chr(byte))
        for byte in raw
    )
    return f'"{escaped}"'
