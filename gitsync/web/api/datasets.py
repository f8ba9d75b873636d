"""Data sets of a workspace: announce, send, complete; list, show, logs, content, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field

from gitsync import datasets as story
from gitsync.data_records import Dataset
from gitsync.errors import InvalidInput
from gitsync.store import datasets
from gitsync.uploads import NotReady
from gitsync.web import data_shapes, shapes, wire
from gitsync.web.answers import Responses, may
from gitsync.web.auth import InstanceDep, MemberOf, PersonDep, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import Body, WindowDep, example
from gitsync.web.uploads import content_response

router = APIRouter(tags=["datasets"], route_class=IdempotentRoute)
Name = Annotated[str, Path(max_length=255, description="Its name, or its id.")]
_BYTES: Responses = {
    200: {"description": "The content.", "content": {"application/octet-stream": {}}}
}
PATH = "/workspaces/{workspace_id}/datasets"


class DatasetBody(Body):
    """An upload to come."""

    model_config = example({"name": "sums", "format": "jsonl", "size": 48211})

    name: str = Field(max_length=255)
    format: str = Field(max_length=20, description="csv, jsonl or parquet.")
    size: int = Field(description="Bytes.")
    overwrite: str | None = Field(
        None, max_length=100, description="The id of the upload whose name this one takes."
    )


class PartBody(Body):
    """A part that was sent."""

    number: int
    etag: str = Field(max_length=200)


class CompleteBody(Body):
    """The end of an upload; with `parts` their ETags are compared."""

    parts: list[PartBody] | None = Field(None, max_length=10_000)


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """A data set without its rows."""
    return {
        "id": dataset.id,
        "name": dataset.name,
        "state": dataset.state,
        "format": dataset.format,
        "size": dataset.size,
        "digest": dataset.digest,
        "row_count": dataset.row_count,
        "replaces": dataset.replaces,
        "error": dataset.error,
        "created_by": dataset.creator_name,
        "created_at": wire.when(dataset.created_at),
        "updated_at": wire.when(dataset.updated_at),
        "expires_at": wire.when(dataset.expires_at),
    }


@router.get(PATH, response_model=shapes.Page[data_shapes.Dataset])
def list_datasets(workspace: ReaderOf, instance: InstanceDep, window: WindowDep) -> dict[str, Any]:
    """The data sets, newest first."""
    with instance.database.read() as db:
        page = datasets.page_datasets(db, workspace.id, limit=window.limit, after=window.after)
    return wire.page_json(page, [dataset_json(dataset) for dataset in page.items])


@router.post(PATH, status_code=201, response_model=data_shapes.NewDataset, responses=may(404))
def announce(
    body: DatasetBody, workspace: MemberOf, instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """Announce an upload; the answer says where to send its parts."""
    dataset, parts = story.announce(
        instance,
        workspace,
        name=body.name,
        format=body.format,
        size=body.size,
        overwrite=body.overwrite,
        by=caller.id,
    )
    return {
        "dataset": dataset_json(dataset),
        "parts": [{"number": p.number, "url": p.url, "size": p.size} for p in parts],
    }


@router.get(PATH + "/{name}", response_model=data_shapes.Dataset)
def show(name: Name, workspace: ReaderOf, instance: InstanceDep) -> dict[str, Any]:
    """One data set with its first rows."""
    dataset = story.get(instance, workspace, name)
    preview = None if dataset.preview is None else list(dataset.preview)
    return {**dataset_json(dataset), "preview": preview}


@router.delete(PATH + "/{name}", status_code=204)
def delete(name: Name, workspace: MemberOf, instance: InstanceDep, caller: PersonDep) -> None:
    """Delete a data set with all it ever held; runs that have begun keep what they use."""
    story.delete(instance, workspace, name)


@router.post(PATH + "/{name}/complete", response_model=data_shapes.Dataset)
def complete(
    name: Name, body: CompleteBody, workspace: MemberOf, instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """All parts were sent: the content is checked; asked again, it says how far that is."""
    parts = None if body.parts is None else [(part.number, part.etag) for part in body.parts]
    return dataset_json(story.complete(instance, workspace, name, format=None, parts=parts))


@router.post(PATH + "/{name}/abort", response_model=data_shapes.Dataset)
def abort(
    name: Name, workspace: MemberOf, instance: InstanceDep, caller: PersonDep
) -> dict[str, Any]:
    """End an upload, or dismiss a refused one; the name goes back to the content before it."""
    return dataset_json(story.abort(instance, workspace, name))


@router.get(PATH + "/{name}/logs", response_model=data_shapes.LogPage)
def logs(
    name: Name, workspace: ReaderOf, instance: InstanceDep, window: WindowDep
) -> dict[str, Any]:
    """What happened to it: the newest entries, oldest first."""
    if window.after is not None and not (window.after.isascii() and window.after.isdigit()):
        raise InvalidInput("after must be the value of `next`.", field="after")
    before = None if window.after is None else min(int(window.after[:18]), 2**62)
    dataset = story.get(instance, workspace, name)
    with instance.database.read() as db:
        lines, first = datasets.logs_of(db, dataset.id, limit=window.limit, before=before)
    items = [
        {
            "at": wire.when(line.at),
            "level": line.level,
            "step": line.step,
            "message": line.message,
            "details": line.details,
        }
        for line in lines
    ]
    return {"items": items, "next": None if first is None else str(first)}


@router.get(PATH + "/{name}/content", response_class=Response, responses=_BYTES)
def content(name: Name, workspace: ReaderOf, instance: InstanceDep) -> Response:
    """The file as it was uploaded."""
    dataset = story.get(instance, workspace, name)
    if dataset.digest is None:
        raise NotReady(f"The data set is {dataset.state.value}, not uploaded.")
    return content_response(instance, dataset)
