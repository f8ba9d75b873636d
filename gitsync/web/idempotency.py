"""`Idempotency-Key`: the same request again gives the same answer (decision 33).

Per caller, method and path; kept 24 hours; answers are stored sealed, as they may show a secret.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, ClassVar

import anyio.to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute

from gitsync.errors import Conflict, GitSyncError, IdempotencyMismatch, InvalidInput
from gitsync.instance import Instance
from gitsync.store import RowExists, objects
from gitsync.web.auth import authenticate, instance_of, known_caller

KEPT = timedelta(hours=24)


class InProgress(Conflict):
    """The first request with this key still runs."""

    code = "IN_PROGRESS"


class IdempotentRoute(APIRoute):
    """A route for known callers whose writing requests honour `Idempotency-Key`.

    Keys without a value are left out of its answers (see `shapes.Shape`).
    """

    keeps_answers: ClassVar[bool] = True

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **(options | {"response_model_exclude_unset": True}))

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        plain = super().get_route_handler()

        async def handler(request: Request) -> Response:
            # before the body is read: a stranger learns nothing of it, and costs little
            await anyio.to_thread.run_sync(authenticate, request)
            key = request.headers.get("idempotency-key")
            is_read = request.method in {"GET", "HEAD", "OPTIONS"}
            if key is None or is_read or not self.keeps_answers:
                return await plain(request)
            return await _once(request, key, plain)

        return handler


class KnownRoute(IdempotentRoute):
    """The same for answers that nobody may keep; the endpoint honours the key by itself."""

    keeps_answers: ClassVar[bool] = False


async def _once(
    request: Request, key: str, plain: Callable[[Request], Coroutine[Any, Any, Response]]
) -> Response:
    if not 1 <= len(key) <= 200 or not key.isprintable() or not key.isascii():
        raise InvalidInput(
            "An Idempotency-Key has 1 to 200 printable characters.", field="Idempotency-Key"
        )
    instance = instance_of(request)
    caller = known_caller(request)
    # keyed: a body may hold a password, and a plain hash of one can be guessed
    key_of_hashes = instance.sealer.derive("idempotency")
    body_hash = hmac.new(key_of_hashes, await request.body(), hashlib.sha256).hexdigest()
    where = {
        "user_id": caller.id,
        "method": request.method,
        "path": _indexed(request.url.path),
        "key": key,
    }
    stored = await asyncio.to_thread(_begin, instance, where, body_hash)
    if stored is not None:
        return stored
    try:
        response = await plain(request)
    except GitSyncError:
        await asyncio.to_thread(_end, instance, where, None, None)
        raise
    except BaseException:
        await asyncio.shield(asyncio.to_thread(_end, instance, where, None, None))
        raise
    is_kept = response.status_code < 500 and hasattr(response, "body")
    text = None
    if is_kept:
        text = json.dumps(
            {
                "status": response.status_code,
                "media": response.headers.get("content-type", "application/json"),
                "body": bytes(response.body).decode("utf-8", "replace"),
            }
        )
    await asyncio.to_thread(_end, instance, where, response.status_code if is_kept else None, text)
    return response


def _indexed(path: str) -> str:
    """The path, or its digest: PostgreSQL indexes no more than 2,700 bytes."""
    return path if len(path) <= 400 else hashlib.sha256(path.encode()).hexdigest()


def _place(where: dict[str, str]) -> str:
    digest = hashlib.sha256("\0".join(where.values()).encode()).hexdigest()
    return f"idempotency_keys/{digest}/sealed"


def _begin(instance: Instance, where: dict[str, str], body_hash: str) -> Response | None:
    now = instance.now()
    try:
        with instance.database.write() as db:
            known = objects.find_idempotent(db, **where)
            if known is not None and known["created_at"] < now - KEPT:
                objects.end_idempotent(db, **where, status=None, sealed=None)
                known = None
            if known is None:
                objects.begin_idempotent(
                    db, **where, body_hash=body_hash, boot=instance.boot, now=now
                )
                return None
    except RowExists:  # somebody began at the same moment, on another server
        raise InProgress("A request with this Idempotency-Key is running.") from None
    if known["body_hash"] != body_hash:
        raise IdempotencyMismatch("This Idempotency-Key was used with another body.")
    if known["status"] is None:
        raise InProgress("A request with this Idempotency-Key is running. Repeat it in a moment.")
    answer = json.loads(instance.sealer.open(known["sealed"], _place(where)))
    return Response(
        answer["body"],
        status_code=answer["status"],
        media_type=answer["media"],
        headers={"Idempotent-Replay": "true"},
    )


def _end(instance: Instance, where: dict[str, str], status: int | None, text: str | None) -> None:
    sealed = None if text is None else instance.sealer.seal(text, _place(where))
    with instance.database.write() as db:
        objects.end_idempotent(db, **where, status=status, sealed=sealed)
