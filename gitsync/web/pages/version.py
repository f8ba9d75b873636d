"""Versions: list, one with all it holds, the difference of two, downloads, pins."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from gitsync import catalogue, resolve, version_files
from gitsync.errors import GitSyncError, InvalidInput
from gitsync.instance import Instance
from gitsync.model import Sha
from gitsync.records import Workspace
from gitsync.store import events, glance, holdings, pins, versions
from gitsync.sync.moves import short
from gitsync.web.api import artifacts
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import MemberRoom, PageRoute, ReaderRoom, back_to, notice_of
from gitsync.web.pages.render import page, path_to
from gitsync.web.pages.workspace import PIECE, BranchQuery, Start, live_link
from gitsync.web.query import ShaDep, WindowDep
from gitsync.web.session import FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_PIN = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_DAYS = {"": None, "30": 30, "90": 90, "365": 365}
_LOOKS = {"+": "plus", "-": "gone", "@": "place"}  # lines of a unified diff
_KINDS = {"100755": "executable", "120000": "link", "160000": "submodule"}
COMPARABLE = 50  # versions offered for a comparison
SHOWN_CONFIGS, SHOWN_USERS = 60, 10
FILES, CHANGED_FILES, CHANGED_CONFIGS, CONFIG_KEYS, CHANGED_ROLLOUTS = 50, 50, 40, 50, 40


@router.get("/workspaces/{workspace_id}/versions")
def list_versions(
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    window: WindowDep,
    branch: BranchQuery = None,
) -> Response:
    """Published versions, newest first."""
    ref = resolve.full_ref(branch) if branch else None
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = holdings.version_lines(
            db, room.workspace.id, limit=window.limit, after=window.after, branch=ref
        )
        seen = versions.branches_seen(db, [line.id for line in found.items])
        branches = glance.watched(db, room.workspace.id)
    return page(
        request,
        "versions.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="versions",
        live=live_link(room),
        last=last,
        found=found,
        seen={key: [short(name) for name in names] for key, names in seen.items()},
        tips={b.published_sha for b in branches},
        branches=branches,
        branch=branch,
    )


@router.get("/workspaces/{workspace_id}/versions/{sha}")
def show(
    sha: ShaDep,
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    start: Start = 0,
    file: Start = 0,
) -> Response:
    """What a version holds, how it is kept, and how it differs from others."""
    with instance.database.read() as db:
        version = holdings.version_without_configs(db, room.workspace.id, sha)
        configs, in_all = holdings.first_configs(db, version, limit=SHOWN_CONFIGS)
        seen = versions.branches_seen(db, [version.id]).get(version.id, [])
        kept = pins.pins_of(db, version.id)
        rollouts = holdings.worst_rollouts(db, version, limit=PIECE, offset=start)
        total = holdings.count_rollouts(db, version)
        others = holdings.version_lines(db, room.workspace.id, limit=COMPARABLE, after=None)
        branches = glance.watched(db, room.workspace.id)
        users = holdings.users_of(db, room.workspace.id, sha, limit=SHOWN_USERS)
    return page(
        request,
        "version.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="versions",
        version_of=catalogue.version_json(version, seen),
        rollouts=[catalogue.rollout_json(rollout) for rollout in rollouts],
        total=total,
        start=start,
        next=start + PIECE if start + len(rollouts) < total else None,
        configs=configs,
        more_configs=in_all - len(configs),
        skills=version.skills,
        pins=kept,
        users=users,
        files=_files(instance, room.workspace, sha, file),
        file=file,
        kinds_of_file=_KINDS,
        sha=str(sha),
        others=[v for v in others.items if v.commit_sha != sha],
        serving=[b for b in branches if b.published_sha == sha],
        notice=notice_of(request),
    )


def _files(
    instance: Instance, workspace: Workspace, sha: Sha, start: int
) -> version_files.Files | None:
    """None if the objects cannot be read now: all else of the page does not need them."""
    try:
        return version_files.files_of(instance, workspace, sha, limit=FILES, offset=start)
    except GitSyncError:
        return None


@router.get("/workspaces/{workspace_id}/versions/{sha}/diff")
def diff(
    sha: ShaDep,
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    base: Annotated[str, Query(alias="from", max_length=40)],
    start: Start = 0,
) -> Response:
    """What changed between two versions."""
    older = Sha.parse(base)
    found = catalogue.difference(instance, room.workspace, older, sha)
    changed = version_files.changes_of(
        instance, room.workspace, older, sha, limit=CHANGED_FILES, offset=start
    )
    return page(
        request,
        "diff.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="versions",
        sha=str(sha),
        base=found["from"],
        diff=found,
        configs=found["configs"][:CHANGED_CONFIGS],
        most_keys=CONFIG_KEYS,
        most=CHANGED_ROLLOUTS,
        changed=changed,
        start=start,
        next=start + CHANGED_FILES if start + len(changed) < len(found["files"]) else None,
        looks=_LOOKS,
    )


@router.get("/workspaces/{workspace_id}/versions/{sha}/archive.tar.gz")
def archive(sha: ShaDep, room: ReaderRoom, instance: InstanceDep, request: Request) -> Response:
    """The full tree, for those who look at the page."""
    return artifacts.archive(sha, room.workspace, instance, request)


@router.get("/workspaces/{workspace_id}/artifacts/{digest}.tar")
def artifact(
    digest: artifacts.Digest, room: ReaderRoom, instance: InstanceDep, request: Request
) -> Response:
    """One rollout's bytes."""
    return artifacts.plain(digest, room.workspace, instance, request)


def _here(room_id: str, sha: Sha) -> str:
    return path_to("workspaces", room_id, "versions", sha)


@router.post("/workspaces/{workspace_id}/versions/{sha}/recheck")
def recheck(form: FormDep, sha: ShaDep, room: MemberRoom, instance: InstanceDep) -> Response:
    """Assess with the present checker."""
    catalogue.recheck(instance, room.workspace, sha)
    return back_to(_here(room.workspace.id, sha), "rechecked")


@router.post("/workspaces/{workspace_id}/versions/{sha}/pin")
def pin(form: FormDep, sha: ShaDep, room: MemberRoom, instance: InstanceDep) -> RedirectResponse:
    """Keep the version."""
    name, reason, days = form.text("name"), form.text("reason"), form.text("days")
    if not _PIN.fullmatch(name):
        raise InvalidInput("A pin's name has letters, digits, `.`, `_`, `:` and `-`.", field="name")
    if days not in _DAYS:
        raise InvalidInput("Choose how long the pin lasts.", field="days")
    lasts = _DAYS[days]
    catalogue.pin(
        instance,
        room.workspace,
        sha,
        name,
        owner=room.viewer.user.id,
        reason=reason[:2000],
        expires_at=None if lasts is None else instance.now() + timedelta(days=lasts),
    )
    return back_to(_here(room.workspace.id, sha), "pinned")


@router.post("/workspaces/{workspace_id}/versions/{sha}/unpin")
def unpin(form: FormDep, sha: ShaDep, room: MemberRoom, instance: InstanceDep) -> RedirectResponse:
    """Let go."""
    with instance.database.write() as db:
        version = versions.get_version(db, room.workspace.id, sha)
        pins.drop_pin(db, version.id, form.text("name"))
    return back_to(_here(room.workspace.id, sha), "unpinned")
