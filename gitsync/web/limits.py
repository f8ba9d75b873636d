"""Pure ASGI middleware: bounds on request bodies, security headers, the last resort.

Promise: whatever goes wrong below, the client gets one answer in the usual shape, and nothing of
the cause.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gitsync.web.logs import loggable
from gitsync.web.wire import error_body

log = logging.getLogger(__name__)

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)

_UNWRAPPED = "gitsync.send"
_KEPT_NOWHERE = (b"cache-control", b"no-store")


class BodyLimit:
    """Refuses bodies over `most` bytes (413) or slower than `seconds` in all (408).

    `other` gives another `most` for paths with a prefix; None: they have limits of their own.
    """

    def __init__(
        self, app: ASGIApp, *, most: int, seconds: float, other: Mapping[str, int | None]
    ) -> None:
        self.app, self.most, self.seconds, self.other = app, most, seconds, dict(other)

    def _most(self, path: str) -> int | None:
        return next((n for start, n in self.other.items() if path.startswith(start)), self.most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        most = self._most(scope["path"]) if scope["type"] == "http" else None
        if most is None:
            await self.app(scope, receive, send)
            return
        too_large = (413, "BODY_TOO_LARGE", f"A request body has at most {most} bytes.")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            await refuse(send, *too_large)
            return
        loop = asyncio.get_running_loop()
        end, seen, is_over, started = loop.time() + self.seconds, 0, False, False
        problem: tuple[int, str, str] | None = None

        async def counted() -> Message:
            nonlocal seen, is_over, problem
            if is_over:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                text = f"The request took longer than {self.seconds:g} s."
                problem = (408, "REQUEST_TIMEOUT", text)
                raise _Stopped from None
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                is_over = not message.get("more_body", False)
                if seen > most:
                    problem = too_large
                    raise _Stopped
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if problem is not None and not started:
                return  # what the application makes of the broken body does not matter
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _Stopped:
            if started:
                raise
        if problem is not None and not started:
            await refuse(send, *problem, close=True)


class _Stopped(Exception):
    pass


async def refuse(send: Send, status: int, code: str, text: str, *, close: bool = False) -> None:
    """Send one error answer."""
    body = json.dumps(error_body(code, text)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class LastResort:
    """Turns what nobody expected into a log entry and an answer without detail.

    `page` makes that answer for people, None for requests that are not theirs.
    """

    def __init__(self, app: ASGIApp, *, page: Callable[[Scope], ASGIApp | None]) -> None:
        self.app, self.page = app, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception:
            if started or scope["type"] != "http":
                raise  # the connection is cut, so that nobody takes half an answer for a whole one
            log.exception("unexpected error path=%s", loggable(scope["path"]))
            page = self.page(scope)
            if page is not None:
                await page(scope, receive, send)
                return
            await refuse(
                send, 500, "INTERNAL", "Something went wrong here; the operator's log says more."
            )


def unwrapped(scope: Scope) -> Send:
    """The `send` of the server itself, for the later messages of a stream that goes to many."""
    send: Send = scope[_UNWRAPPED]
    return send


class SecurityHeaders:
    """Adds the headers every answer carries; the outermost of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        # answers of an API hold tokens, links and secrets: what may be kept says so itself
        is_api = scope["type"] == "http" and scope["path"].startswith("/api/")
        wanted = (*_HEADERS, _KEPT_NOWHERE) if is_api else _HEADERS

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", ())}
                message = {
                    **message,
                    "headers": [
                        *message.get("headers", ()),
                        *(pair for pair in wanted if pair[0] not in present),
                    ],
                }
            await send(message)

        if scope["type"] == "http":
            await self.app({**scope, _UNWRAPPED: send}, receive, with_headers)
        else:
            await self.app(scope, receive, send)
