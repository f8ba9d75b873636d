"""The files of the dashboard: style, script, icon. Held in memory, named by their content.

Promise: a URL with a digest never changes its bytes, so a browser keeps it for ever; an old URL is
answered with the present file, uncached.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from gitsync.errors import NotFound

router = APIRouter(include_in_schema=False)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class _Asset:
    data: bytes
    packed: bytes
    digest: str
    media_type: str


def _load() -> dict[str, _Asset]:
    found = {}
    for path in sorted((Path(__file__).parent / "static").iterdir()):
        if path.suffix in _TYPES:
            data = path.read_bytes()
            found[path.name] = _Asset(
                data,
                gzip.compress(data, 9, mtime=0),
                hashlib.sha256(data).hexdigest()[:12],
                _TYPES[path.suffix],
            )
    return found


_ASSETS = _load()


def asset_url(name: str) -> str:
    """Where a page finds a file."""
    return f"/static/{_ASSETS[name].digest}/{name}"


@router.get("/static/{digest}/{name}")
def static(
    digest: Annotated[str, PathParameter(max_length=64)],
    name: Annotated[str, PathParameter(max_length=100)],
    request: Request,
) -> Response:
    """One file, compressed if the browser takes it."""
    asset = _ASSETS.get(name)
    if asset is None:
        raise NotFound("There is no such file.")
    is_current = digest == asset.digest
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if is_current else "no-store",
        "Vary": "Accept-Encoding",
        "Content-Type": asset.media_type,
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"})
    return Response(asset.data, headers=headers)
