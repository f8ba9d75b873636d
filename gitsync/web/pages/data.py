"""`/workspaces/{id}/datasets` and `…/secrets`: what runs work with.

Promise: the value of a secret is on no page, neither after it was set nor in a refusal.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import RedirectResponse, Response

from gitsync import datasets as story
from gitsync import secrets as vault
from gitsync.data_records import Dataset
from gitsync.errors import GitSyncError, InvalidInput
from gitsync.instance import Instance
from gitsync.store import datasets, events, secrets
from gitsync.web import wire
from gitsync.web.api.datasets import content as content_of
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import MemberRoom, PageRoute, ReaderRoom, Room, back_to, notice_of
from gitsync.web.pages.render import page, path_to
from gitsync.web.pages.workspace import live_link
from gitsync.web.query import WindowDep
from gitsync.web.session import FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
DATASETS = "/workspaces/{workspace_id}/datasets"
SECRETS = "/workspaces/{workspace_id}/secrets"
COLUMNS, ROWS, CELL, LOG_LINES = 8, 10, 300, 100
Name = Annotated[str, Path(max_length=255)]
Before = Annotated[int | None, Query(ge=1, le=2**62, description="Log lines older than this.")]


# -- data sets ------------------------------------------------------------------------------------


@router.get(DATASETS)
def list_datasets(
    room: ReaderRoom, request: Request, instance: InstanceDep, window: WindowDep
) -> Response:
    """Newest first, and how to upload one."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = datasets.page_datasets(
            db, room.workspace.id, limit=window.limit, after=window.after
        )
        taken = datasets.total_size(db, room.workspace.id)
    return page(
        request,
        "datasets.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="datasets",
        live=live_link(room),
        last=last,
        found=found,
        taken=taken,
        most=instance.settings.max_datasets_mb * 2**20,
        notice=notice_of(request),
    )


@router.get(DATASETS + "/{name}")
def show_dataset(
    name: Name,
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    before: Before = None,
) -> Response:
    """One data set: its first rows, what is wrong with it, what happened to it."""
    dataset = story.get(instance, room.workspace, name)
    with instance.database.read() as db:
        last = events.last_event_id(db)
        lines, older = datasets.logs_of(db, dataset.id, limit=LOG_LINES, before=before)
    columns, rows, hidden = _preview(dataset)
    return page(
        request,
        "dataset.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="datasets",
        live=live_link(room),
        last=last,
        dataset=dataset,
        columns=columns,
        rows=rows,
        hidden=hidden,
        lines=lines,
        older=older,
        notice=notice_of(request),
    )


def _preview(dataset: Dataset) -> tuple[list[str], list[list[str]], int]:
    """Columns, the first rows as text, and how many columns are left out."""
    rows = list(dataset.preview or ())[:ROWS]
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = names[:COLUMNS]
    cells = [[_cell(row[name]) if name in row else "" for name in shown] for row in rows]
    return shown, cells, len(names) - len(shown)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


@router.get(DATASETS + "/{name}/content")
def content(name: Name, room: ReaderRoom, instance: InstanceDep) -> Response:
    """The file as it was uploaded."""
    return content_of(name, room.workspace, instance)


@router.post(DATASETS + "/{name}/delete")
def delete_dataset(
    form: FormDep, name: Name, room: MemberRoom, instance: InstanceDep
) -> RedirectResponse:
    """Take it away with all its older contents."""
    story.delete(instance, room.workspace, name)
    return back_to(path_to("workspaces", room.workspace.id, "datasets"), "dataset-gone")


@router.post(DATASETS + "/{name}/abort")
def abort(form: FormDep, name: Name, room: MemberRoom, instance: InstanceDep) -> RedirectResponse:
    """End an upload, or dismiss a refused one."""
    story.abort(instance, room.workspace, name)
    return back_to(path_to("workspaces", room.workspace.id, "datasets"), "upload-gone")


# -- secrets --------------------------------------------------------------------------------------


def _secrets(
    room: Room,
    request: Request,
    instance: Instance,
    *,
    after: str | None = None,
    status: int = 200,
    refused: str | None = None,
    given: str = "",
) -> Response:
    with instance.database.read() as db:
        found = secrets.page_secrets(
            db,
            room.workspace.id,
            user_id=room.viewer.user.id,
            scope="all",
            limit=100,
            after=after,
        )
    return page(
        request,
        "secrets.html",
        viewer=room.viewer,
        status=status,
        room=room,
        ws=room.workspace,
        tab="secrets",
        found=found,
        hidden=_hidden(found.items),
        refused=refused,
        given=given,
        notice=notice_of(request) if refused is None else None,
    )


def _hidden(items: tuple[Any, ...]) -> set[str]:
    """Names for which a secret of one's own hides the workspace's."""
    own = {secret.name for secret in items if secret.scope == "user"}
    return {secret.name for secret in items if secret.scope == "workspace"} & own


def _scope(text: str) -> Literal["workspace", "user"]:
    if text == "workspace":
        return "workspace"
    if text == "user":
        return "user"
    raise InvalidInput("Choose whose secret it is.", field="scope")


@router.get(SECRETS)
def list_secrets(
    room: ReaderRoom, request: Request, instance: InstanceDep, window: WindowDep
) -> Response:
    """Names of the workspace's secrets and of one's own."""
    return _secrets(room, request, instance, after=window.after)


@router.post(SECRETS)
def set_secret(
    form: FormDep, room: MemberRoom, request: Request, instance: InstanceDep
) -> Response:
    """Add or replace one; the value is taken as it is, spaces and all."""
    name, value = form.text("name"), form.fields.get("value", "")
    try:
        vault.put(
            instance,
            room.workspace,
            user_id=room.viewer.user.id,
            role=room.role,
            scope=_scope(form.text("scope")),
            name=name,
            value=value if isinstance(value, str) else "",
        )
    except GitSyncError as e:
        status = wire.status_of(e)
        return _secrets(room, request, instance, status=status, refused=e.message, given=name)
    return back_to(path_to("workspaces", room.workspace.id, "secrets"), "secret")


@router.post(SECRETS + "/delete")
def delete_secret(
    form: FormDep, room: MemberRoom, request: Request, instance: InstanceDep
) -> Response:
    """Remove one."""
    try:
        vault.delete(
            instance,
            room.workspace,
            user_id=room.viewer.user.id,
            role=room.role,
            scope=_scope(form.text("scope")),
            name=form.text("name"),
        )
    except GitSyncError as e:
        status = wire.status_of(e)
        return _secrets(room, request, instance, status=status, refused=e.message)
    return back_to(path_to("workspaces", room.workspace.id, "secrets"), "secret-gone")
