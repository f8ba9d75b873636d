"""From nothing to a workspace with its first commit, in one call that may be killed anywhere.

Promise: the name is reserved and what was asked is remembered in one transaction; every later step
may run twice and writes the same commit; a branch is made only where there is none, so that nobody
else's commit is ever overwritten. Whoever repeats the request under the same key gets the same
answer; a server that starts again goes on by itself. What cannot be finished is taken back whole.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from gitsync.apply import commit_plan
from gitsync.connect import Created, chosen_identity, enroll, full_ref, webhook_secrets_of
from gitsync.errors import Conflict, GitSyncError, InvalidInput
from gitsync.git.child import Guard
from gitsync.git.failures import RefMoved
from gitsync.git.host import adopt_head, create_repository
from gitsync.git.lock import RepoLock
from gitsync.git.objects import has_commit, is_ancestor
from gitsync.git.refs import local_tips
from gitsync.git.write import move_branch
from gitsync.instance import Instance
from gitsync.model import Identity, Sha, Signature
from gitsync.records import Trigger, User, Workspace, WorkspaceState
from gitsync.store import bootstraps, commits, creations, events, syncs, turns, workspaces
from gitsync.store.bootstraps import DONE, WRITTEN, YIELDED, Bootstrap
from gitsync.store.creations import Asked
from gitsync.sync.objects import held_repository, is_usable, repository_of
from gitsync.template import select_workspace
from gitsync.template.catalogue import Catalogue, builtin
from gitsync.template.files import EmptyTree
from gitsync.template.plan import Plan
from gitsync.template.starter import plan_workspace
from gitsync.text import printable

log = logging.getLogger(__name__)

ABANDONED = timedelta(seconds=60)
PATIENCE = 20  # attempts after restarts, before a workspace that cannot be made is given up
_UNDO_WAIT_S = 5.0
_DELETED = "The workspace was deleted while it was made."


class RepositoryNotEmpty(Conflict):
    """Somebody else's commit is there: it stays, and the template is not applied."""

    code = "REPOSITORY_NOT_EMPTY"


class RepositoryUnwritable(GitSyncError):
    """The disk refuses: the workspace cannot be made now."""

    code = "REPOSITORY_UNWRITABLE"
    transient = True


class NotFinished(Conflict):
    """The workspace was suspended or disconnected while it was made."""


class Vanished(Conflict):
    """The workspace was deleted while it was made."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a new workspace is to hold; `skills` None means the default ones."""

    starters: tuple[str, ...] = ()
    skills: tuple[str, ...] | None = None
    parameters: Mapping[str, str | int | float | bool] | None = None


@dataclass(frozen=True, slots=True)
class Born:
    """A new workspace and its first commit."""

    created: Created
    commit_sha: str


def create_workspace(
    instance: Instance,
    *,
    name: str,
    identity: str | None,
    wanted: Wanted,
    default_branch: str | None,
    watch: str,
    creator: User,
    request_key: str | None = None,
) -> Born:
    """Make a workspace on the embedded host from the template; its first sync follows at once."""
    who, warnings = chosen_identity(name, identity)
    asked = Asked.under(
        request_key, creator.id, name, str(who), _as_json(wanted), default_branch, watch
    )
    known = None
    if asked is not None:
        with instance.database.read() as db:
            known = creations.find_creation(db, asked, now=instance.now())
    if known is not None:
        workspace_id = known.workspace_id
    else:
        workspace_id = _reserve(
            instance,
            name=name,
            identity=who,
            wanted=wanted,
            branch=full_ref(default_branch or "main"),
            chosen_branch=None if default_branch is None else full_ref(default_branch),
            watch=watch,
            creator=creator,
            asked=asked,
        )
    try:
        made = _make(instance, workspace_id)
    except RepositoryNotEmpty:
        _yield(instance, workspace_id)
        raise
    except (GitSyncError, OSError) as e:
        is_gone = _find(instance, workspace_id) is None
        undo(instance, workspace_id)
        if is_gone:
            raise Vanished(_DELETED) from e
        if isinstance(e, OSError):
            raise _unwritable(e) from e
        raise
    return _answer(instance, made, warnings)


def _as_json(wanted: Wanted) -> list[object]:
    skills = None if wanted.skills is None else list(wanted.skills)
    return [list(wanted.starters), skills, dict(sorted((wanted.parameters or {}).items()))]


def plan_first(
    catalogue: Catalogue, wanted: Wanted, *, identity: Identity
) -> tuple[Plan, Mapping[str, object]]:
    """Everything the first commit holds, and the parameters that made it.

    A wrong name or value is an `InvalidInput` whose field lies below `create`.
    """
    for field, names, known in (
        ("starters", wanted.starters, catalogue.starters),
        ("skills", wanted.skills or (), catalogue.skills),
    ):
        for name in names:
            if name not in known:
                raise InvalidInput(
                    f"There is no {field[:-1]} '{printable(name, limit=80)}'. There are: "
                    f"{', '.join(known)}.",
                    field=f"create.{field}",
                )
    given: dict[str, object] = dict(wanted.parameters or {})
    if "workspace" not in given:
        # the heading of the README: the repository's own name where it can be one
        default = identity.repo.lower().replace("_", "-").replace(".", "-")
        parameter = next(p for p in catalogue.parameters.items if p.name == "workspace")
        try:
            given["workspace"] = parameter.check(default)
        except InvalidInput:
            given["workspace"] = parameter.default
    try:
        selection = select_workspace(catalogue, wanted.starters, wanted.skills, given)
        return plan_workspace(EmptyTree(), catalogue, selection), given
    except InvalidInput as e:
        field = ".".join(("create", *filter(None, [e.details.get("field")])))
        raise InvalidInput(e.message, field=field) from e


def _reserve(
    instance: Instance,
    *,
    name: str,
    identity: Identity,
    wanted: Wanted,
    branch: str,
    chosen_branch: str | None,
    watch: str,
    creator: User,
    asked: Asked | None,
) -> str:
    """Name, identity and what was asked, in one transaction; the id of the workspace."""
    _, parameters = plan_first(builtin(), wanted, identity=identity)
    now = instance.now()
    with instance.database.write() as db:
        workspace = enroll(
            db,
            instance,
            name=name,
            identity=identity,
            provider="embedded",
            clone_url=None,
            watch=watch,
            chosen_branch=chosen_branch,
            created_by=creator.id,
            webhook_secret=secrets.token_hex(32),
            now=now,
        )
        bootstraps.add_bootstrap(
            db,
            workspace.id,
            user_id=creator.id,
            starters=list(wanted.starters),
            skills=None if wanted.skills is None else list(wanted.skills),
            parameters=dict(parameters),
            branch=branch,
            message=_message(wanted),
            author_name=creator.name,
            author_email=creator.email,
            author_time=int(now.timestamp()),
            boot=instance.boot,
            now=now,
        )
        if asked is not None:
            creations.add_creation(db, workspace.id, asked, now=now)
    instance.at("bootstrap.reserved")
    return workspace.id


def _message(wanted: Wanted) -> str:
    if not wanted.starters:
        return "Start from the workspace template"
    return f"Start from the workspace template\n\nStarters: {', '.join(wanted.starters)}"


# -- the steps ------------------------------------------------------------------------------------


def _make(instance: Instance, workspace_id: str) -> Bootstrap:
    """Go on from wherever the row says the work is; the row when it is done."""
    row = _find(instance, workspace_id)
    if row is None:
        raise Vanished(_DELETED)
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
    if not row.is_open:
        return row
    if workspace.state is WorkspaceState.DISCONNECTED:
        _yield(instance, workspace_id)
        raise NotFinished("The workspace was disconnected while it was made.")
    path = repository_of(instance, workspace)
    with held_repository(instance, workspace) as guard:
        create_repository(path, head=row.branch)
        instance.at("bootstrap.repository")
        sha = _commit(instance, workspace, row, path)
        _place(path, row.branch, sha, guard)
    instance.at("bootstrap.moved")
    _close(instance, workspace_id, sha)
    instance.at("bootstrap.done")
    instance.wake(workspace_id)
    done = _find(instance, workspace_id)
    if done is None:
        raise Vanished(_DELETED)
    return done


def _find(instance: Instance, workspace_id: str) -> Bootstrap | None:
    with instance.database.read() as db:
        return bootstraps.find_bootstrap(db, workspace_id)


def _commit(instance: Instance, workspace: Workspace, row: Bootstrap, path: Path) -> Sha:
    """The first commit: the one that is noted, if it was written, else written and noted now."""
    if row.commit_sha is not None and has_commit(path, row.commit_sha):
        return Sha(row.commit_sha)
    wanted = Wanted(row.starters, row.skills, row.parameters)
    plan, _ = plan_first(builtin(), wanted, identity=Identity.parse(workspace.identity))
    author = Signature(row.author_name, row.author_email, row.author_time)
    sha = commit_plan(path, base=None, plan=plan, message=row.message, author=author)
    instance.at("bootstrap.written")
    # before the branch is made: a template that changed meanwhile would give another commit, and
    # our own branch would look like somebody else's
    with instance.database.write() as db:
        if not bootstraps.advance(
            db, workspace.id, WRITTEN, commit_sha=sha, now=instance.now()
        ) and not bootstraps.find_bootstrap(db, workspace.id):
            raise Vanished(_DELETED)
    instance.at("bootstrap.noted")
    return sha


def _place(path: Path, branch: str, sha: Sha, guard: Guard) -> None:
    """Make the branch, unless it leads to our commit already."""
    for last in (False, True):
        heads = local_tips(path).heads
        tip = heads.get(branch)
        if tip is not None and (tip == sha or is_ancestor(path, sha, tip)):
            break  # an earlier attempt made it; somebody may have pushed on top of it since
        if heads:
            raise RepositoryNotEmpty(
                f"Somebody pushed {printable(next(iter(heads)), limit=200)} before the first "
                "commit was there. That commit stays and nothing was written over it; add the "
                "template's files with `gitsync workspace adopt`."
            )
        try:
            move_branch(path, branch, sha, expected=None, guard=guard)
            break
        except RefMoved:
            if last:
                raise
    adopt_head(path, [branch])


def _close(instance: Instance, workspace_id: str, sha: Sha) -> None:
    """Ask for the first sync and close the row, in one transaction."""
    now = instance.now()
    with instance.database.write() as db:
        workspace = workspaces.lock_workspace(db, workspace_id)
        row = bootstraps.find_bootstrap(db, workspace_id)
        if row is None or not row.is_open:
            return
        sync_id = None
        if workspace.state is WorkspaceState.ACTIVE:
            sync_id = syncs.add_sync(
                db, workspace_id, trigger=Trigger.CONNECT, now=now, requested_by=row.user_id
            )
            turns.bump(db, workspace_id, lifts="backoff")
            commits.announce_commit(
                db,
                workspace_id,
                sha,
                branch=row.branch,
                delivery_id=None,
                sync_id=sync_id,
                now=now,
            )
        bootstraps.advance(db, workspace_id, DONE, sync_id=sync_id, commit_sha=sha, now=now)
        events.add_event(db, "workspace.changed", {}, workspace_id=workspace_id, now=now)


def _answer(instance: Instance, row: Bootstrap, warnings: tuple[str, ...]) -> Born:
    with instance.database.read() as db:
        workspace = workspaces.get_workspace(db, row.workspace_id)
    if row.state != DONE and workspace.state is WorkspaceState.ACTIVE:
        raise RepositoryNotEmpty(
            "Somebody pushed to the workspace before its first commit was there; theirs stays."
        )
    if row.sync_id is None or row.commit_sha is None:
        raise NotFinished("The workspace was suspended or disconnected while it was made.")
    secret = next(iter(webhook_secrets_of(instance, row.workspace_id)), "")
    created = Created(workspace, row.sync_id, secret, None, warnings)
    return Born(created, row.commit_sha)


# -- when it cannot be done -----------------------------------------------------------------------


def _unwritable(error: OSError) -> RepositoryUnwritable:
    return RepositoryUnwritable(f"The repository cannot be written: {error.strerror}.")


def _yield(instance: Instance, workspace_id: str) -> None:
    """Leave the workspace as it is: it belongs to whoever pushed, or is disconnected."""
    with instance.database.write() as db:
        bootstraps.advance(db, workspace_id, YIELDED, now=instance.now())


def undo(instance: Instance, workspace_id: str) -> bool:
    """Take back a workspace that could not be made; False if something in it is not ours alone.

    Nobody pushes meanwhile: the repository's lock is held alone, and a branch, whoever made it,
    keeps the workspace.
    """
    path = instance.repository_of(workspace_id, is_embedded=True)
    try:
        with RepoLock(path).held(wait=_UNDO_WAIT_S):
            has_branch = is_usable(path) and bool(local_tips(path).heads)
            row = _find(instance, workspace_id)
            # without a row its owner deleted it, and only our last step made the folder again
            if row is not None and (has_branch or not row.is_open):
                return False
            # the row goes last: whoever is killed here finds it, and takes it back again
            shutil.rmtree(path, ignore_errors=True)
            instance.at("bootstrap.undone")
            if row is not None:
                _forget(instance, workspace_id)
    except (GitSyncError, OSError) as e:
        log.warning("bootstrap not undone workspace=%s reason=%s", workspace_id, e)
        return False
    return True


def _forget(instance: Instance, workspace_id: str) -> None:
    with instance.database.write() as db:
        workspaces.delete_workspace(db, workspace_id)
        events.add_event(
            db,
            "workspace.deleted",
            {"workspace": workspace_id},
            workspace_id=None,
            now=instance.now(),
        )


def resume(instance: Instance) -> int:
    """Go on with every workspace whose making a dead server left; how many were finished."""
    done = 0
    for workspace_id in _claimed(instance, now=instance.now()):
        if instance.stopping.is_set():
            break
        try:
            _make(instance, workspace_id)
            done += 1
            log.info("bootstrap finished workspace=%s", workspace_id)
        except RepositoryNotEmpty:
            _yield(instance, workspace_id)
        except Vanished:
            undo(instance, workspace_id)
        except (GitSyncError, OSError) as e:
            _fail(instance, workspace_id, _unwritable(e) if isinstance(e, OSError) else e)
    return done


def _claimed(instance: Instance, *, now: datetime) -> list[str]:
    with instance.database.read() as db:
        if not bootstraps.any_open(db):
            return []
    with instance.database.write() as db:
        return bootstraps.claim(
            db,
            boot=instance.boot,
            stale=now - ABANDONED,
            alone=instance.database.is_sqlite,
            now=now,
        )


def _fail(instance: Instance, workspace_id: str, error: GitSyncError) -> None:
    """Say why on the workspace, and try again in a minute; give it back if that does not help."""
    log.warning("bootstrap failed workspace=%s code=%s", workspace_id, error.code)
    row = _find(instance, workspace_id)
    if row is None:
        return
    is_hopeless = not error.transient or row.attempts >= PATIENCE
    if is_hopeless and undo(instance, workspace_id):
        return
    noted = {"code": error.code, "message": error.message, "transient": error.transient}
    with instance.database.write() as db:
        workspaces.change_workspace(db, workspace_id, last_error=noted)
