"""One request to the embedded host: its body, its answer and the child between them.

Promise: nothing is kept but one piece of at most 64 KiB each way; every wait on the client ends at
an idle limit; the child's whole group is gone when the request is over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from gitsync.git.child import MIB, ChildLimits, command, environment

type Scope = MutableMapping[str, Any]
type Message = MutableMapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]

PIECE = 64 * 1024
_GRACE = 2.0
_UNCACHED = [
    (b"cache-control", b"no-cache, max-age=0, must-revalidate"),
    (b"pragma", b"no-cache"),
]


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What one request to the host may use."""

    push_bytes: int = 2048 * MIB
    ask_bytes: int = 16 * MIB
    memory: int = 1536 * MIB
    seconds: float = 1800.0
    idle_seconds: float = 300.0
    children: int = 16
    queue_seconds: float = 30.0
    lines_seconds: float = 6.0
    lines: int = 60


class Refused(Exception):
    """The request ends with a status and a plain text of ours."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Gone(Exception):
    """The client left, or says nothing any more."""


class Body:
    """The request body, inflated, bounded, and the news that the client has left."""

    def __init__(self, receive: Receive, headers: Mapping[str, str], limits: HostLimits) -> None:
        self._receive, self._limits = receive, limits
        encoding = headers.get("content-encoding", "").lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise Refused(415, "This content encoding is not known here.")
        self._inflater = zlib.decompressobj(31) if "gzip" in encoding else None
        self._ended = False
        self._leaving: asyncio.Task[None] | None = None

    async def pieces(self, most: int) -> AsyncIterator[bytes]:
        """The body; `Refused` above `most` bytes, `Gone` if the client leaves or falls silent."""
        total = 0
        while not self._ended:
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    message = await self._receive()
            except TimeoutError:
                raise Gone from None
            if message["type"] == "http.disconnect":
                raise Gone
            self._ended = not message.get("more_body", False)
            rest = message.get("body", b"")
            while rest:
                data, rest = self._inflated(rest)
                total += len(data)
                if total > most:
                    raise Refused(413, f"The request is larger than {most} bytes.")
                yield data

    def _inflated(self, data: bytes) -> tuple[bytes, bytes]:
        if self._inflater is None:
            return data, b""
        try:
            return self._inflater.decompress(data, PIECE), self._inflater.unconsumed_tail
        except zlib.error:
            raise Refused(400, "The request is no valid gzip.") from None

    async def drained(self, most: int) -> None:
        """Read and forget the rest, so that the client gets to read the answer."""
        with suppress(Refused):
            async for _ in self.pieces(most):
                pass

    def leaving(self) -> asyncio.Task[None]:
        """Done when the client has left; ask for it only after the body has ended."""
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._watch())
        return self._leaving

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """Watch no longer."""
        if self._leaving is not None:
            self._leaving.cancel()


class Answer:
    """The response; every send ends at the idle limit."""

    def __init__(self, send: Send, idle_seconds: float) -> None:
        self._send, self._idle = send, idle_seconds
        self.started = False

    async def _out(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._idle):
                await self._send(message)
        except (TimeoutError, OSError):
            raise Gone from None

    async def start(self, kind: str, status: int = 200, length: int | None = None) -> None:
        """The status and headers."""
        self.started = True
        headers = [(b"content-type", kind.encode("latin-1")), *_UNCACHED]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        await self._out({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, data: bytes) -> None:
        """A piece of the body."""
        if data:
            await self._out({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """The end of the body."""
        await self._out({"type": "http.response.body", "body": b"", "more_body": False})

    async def plain(self, status: int, text: str) -> None:
        """A whole answer in plain text, unless another has begun."""
        if self.started:
            return
        data = (text + "\n").encode()
        with suppress(Gone):
            await self.start("text/plain; charset=utf-8", status, len(data))
            await self.more(data)
            await self.end()


class ServedChild:
    """A git child that reads from and writes to one client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self._words = asyncio.create_task(self._drain())

    @classmethod
    async def start(
        cls,
        args: Sequence[str],
        *,
        limits: HostLimits,
        config: Sequence[tuple[str, str]],
        env: Mapping[str, str],
        fds: Sequence[int] = (),
    ) -> Self:
        """Start it as the leader of a session of its own."""
        bounds = ChildLimits(
            seconds=limits.seconds, memory=limits.memory, file_bytes=2 * limits.push_bytes
        )
        process = await asyncio.create_subprocess_exec(
            *command(args, limits=bounds, config=config),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env=environment(env),
            pass_fds=tuple(fds),
            start_new_session=True,
            limit=PIECE,
        )
        return cls(process)

    async def _drain(self) -> bytes:
        last = b""
        while self._process.stderr and (data := await self._process.stderr.read(PIECE)):
            last = (last + data)[-4096:]
        return last

    async def feed(self, source: AsyncIterator[bytes]) -> None:
        """Give it the whole source; what it no longer wants is read and dropped."""
        pipe = self._process.stdin
        async for data in source:
            if pipe is not None and pipe.is_closing():
                pipe = None  # the child closed its end: not every event loop tells so by an OSError
            if pipe is not None:
                try:
                    pipe.write(data)
                    await pipe.drain()
                except (BrokenPipeError, ConnectionResetError):
                    pipe = None
        if pipe is not None:
            pipe.close()

    async def piece(self) -> bytes:
        """What it says next; empty at its end."""
        return await self._process.stdout.read(PIECE) if self._process.stdout else b""

    async def ended(self) -> tuple[int, str]:
        """Its exit status and last words, once it has said everything."""
        words = await self._words
        return await self._process.wait(), words.decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End the whole group, if it is still there: ask first, so that git removes its locks."""
        if self._process.stdin:
            self._process.stdin.close()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if self._process.returncode is not None:
                break
            with suppress(ProcessLookupError):
                os.killpg(self.pid, sign)
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._process.wait()
        self._words.cancel()
        with suppress(asyncio.CancelledError):
            await self._words
        # pipes that were not read to their end keep the transport open beyond the event loop
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()
