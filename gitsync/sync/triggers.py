"""What asks for a look: webhook, native push, poll, a person, a waiting reader.

Promise: when one of these returns, the request is a committed row; the engine is woken afterwards.
A payload is a hint: it decides nothing but which look is asked for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from gitsync.errors import Conflict
from gitsync.git.pushes import Pushed
from gitsync.git.remote import is_ref
from gitsync.instance import Instance
from gitsync.records import Delivery, Trigger, Workspace, WorkspaceState
from gitsync.store import Connection, commits, events, new_id, syncs, turns, workspaces
from gitsync.sync.drift import drifted
from gitsync.text import printable, storable

READER_PAUSE = timedelta(seconds=2)  # a waiting reader may ask for one look in this time


@dataclass(frozen=True, slots=True)
class Announced:
    """A verified delivery, reduced to what the sync story needs; full refs."""

    delivery_id: str
    event: str
    ref: str | None
    before_sha: str | None
    after_sha: str | None
    ignored: str | None = None  # why it asks for no look


def take_delivery(instance: Instance, workspace: Workspace, announced: Announced) -> Delivery:
    """Store a verified delivery and what it asks for; the answer may be sent afterwards."""
    now = instance.now()
    reason = announced.ignored or _not_watched(instance, workspace, announced.ref)
    with instance.database.write(urgent=True) as db:
        instance.at("delivery.transaction")
        current = workspaces.lock_workspace(db, workspace.id)
        if current.state is not WorkspaceState.ACTIVE:
            reason = f"The workspace is {current.state.value}."
        sync_id = None
        if reason is None:
            sync_id = ask(db, current, Trigger.WEBHOOK, now=now, lifts="backoff")
        row_id = syncs.put_delivery(
            db,
            workspace.id,
            provider=workspace.provider,
            delivery_id=announced.delivery_id,
            event=announced.event,
            ref=None if announced.ref is None else storable(announced.ref, limit=2000),
            before_sha=announced.before_sha,
            after_sha=announced.after_sha,
            outcome="queued" if sync_id is not None else "ignored",
            reason=reason,
            sync_id=sync_id,
            now=now,
        )
        if sync_id is not None and announced.ref is not None:
            _announce(db, workspace.id, announced.ref, announced.after_sha, row_id, sync_id, now)
        _tell(db, workspace.id, row_id, announced.event, now)
        found = syncs.get_delivery(db, workspace.id, row_id)
    instance.at("delivery.committed")
    instance.wake(workspace.id)
    return found


def redeliver(instance: Instance, workspace: Workspace, row_id: int) -> Delivery:
    """Take a stored delivery again, as a new row that names the old one."""
    now = instance.now()
    with instance.database.write() as db:
        old = syncs.get_delivery(db, workspace.id, row_id)
        active(workspaces.lock_workspace(db, workspace.id))
        sync_id = ask(db, workspace, Trigger.WEBHOOK, now=now, lifts="backoff")
        fresh = syncs.put_delivery(
            db,
            workspace.id,
            provider=old.provider,
            delivery_id=new_id("redelivery"),
            event=old.event,
            ref=old.ref,
            before_sha=old.before_sha,
            after_sha=old.after_sha,
            outcome="queued",
            reason=None,
            sync_id=sync_id,
            redelivery_of=old.id,
            now=now,
        )
        if old.ref is not None:
            _announce(db, workspace.id, old.ref, old.after_sha, fresh, sync_id, now)
        _tell(db, workspace.id, fresh, old.event, now)
        found = syncs.get_delivery(db, workspace.id, fresh)
    instance.wake(workspace.id)
    return found


def _not_watched(instance: Instance, workspace: Workspace, ref: str | None) -> str | None:
    """Why a ref asks for no look, None if it does."""
    if ref is None:
        return None
    shown = printable(ref, limit=200)
    if not ref.startswith("refs/heads/"):
        return f"{shown} is no branch."
    if not is_ref(ref):
        return f"{shown} is no valid name of a branch."
    if workspace.watch == "all":
        return None
    watched = workspace.chosen_branch or workspace.default_branch
    # a push may come before the first look, or announce a renamed default branch: ask then
    if watched is None or watched == ref:
        return None
    with instance.database.read() as db:
        row = workspaces.find_branch(db, workspace.id, ref)
        default = workspaces.find_branch(db, workspace.id, watched)
    if (row is not None and row.state == "live") or default is None or default.state != "live":
        return None
    return f"{shown} is not watched; the workspace follows {printable(watched, limit=200)}."


def before_push(instance: Instance, workspace: Workspace) -> None:
    """Before git moves a ref of an embedded repository: ask for the look that must follow.

    A server that dies now leaves a child that may move the ref later (decision 19).
    """
    with instance.database.write(urgent=True) as db:
        active(workspaces.lock_workspace(db, workspace.id))
        turns.bump(db, workspace.id)
    instance.at("push.before")


def after_push(instance: Instance, workspace: Workspace, pushed: Pushed) -> int | None:
    """After git moved refs: one delivery per branch; the sync that will serve them."""
    now = instance.now()
    done = [command for command in pushed.done if command.ref.startswith("refs/heads/")]
    sync_id = None
    with instance.database.write(urgent=True) as db:
        current = workspaces.lock_workspace(db, workspace.id)
        if current.state is not WorkspaceState.ACTIVE:
            return None
        if done or not pushed.complete:
            sync_id = ask(db, current, Trigger.PUSH, now=now, lifts="backoff")
        push_id = new_id("push")
        for number, command in enumerate(done[:100]):
            row_id = syncs.put_delivery(
                db,
                workspace.id,
                provider="embedded",
                delivery_id=f"{push_id}.{number}",
                event="push",
                ref=storable(command.ref, limit=2000),
                before_sha=command.old,
                after_sha=command.new or "0" * 40,
                outcome="queued",
                reason=None,
                sync_id=sync_id,
                now=now,
            )
            if sync_id is not None and is_followed(current, command.ref):
                _announce(db, workspace.id, command.ref, command.new, row_id, sync_id, now)
            _tell(db, workspace.id, row_id, "push", now)
    instance.at("push.after")
    instance.wake(workspace.id)
    return sync_id


def is_followed(workspace: Workspace, ref: str) -> bool:
    """True if a push to this branch of an embedded repository will be published."""
    if not is_ref(ref):
        return False
    if workspace.watch == "all":
        return True
    watched = workspace.chosen_branch or workspace.default_branch
    return watched is None or watched == ref


def request_sync(instance: Instance, workspace: Workspace, *, by: str | None) -> int:
    """A person asks: also after a refused credential, and for commits that were refused."""
    now = instance.now()
    with instance.database.write() as db:
        active(workspaces.lock_workspace(db, workspace.id))
        sync_id = syncs.add_sync(db, workspace.id, trigger=Trigger.MANUAL, now=now, requested_by=by)
        turns.bump(db, workspace.id, lifts="credential")
    instance.wake(workspace.id)
    return sync_id


def request_look(instance: Instance, workspace_id: str) -> bool:
    """A waiting reader asks for a look; at most one in `READER_PAUSE` per workspace.

    False if it was too early or the workspace is not active.
    """
    now = instance.now()
    with instance.database.write() as db:
        workspace = workspaces.get_workspace(db, workspace_id)
        recent = workspace.last_look_at is not None and now - workspace.last_look_at < READER_PAUSE
        if recent or workspace.requested > workspace.done:
            return False
        asked = turns.bump(db, workspace_id)
    instance.wake(workspace_id)
    return asked is not None


def poll(instance: Instance, *, now: datetime, limit: int = 200) -> list[str]:
    """Ask for looks at all workspaces whose poll is due, and say when the next one is.

    Intervals grow with failures and carry jitter, so that polls neither stop nor bunch up.
    """
    asked = []
    with instance.database.read() as db:
        due = turns.take_due_polls(db, now=now, limit=limit)
    for workspace_id in due:
        with instance.database.write(durable=False) as db:
            workspace = workspaces.get_workspace(db, workspace_id)
            turns.set_next_poll(db, workspace_id, now + poll_pause(instance, workspace.failures))
            instance.at("poll.computed")
            turns.bump(db, workspace_id)
        asked.append(workspace_id)
        instance.wake(workspace_id)
    return asked


def poll_pause(instance: Instance, failures: int) -> timedelta:
    """The time to the next poll."""
    settings = instance.settings
    longest = max(settings.poll_interval_s, settings.backoff_max_s)
    seconds = min(longest, settings.poll_interval_s * 2.0 ** min(failures, 10))
    return timedelta(seconds=seconds * random.uniform(0.8, 1.2))  # noqa: S311 - no secret


def compare_embedded(instance: Instance) -> int:
    """Ask for a look where an embedded repository's refs differ from the rows (decision 19)."""
    found = 0
    with instance.database.read() as db:
        ids = workspaces.all_ids(db, provider="embedded")
    for workspace_id in ids:
        if instance.stopping.is_set():
            break
        with instance.database.read() as db:
            workspace = workspaces.get_workspace(db, workspace_id)
            rows = workspaces.list_branches(db, workspace_id)
        if workspace.requested == workspace.done and drifted(instance, workspace, rows):
            found += 1
            with instance.database.write(durable=False) as db:
                turns.bump(db, workspace_id)
            instance.wake(workspace_id)
    return found


def ask(
    db: Connection, workspace: Workspace, trigger: Trigger, *, now: datetime, lifts: str
) -> int:
    """Bump the workspace and return the sync that will serve the request."""
    sync_id = syncs.ask_sync(db, workspace.id, trigger=trigger, now=now)
    turns.bump(db, workspace.id, lifts=lifts)
    return sync_id


def active(workspace: Workspace) -> None:
    """`Conflict` unless the workspace is followed."""
    if workspace.state is WorkspaceState.SUSPENDED:
        raise Conflict("The workspace is suspended; resume it first.", state="suspended")
    if workspace.state is WorkspaceState.DISCONNECTED:
        raise Conflict("The workspace is disconnected.", state="disconnected")


def _announce(
    db: Connection,
    workspace_id: str,
    ref: str,
    sha: str | None,
    row_id: int,
    sync_id: int,
    now: datetime,
) -> None:
    if sha is not None and len(sha) == 40 and set(sha) != {"0"}:
        commits.announce_commit(
            db, workspace_id, sha, branch=ref, delivery_id=row_id, sync_id=sync_id, now=now
        )


def _tell(db: Connection, workspace_id: str, row_id: int, event: str, now: datetime) -> None:
    events.add_event(
        db,
        "delivery.received",
        {"delivery": row_id, "event": event},
        workspace_id=workspace_id,
        now=now,
    )
