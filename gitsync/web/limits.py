"""Pure ASGI middleware: how much and how long a request body may be; security headers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gitsync.web.wire import error_body

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


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
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            await _refuse(send, 413, f"A request body has at most {most} bytes.")
            return
        loop = asyncio.get_running_loop()
        end, seen, over = loop.time() + self.seconds, 0, False

        async def counted() -> Message:
            nonlocal seen, over
            if over:
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                over = not message.get("more_body", False)
                if seen > most:
                    raise _TooLarge
            return message

        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _TooLarge:
            if not started:
                await _refuse(send, 413, f"A request body has at most {most} bytes.")
        except _TooSlow:
            if not started:
                await _refuse(send, 408, f"The request took longer than {self.seconds:g} s.")


class _TooLarge(Exception):
    pass


class _TooSlow(Exception):
    pass


async def _refuse(send: Send, status: int, text: str) -> None:
    code = "BODY_TOO_LARGE" if status == 413 else "REQUEST_TIMEOUT"
    body = json.dumps(error_body(code, text)).encode()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


class SecurityHeaders:
    """Adds the headers every answer carries."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", ())}
                message = {
                    **message,
                    "headers": [
                        *message.get("headers", ()),
                        *(pair for pair in _HEADERS if pair[0] not in present),
                    ],
                }
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)
