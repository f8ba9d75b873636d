"""`osmosis dataset …`: announce, complete, abort; list, info, logs, download."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from gitsync import datasets as story
from gitsync.data_records import Dataset, LogLine
from gitsync.store import datasets
from gitsync.uploads import DOWNLOAD_LIFE, UPLOAD_LIFE, UploadPart, download_url
from gitsync.web import wire
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.answers import AnchoredDep, CliBody, LogPageDep
from gitsync.web.cli_api.scope import CliRoute, ScopedMember, ScopedReader
from gitsync.web.shapes import plain

router = APIRouter(route_class=CliRoute)
routers = (router,)


class NewDataset(CliBody):
    """What `dataset upload` announces."""

    file_name: str = Field(max_length=1000)
    file_size: int
    extension: str = Field(max_length=100)
    overwrite_dataset_id: str | None = Field(None, max_length=100)


class SentPart(BaseModel):
    """A part as the client says it arrived."""

    model_config = ConfigDict(extra="ignore")

    number: Annotated[int, Field(alias="PartNumber")]
    etag: Annotated[str, Field(alias="ETag", max_length=200)]


class Complete(CliBody):
    """The end of an upload."""

    file_extension: str | None = Field(None, max_length=100)
    parts: list[SentPart] | None = Field(None, max_length=10_000)


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    """A data set as the CLI reads it; files are kept as they came, so both formats are one."""
    return {
        "id": dataset.id,
        "file_name": dataset.name,
        "file_size": dataset.size,
        "status": dataset.state.value,
        "file_format": dataset.format,
        "original_file_format": dataset.format,
        "original_file_size": dataset.size,
        "row_count": dataset.row_count,
        "creator_name": dataset.creator_name,
        "created_at": wire.when(dataset.created_at),
        "updated_at": wire.when(dataset.updated_at),
        "platform_url": None,
        "error": plain(dataset.error),
    }


def upload_json(dataset: Dataset, parts: tuple[UploadPart, ...]) -> dict[str, Any]:
    """Where the bytes go."""
    life = int(UPLOAD_LIFE.total_seconds())
    if dataset.method == "simple":
        return {
            "method": "simple",
            "presigned_url": parts[0].url,
            "expires_in": life,
            "upload_headers": {},
        }
    return {
        "method": "multipart",
        "expires_in": life,
        "part_size": dataset.part_size,
        "total_parts": dataset.total_parts,
        "presigned_urls": [
            {"part_number": part.number, "presigned_url": part.url, "size": part.size}
            for part in parts
        ],
    }


def log_json(line: LogLine) -> dict[str, Any]:
    """One entry of a log."""
    shown: dict[str, Any] = {
        "timestamp": wire.when(line.at),
        "level": line.level,
        "step": line.step,
        "message": line.message,
    }
    return shown if line.details is None else {**shown, "details": plain(line.details)}


@router.get("/datasets")
def list_datasets(
    scoped: ScopedReader, instance: InstanceDep, piece: AnchoredDep
) -> dict[str, Any]:
    """Newest first."""
    with instance.database.read() as db:
        found, total = datasets.list_datasets(
            db,
            scoped.workspace.id,
            limit=piece.limit + 1,
            offset=piece.offset,
            before=piece.anchor,
        )
    items = [dataset_json(dataset) for dataset in found[: piece.limit]]
    has_more = len(found) > piece.limit
    last = found[piece.limit - 1].seq if has_more else 0
    return piece.answer("datasets", items, total, anchor=last, end=0, has_more=has_more)


@router.post("/datasets")
def announce(body: NewDataset, scoped: ScopedMember, instance: InstanceDep) -> dict[str, Any]:
    """Take the name, and say where the bytes go."""
    dataset, parts = story.announce(
        instance,
        scoped.workspace,
        name=body.file_name,
        format=body.extension.lower().lstrip("."),
        size=body.file_size,
        overwrite=body.overwrite_dataset_id,
        by=scoped.person.id,
    )
    return {**dataset_json(dataset), "upload": upload_json(dataset, parts)}


@router.get("/datasets/{name:segment}")
def info(name: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
    """One data set with its first rows."""
    dataset = story.get(instance, scoped.workspace, name)
    preview = None if dataset.preview is None else plain(list(dataset.preview))
    return {**dataset_json(dataset), "data_preview": preview}


@router.post("/datasets/{name:segment}/complete")
def complete(
    name: str, body: Complete, scoped: ScopedMember, instance: InstanceDep
) -> dict[str, Any]:
    """All bytes were sent."""
    format = None if body.file_extension is None else body.file_extension.lower().lstrip(".")
    parts = None if body.parts is None else [(part.number, part.etag) for part in body.parts]
    return dataset_json(
        story.complete(instance, scoped.workspace, name, format=format, parts=parts)
    )


@router.post("/datasets/{name:segment}/abort")
def abort(name: str, scoped: ScopedMember, instance: InstanceDep) -> dict[str, Any]:
    """End an upload; one that is good stays."""
    return dataset_json(story.abort(instance, scoped.workspace, name))


@router.get("/datasets/{name:segment}/logs")
def logs(
    name: str, scoped: ScopedReader, instance: InstanceDep, page: LogPageDep
) -> dict[str, Any]:
    """What happened to it."""
    dataset = story.get(instance, scoped.workspace, name)
    with instance.database.read() as db:
        lines, first = datasets.logs_of(db, dataset.id, limit=page.limit, before=page.before)
    return page.answer([log_json(line) for line in lines], first)


@router.get("/datasets/{name:segment}/download")
def download(name: str, scoped: ScopedReader, instance: InstanceDep) -> dict[str, Any]:
    """Where the content can be fetched for a while."""
    dataset = story.get(instance, scoped.workspace, name)
    return {
        "presigned_url": download_url(instance, dataset),
        "expires_in": int(DOWNLOAD_LIFE.total_seconds()),
        "file_name": f"{dataset.name}.{dataset.format}",
    }
