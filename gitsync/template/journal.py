"""Planned changes written into a checkout: journal first, then moves, all or nothing.

Promise: after a kill at any moment `recover` (which every apply begins with) leaves the old tree
or the new one. Nothing is overwritten in place and nothing is followed: old files are moved into
the journal and compared there with what was planned, new ones are linked in where nothing stands.
A link swapped in for a folder, or an edit made meanwhile, stops the apply and brings the old tree
back; what cannot be brought back without destroying something newer stays in the journal.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitsync.errors import Conflict, InvalidInput
from gitsync.template.disk import FOLDER_FLAGS, JOURNAL, open_folder
from gitsync.template.files import blob_id, check_existing, check_path, parents
from gitsync.template.plan import Plan, Side
from gitsync.text import printable
from gitsync.tree import Kind

_PREPARED, _DONE = "journal.json", "done.json"
_SYNC_ALL = 200  # above so many files one sync of everything is cheaper than one per file
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_MAX_JOURNAL = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Move:
    """One path: `old` must stand there before, `new` after; None means nothing."""

    number: int
    path: str
    old: Side | None
    new: Side | None


def apply_plan(root: Path, plan: Plan) -> None:
    """Make the checkout at `root` equal to the plan, or raise and leave it as it was."""
    if not plan.changes:
        return
    try:
        with open_folder(root, "") as top, _journal(top) as journal:
            _recover(top, journal)
            _apply(top, journal, plan)
    except OSError as e:
        raise Conflict(f"The checkout cannot be written: {e.strerror or e}.") from e


def _apply(top: int, journal: int, plan: Plan) -> None:
    moves = _moves(plan)
    try:
        for move in moves:
            data = plan.changes[move.path][1]
            if data is not None:
                _stage(journal, move, data, is_synced=len(moves) <= _SYNC_ALL)
        if len(moves) > _SYNC_ALL:
            os.sync()
        made = _new_folders(top, moves)
        _write_journal(journal, moves, made)
    except OSError:
        _clear(journal)  # nothing has been touched yet
        raise
    try:
        for move in moves:
            if move.old is not None:
                _take(top, journal, move)
        _drop_empty_folders(top, moves)
        for move in moves:
            if move.new is not None:
                _put(top, journal, move)
        _sync_folders(top, moves)
    except (OSError, Conflict) as e:
        _roll_back(top, journal, moves, made)
        _clear(journal)
        reason = e.message if isinstance(e, Conflict) else f"{e.strerror}: {e.filename}"
        raise Conflict(
            f"The checkout changed while the template was applied ({printable(str(reason))}). "
            "Everything is as before; try again."
        ) from e
    os.rename(_PREPARED, _DONE, src_dir_fd=journal, dst_dir_fd=journal)
    os.fsync(journal)
    _clear(journal)


def recover(root: Path) -> bool:
    """Finish or undo what a killed apply left behind; True if there was something."""
    with open_folder(root, "") as top:
        try:
            os.stat(JOURNAL, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return False
        with _journal(top) as journal:
            return _recover(top, journal)


def _moves(plan: Plan) -> list[_Move]:
    """Deletions first, so that a file can become a folder and the reverse."""
    moves = []
    ordered = sorted(plan.changes, key=lambda p: (plan.changes[p][1] is not None, p))
    for number, path in enumerate(ordered):
        kind, data = plan.changes[path]
        new = Side(kind, blob_id(data)) if data is not None else None
        old = plan.before.get(path)
        if old is not None and not old.is_content:
            old = None  # a folder that deletions empty
        moves.append(_Move(number, _checked(path, new), old, new))
    return moves


@contextlib.contextmanager
def _journal(top: int) -> Iterator[int]:
    """The journal's folder, locked; removed at the end if it is empty."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(JOURNAL, 0o700, dir_fd=top)
        try:
            folder = os.open(JOURNAL, FOLDER_FLAGS, dir_fd=top)
        except FileNotFoundError:
            continue
        except OSError as e:
            raise Conflict(f"{JOURNAL} is no folder; move it away.") from e
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                raise Conflict("Another apply is at work in this checkout.") from e
            if not _is_same(top, folder):
                continue  # the one before us removed it in between
            try:
                yield folder
            finally:
                if not _names(folder):
                    os.rmdir(JOURNAL, dir_fd=top)
            return
        finally:
            os.close(folder)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _is_same(top: int, journal: int) -> bool:
    try:
        there = os.stat(JOURNAL, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(journal))


def _stage(journal: int, move: _Move, data: bytes, *, is_synced: bool) -> None:
    name = f"new-{move.number}"
    if move.new is not None and move.new.kind is Kind.LINK:
        os.symlink(data, os.fsencode(name), dir_fd=journal)
        return
    executable = move.new is not None and move.new.kind is Kind.EXECUTABLE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(
        os.open(name, flags, 0o777 if executable else 0o666, dir_fd=journal), "wb"
    ) as file:
        file.write(data)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())


def _new_folders(top: int, moves: list[_Move]) -> list[str]:
    """Folders that do not exist yet, outermost first: a roll-back removes them again."""
    made = []
    for folder in sorted({f for m in moves if m.new is not None for f in parents(m.path)}):
        try:
            with open_folder(top, folder):
                pass
        except OSError:
            made.append(folder)
    return made


def _write_journal(journal: int, moves: list[_Move], made: list[str]) -> None:
    body = {
        "schema": 1,
        "folders": made,
        "moves": [
            {
                "path": m.path,
                "old": str(m.old) if m.old else None,
                "new": str(m.new) if m.new else None,
            }
            for m in moves
        ],
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    for name, text in ((".gitignore", "*\n"), ("part", json.dumps(body))):
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=journal), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    os.rename("part", _PREPARED, src_dir_fd=journal, dst_dir_fd=journal)
    os.fsync(journal)


def _read_journal(journal: int) -> tuple[list[_Move], list[str]]:
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(_PREPARED, flags, dir_fd=journal), "rb") as file:
        raw = file.read(_MAX_JOURNAL)
    try:
        body = json.loads(raw)
        moves = [
            _Move(n, _checked(m["path"], m["new"]), _parse_side(m["old"]), _parse_side(m["new"]))
            for n, m in enumerate(body["moves"])
        ]
        return moves, [check_existing(folder) for folder in body["folders"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise InvalidInput(f"{JOURNAL}/{_PREPARED} is damaged; look at it and remove it.") from e


def _checked(path: str, new: object) -> str:
    return check_existing(path) if new is None else check_path(path)


def _parse_side(text: Any) -> Side | None:
    if text is None:
        return None
    mode, _, blob = text.partition(" ")
    return Side(Kind(mode), blob)


@contextlib.contextmanager
def _parent(top: int, path: str, *, is_made: bool = False) -> Iterator[tuple[int, str]]:
    """The folder of `path`, opened without following a link, and the name in it."""
    if is_made:
        for folder in parents(path):
            above, _, name = folder.rpartition("/")
            with open_folder(top, above) as here:
                try:
                    os.mkdir(name, dir_fd=here)
                except FileExistsError:
                    continue
    above, _, name = path.rpartition("/")
    with open_folder(top, above) as here:
        yield here, name


def _side(folder: int, name: str) -> Side | None:
    """What a name in a folder is, with its blob."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        return Side(Kind.LINK, blob_id(os.fsencode(os.readlink(name, dir_fd=folder))))
    if not stat.S_ISREG(status.st_mode):
        return Side(Kind.FOLDER, "")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        kind = Kind.EXECUTABLE if status.st_mode & 0o100 else Kind.FILE
        return Side(kind, blob_id(file.read()))


def _take(top: int, journal: int, move: _Move) -> None:
    """Move what stands at the path into the journal, and make sure that it is what was planned."""
    with _parent(top, move.path) as (here, name):
        os.rename(name, f"old-{move.number}", src_dir_fd=here, dst_dir_fd=journal)
    if _side(journal, f"old-{move.number}") != move.old:
        raise Conflict(f"'{move.path}' was changed meanwhile")


def _put(top: int, journal: int, move: _Move) -> None:
    with _parent(top, move.path, is_made=True) as (here, name):
        _link(journal, f"new-{move.number}", here, name)


def _link(source: int, old: str, target: int, new: str) -> None:
    """The same file under a second name; fails if anything stands there."""
    mode = os.stat(old, dir_fd=source, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):  # put there by somebody else while we moved the path away
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(old, dir_fd=source), new, dir_fd=target)
    else:
        try:
            os.link(old, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError as e:
            if e.errno not in _NO_LINKS:
                raise
            _move(source, old, target, new)


def _move(source: int, old: str, target: int, new: str) -> None:
    """For file systems without hard links: a look before the move, in place of the kernel's."""
    if _side(target, new) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)


def _drop_empty_folders(top: int, moves: list[_Move]) -> None:
    """Folders that the deletions emptied and nothing new needs; Git knows no empty folder."""
    needed = {folder for m in moves if m.new is not None for folder in parents(m.path)}
    gone = {folder for m in moves if m.new is None for folder in parents(m.path)} - needed
    for folder in sorted(gone, key=lambda f: -f.count("/")):
        _rmdir(top, folder)


def _rmdir(top: int, folder: str) -> None:
    above, _, name = folder.rpartition("/")
    try:
        with open_folder(top, above) as here:
            os.rmdir(name, dir_fd=here)
    except OSError:
        return  # not empty, or not there: then it stays as it is


def _sync_folders(top: int, moves: list[_Move]) -> None:
    for folder in sorted({m.path.rpartition("/")[0] for m in moves}):
        try:
            with open_folder(top, folder) as here:
                os.fsync(here)
        except (FileNotFoundError, NotADirectoryError):
            continue  # emptied and removed, or no folder any more


def _recover(top: int, journal: int) -> bool:
    names = _names(journal)
    if _PREPARED in names:
        moves, made = _read_journal(journal)
        _roll_back(top, journal, moves, made)
    _clear(journal)
    return bool(names)


def _roll_back(top: int, journal: int, moves: list[_Move], made: list[str]) -> None:
    """Undo in reverse order; each step may have happened or not."""
    stuck = [m.path for m in reversed(moves) if m.new is not None and not _unput(top, journal, m)]
    for folder in reversed(made):
        _rmdir(top, folder)
    stuck += [m.path for m in reversed(moves) if m.old is not None and not _untake(top, journal, m)]
    if stuck:
        listed = ", ".join(printable(path) for path in sorted(set(stuck))[:5])
        raise Conflict(
            f"An interrupted apply cannot be undone at {listed}: something newer stands there. "
            f"Move it away and repeat the command; the old files are in {JOURNAL}."
        )


def _unput(top: int, journal: int, move: _Move) -> bool:
    """Remove what we put there; False if it was edited since."""
    try:
        with _parent(top, move.path) as (here, name):
            there = _side(here, name)
            if there is None or not _is_ours(journal, move, here, name):
                return True
            if there != move.new:
                return False
            os.unlink(name, dir_fd=here)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return True


def _is_ours(journal: int, move: _Move, folder: int, name: str) -> bool:
    try:
        staged = os.stat(f"new-{move.number}", dir_fd=journal, follow_symlinks=False)
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _side(folder, name) == move.new  # it was moved, not linked
    return os.path.samestat(staged, there) or _side(folder, name) == move.new


def _untake(top: int, journal: int, move: _Move) -> bool:
    """Put the old file back where it was; False if something stands there."""
    old = f"old-{move.number}"
    try:
        os.stat(old, dir_fd=journal, follow_symlinks=False)
    except FileNotFoundError:
        return True  # it never left
    try:
        with _parent(top, move.path, is_made=True) as (here, name):
            try:
                _link(journal, old, here, name)
            except FileExistsError:
                if _side(here, name) != _side(journal, old):
                    return False
    except OSError:
        return False
    with contextlib.suppress(FileNotFoundError):
        os.unlink(old, dir_fd=journal)
    return True


def _clear(journal: int) -> None:
    """Empty the journal; the record of what happened goes last."""
    names = [n for n in _names(journal) if n not in (_PREPARED, _DONE)]
    # Prepared with old files gone would look like a roll-back that has nothing to restore: fine.
    for name in [*names, _PREPARED, _DONE]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=journal)
