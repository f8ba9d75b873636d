"""Bytes: artifacts by digest, full-tree archives (decision 3).

The plain tar has a strong ETag and ranges; compressed forms are their own URLs with weak ETags and
no ranges. Nothing is negotiated, and a digest is served only through a workspace that refers to it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated

import zstandard
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import iterate_in_threadpool

from gitsync import catalogue
from gitsync.artifacts.bucket import artifact_key
from gitsync.errors import NotFound
from gitsync.instance import Instance
from gitsync.records import Workspace
from gitsync.store import objects, versions
from gitsync.web.answers import Responses, may
from gitsync.web.auth import InstanceDep, ReaderOf
from gitsync.web.idempotency import IdempotentRoute
from gitsync.web.query import ShaDep

router = APIRouter(tags=["artifacts"], route_class=IdempotentRoute)
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="sha256 of the plain tar.")]

_FOREVER = "private, max-age=31536000, immutable"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_ETAG = {"ETag": {"schema": {"type": "string"}}}


def _bytes_of(media_type: str) -> Responses:
    return {
        200: {"content": {media_type: {}}, "description": "The bytes.", "headers": _ETAG},
        304: {"description": "The caller has these bytes.", "headers": _ETAG},
    }


_TAR = _bytes_of("application/x-tar") | {
    206: {"content": {"application/x-tar": {}}, "description": "A part of the bytes."},
    416: {"description": "The range lies behind the end."},
}


def _size(instance: Instance, workspace: Workspace, digest: str) -> int:
    with instance.database.read() as db:
        size = objects.artifact_size(db, digest)
        if size is None or not versions.refers_to_digest(db, workspace.id, digest):
            raise NotFound("No version of this workspace refers to this digest.")
    return size


def _headers(digest: str) -> dict[str, str]:
    raw = base64.b64encode(bytes.fromhex(digest)).decode()
    return {
        "ETag": f'"{digest}"',
        "Repr-Digest": f"sha-256=:{raw}:",
        "Cache-Control": _FOREVER,
        "Accept-Ranges": "bytes",
    }


@router.head(
    "/workspaces/{workspace_id}/artifacts/{digest}.tar",
    response_class=Response,
    responses=_bytes_of("application/x-tar"),
)
def size(digest: Digest, workspace: ReaderOf, instance: InstanceDep, request: Request) -> Response:
    """How large an artifact is, and that it is there."""
    headers = _headers(digest) | {"Content-Length": str(_size(instance, workspace, digest))}
    if _matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=_headers(digest))
    return Response(headers=headers, media_type="application/x-tar")


@router.get(
    "/workspaces/{workspace_id}/artifacts/{digest}.tar",
    response_class=Response,
    responses=_TAR,
)
def plain(digest: Digest, workspace: ReaderOf, instance: InstanceDep, request: Request) -> Response:
    """An artifact as the tar whose sha256 is its digest."""
    size = _size(instance, workspace, digest)
    headers = _headers(digest)
    etag = headers["ETag"]
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    wanted = request.headers.get("range")
    if wanted is not None and request.headers.get("if-range", etag) == etag:
        part = _part(wanted, size)
        if part is None:
            return Response(
                status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"}
            )
        if part != (0, size):
            start, length = part
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
            headers["Content-Length"] = str(length)
            return StreamingResponse(
                instance.bucket.apieces(artifact_key(digest), start=start, length=length),
                status_code=206,
                headers=headers,
                media_type="application/x-tar",
            )
    headers["Content-Length"] = str(size)
    return StreamingResponse(
        instance.bucket.apieces(artifact_key(digest)),
        headers=headers,
        media_type="application/x-tar",
    )


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    known = {part.strip().removeprefix("W/") for part in header.split(",")}  # weak comparison
    return header.strip() == "*" or etag.removeprefix("W/") in known


def _part(header: str, size: int) -> tuple[int, int] | None:
    """Start and length; the whole for what is no single byte range, None past the end."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or (not found[1] and not found[2]):
        return 0, size
    if not found[1]:
        length = min(int(found[2]), size)
        return None if length == 0 else (size - length, length)
    start = int(found[1])
    end = min(int(found[2]), size - 1) if found[2] else size - 1
    if start >= size:
        return None
    return (0, size) if end < start else (start, end - start + 1)


@router.get(
    "/workspaces/{workspace_id}/artifacts/{digest}.tar.gz",
    response_class=Response,
    responses=_bytes_of("application/gzip"),
)
def gzipped(
    digest: Digest, workspace: ReaderOf, instance: InstanceDep, request: Request
) -> Response:
    """The same, gzipped."""
    _size(instance, workspace, digest)
    return _compressed(request, instance, digest, "gz", catalogue.gzipped, "application/gzip")


@router.get(
    "/workspaces/{workspace_id}/artifacts/{digest}.tar.zst",
    response_class=Response,
    responses=_bytes_of("application/zstd"),
)
def zstd(digest: Digest, workspace: ReaderOf, instance: InstanceDep, request: Request) -> Response:
    """The same, compressed with Zstandard."""
    _size(instance, workspace, digest)
    return _compressed(request, instance, digest, "zst", _zstd, "application/zstd")


def _zstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def _compressed(
    request: Request,
    instance: Instance,
    digest: str,
    suffix: str,
    squeeze: Callable[[Iterator[bytes]], Iterator[bytes]],
    media_type: str,
) -> Response:
    headers = {"ETag": f'W/"{digest}.{suffix}"', "Cache-Control": _FOREVER}
    if _matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return StreamingResponse(
        iterate_in_threadpool(squeeze(instance.bucket.pieces(artifact_key(digest)))),
        headers=headers,
        media_type=media_type,
    )


@router.get(
    "/workspaces/{workspace_id}/versions/{sha}/archive.tar.gz",
    response_class=Response,
    responses=_bytes_of("application/gzip") | may(502),
)
def archive(sha: ShaDep, workspace: ReaderOf, instance: InstanceDep, request: Request) -> Response:
    """The full tree of a version: equal bytes each time."""
    pieces = catalogue.archive(instance, workspace, sha)
    headers = {"ETag": f'W/"{sha}"', "Cache-Control": _FOREVER}
    if _matches(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    first = next(pieces, b"")  # here failures still become an answer
    return StreamingResponse(
        iterate_in_threadpool(chain((first,), pieces)),
        headers=headers,
        media_type="application/gzip",
    )
