"""HTTP/1.1 with a bound on what comes before the body: uvicorn has none of its own.

Promise: a connection whose request line and headers are too long, or do not arrive in time, is
closed; an idle one costs at most `HEAD_SECONDS` before its first request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 512 * 1024  # checked once per read, and a read brings up to 256 KiB
HEAD_SECONDS = 30.0


class BoundedProtocol(HttpToolsProtocol):
    """A connection that must come to the point."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_head, self._seen = True, 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first request may begin."""
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side went, or we closed."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a head or of a body."""
        super().data_received(data)
        if self._is_head and not self.transport.is_closing():
            self._seen += len(data)
            if self._seen > HEAD_BYTES:
                self.send_400_response("The request head is too long.")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._is_head, self._seen = True, 0
        self._start_clock()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The application takes over; it bounds the body."""
        self._is_head = False
        self._stop_clock()
        super().on_headers_complete()

    def _start_clock(self) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._close)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
