"""The embedded Git host: smart HTTP for bare repositories, as a part of an ASGI application.

Promise: memory stays bounded however large a push or clone is; a client that leaves ends its child;
no hook runs; only the smart protocol is spoken; a push that may have moved refs is always told to
`after_push`, even if its client is gone, and never fails or waits long because of the lines.
The caller has routed and authenticated the request.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs

import pygit2

from gitsync.errors import GitSyncError
from gitsync.git import fsck
from gitsync.git.child import MIB, Guard
from gitsync.git.failures import RemoteMalformed, RepositoryBusy
from gitsync.git.lock import RepoLock
from gitsync.git.odb import open_repository
from gitsync.git.pktline import FLUSH, packet
from gitsync.git.pushes import Command, Pushed, Report, Request, line_packets
from gitsync.git.serving import (
    PIECE,
    Answer,
    Body,
    Gone,
    HostLimits,
    Receive,
    Refused,
    Scope,
    Send,
    ServedChild,
)
from gitsync.git.storage import make_bare, remove_leftovers
from gitsync.text import printable

__all__ = [
    "AfterPush",
    "BeforePush",
    "Command",
    "Host",
    "HostLimits",
    "Pushed",
    "adopt_head",
    "create_repository",
    "sweep",
]

type BeforePush = Callable[[Sequence[Command]], Awaitable[None]]
type AfterPush = Callable[[Pushed], Awaitable[AsyncIterator[str]]]

_PROTOCOL = re.compile(r"version=[0-9]")
_HEAD_BYTES = 4 * MIB
_CONFIG = (
    ("transfer.hideRefs", "refs/gitsync"),
    ("core.bigFileThreshold", "1m"),
    ("pack.threads", "1"),
    ("pack.windowMemory", "64m"),
    ("pack.deltaCacheSize", "32m"),
)
_UPLOAD = (("uploadpack.allowFilter", "true"), ("uploadpack.allowReachableSHA1InWant", "true"))


def create_repository(path: Path, *, head: str = "refs/heads/main") -> bool:
    """Make an empty repository to host; False if it is there already."""
    return make_bare(path, head=head)


def sweep(path: Path) -> int:
    """Remove what killed children left, unless somebody works in the repository right now."""
    try:
        with RepoLock(path).held():
            return remove_leftovers(path)
    except RepositoryBusy:
        return 0


def adopt_head(path: Path, refs: Sequence[str]) -> str | None:
    """Point an unborn HEAD at the first of these branches; the branch if HEAD moved."""
    repository = open_repository(path)
    if not repository.head_is_unborn:
        return None
    branches = [r for r in refs if r.startswith("refs/heads/") and r in repository.references]
    if not branches:
        return None
    try:
        repository.set_head(branches[0])
    except pygit2.GitError:
        return None  # another push holds HEAD at this moment, and adopts its own branch
    return branches[0]


class Host:
    """Serves repositories, a bounded number of children at a time."""

    def __init__(self, limits: HostLimits | None = None, *, guard: Guard | None = None) -> None:
        self.limits = limits or HostLimits()
        self._guard = guard
        self._slots = asyncio.Semaphore(self.limits.children)
        self._settling: set[asyncio.Task[AsyncIterator[str] | None]] = set()

    async def handle(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        repo: Path,
        user: str,
        can_push: bool,
        before_push: BeforePush,
        after_push: AfterPush,
    ) -> None:
        """Answer one request whose path ends in a Git service below a repository.

        `before_push` is told of every push with commands, and refuses it with a `GitSyncError`.
        `after_push` is told of its end, whatever became of it and of the client, and returns the
        lines to show; they are read as long as the client waits. `user` goes into the reflog.
        """
        answer = Answer(send, self.limits.idle_seconds)
        try:
            await self._route(scope, receive, answer, repo, user, can_push, before_push, after_push)
            await answer.end()
        except Refused as e:
            await answer.plain(e.status, e.text)
        except Gone:
            await answer.plain(408, "The request did not arrive in full.")

    async def _route(
        self,
        scope: Scope,
        receive: Receive,
        answer: Answer,
        repo: Path,
        user: str,
        can_push: bool,
        before_push: BeforePush,
        after_push: AfterPush,
    ) -> None:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        method, path = scope["method"], scope["path"]
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        protocol = headers.get("git-protocol", "")
        env = {"GIT_PROTOCOL": protocol} if _PROTOCOL.fullmatch(protocol) else {}
        if path.endswith("/info/refs") and method == "GET":
            service = query.get("service", [""])[0]
            if service not in ("git-upload-pack", "git-receive-pack"):
                raise Refused(403, "This host speaks only Git's smart HTTP protocol.")
        elif method == "POST" and path.endswith(("/git-upload-pack", "/git-receive-pack")):
            service = path.rpartition("/")[2]
            if headers.get("content-type", "") != f"application/x-{service}-request":
                raise Refused(415, "This is no Git request.")
        else:
            raise Refused(404, "There is no such Git service; clone the URL that ends in .git.")
        if service == "git-receive-pack" and not can_push:
            raise Refused(403, "gitsync: this token may read the repository, not push to it.")
        body = Body(receive, headers, self.limits)
        try:
            if method == "GET":
                await self._advertise(service, repo, env, body, answer)
            elif service == "git-upload-pack":
                await self._upload(repo, env, body, answer)
            else:
                length = headers.get("content-length", "")
                if length.isdecimal() and int(length) > self.limits.push_bytes + _HEAD_BYTES:
                    raise Refused(413, f"A push may have {self.limits.push_bytes} bytes.")
                env |= {"GIT_COMMITTER_NAME": _name(user), "GIT_COMMITTER_EMAIL": "push@gitsync"}
                await self._push(repo, env, body, answer, before_push, after_push)
        finally:
            body.close()

    # -- the three services
    async def _advertise(
        self, service: str, repo: Path, env: dict[str, str], body: Body, answer: Answer
    ) -> None:
        await body.drained(PIECE)
        name = service.removeprefix("git-")
        args = [name, "--stateless-rpc", "--http-backend-info-refs", str(repo.absolute())]
        opening = b""
        if name == "receive-pack" or env.get("GIT_PROTOCOL") != "version=2":
            opening = packet(f"# service={service}\n") + FLUSH
        async with self._child(args, config=_UPLOAD, env=env) as child:
            await self._relay(
                child, body, answer, f"application/x-{service}-advertisement", opening
            )

    async def _upload(self, repo: Path, env: dict[str, str], body: Body, answer: Answer) -> None:
        args = ["upload-pack", "--stateless-rpc", "--strict", str(repo.absolute())]
        async with self._child(args, config=_UPLOAD, env=env) as child:
            feeding = asyncio.create_task(child.feed(body.pieces(self.limits.ask_bytes)))
            try:
                kind = "application/x-git-upload-pack-result"
                await self._relay(child, body, answer, kind, feeding=feeding)
            finally:
                feeding.cancel()

    async def _relay(
        self,
        child: ServedChild,
        body: Body,
        answer: Answer,
        kind: str,
        opening: bytes = b"",
        *,
        feeding: asyncio.Task[None] | None = None,
        passing: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """Pass the child's words on until it ends; `Gone` if the client leaves before."""
        while data := await _unless_gone(child.piece(), body, feeding):
            if not answer.started:
                await answer.start(kind)
                await answer.more(opening)
            await answer.more(passing(data))
        if not answer.started:
            code, _ = await child.ended()
            if code:
                raise Refused(500, "gitsync: git could not serve this repository.")
            # a client's probe before a large push is answered with nothing
            await answer.start(kind)

    async def _push(
        self,
        repo: Path,
        env: dict[str, str],
        body: Body,
        answer: Answer,
        before_push: BeforePush,
        after_push: AfterPush,
    ) -> None:
        kind = "application/x-git-receive-pack-result"
        pieces = body.pieces(self.limits.push_bytes + _HEAD_BYTES)
        request, head = await _request(pieces)
        report = Report(request)
        lines: AsyncIterator[str] | None = None
        if request.commands:
            try:
                await before_push(tuple(request.commands))
            except GitSyncError as e:
                await body.drained(2 * self.limits.push_bytes)
                await answer.start(kind)
                await answer.more(request.refusal(e.message))
                return
        try:
            async with (
                _locked(repo, self.limits.queue_seconds) as fd,
                self._child(
                    ["receive-pack", "--stateless-rpc", str(repo.absolute())],
                    config=self._receive_config(),
                    env=env,
                    fds=(fd,),
                ) as child,
            ):
                # git answers a push when it has all of it; a child that refuses early is not fed
                # further, but the client gets to say everything, as it reads only afterwards
                await child.feed(_joined(head, pieces))
                await self._relay(child, body, answer, kind, passing=report.feed)
        finally:
            if request.commands:
                lines = await self._settled(repo, report, after_push)
        if lines is not None and report.open:
            await self._tell(lines, body, answer)
        await answer.more(report.last())

    def _receive_config(self) -> list[tuple[str, str]]:
        return [
            ("receive.fsckObjects", "true"),
            ("receive.maxInputSize", str(self.limits.push_bytes)),
            ("receive.autogc", "false"),
            ("receive.unpackLimit", "1"),
            # who moved what, and a second hold on commits that a force-push dropped
            ("core.logAllRefUpdates", "true"),
            *fsck.settings("receive", fsck.LENIENT),
        ]

    async def _settled(
        self, repo: Path, report: Report, after_push: AfterPush
    ) -> AsyncIterator[str] | None:
        """Tell of a push that is over; done to its end even if this request is cancelled."""

        async def settle() -> AsyncIterator[str] | None:
            pushed = report.pushed()
            await asyncio.to_thread(adopt_head, repo, [c.ref for c in pushed.done if c.new])
            try:
                return await after_push(pushed)
            except GitSyncError:
                return None  # the refs have moved: the push has not failed

        task = asyncio.ensure_future(settle())
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return await asyncio.shield(task)

    async def _tell(self, lines: AsyncIterator[str], body: Body, answer: Answer) -> None:
        """Show the lines while the client is there and the time is not over."""
        with suppress(TimeoutError, GitSyncError):
            async with asyncio.timeout(self.limits.lines_seconds):
                for _ in range(self.limits.lines):
                    line = await _unless_gone(_next(lines), body, None)
                    if line is None:
                        break
                    await answer.more(line_packets([line]))

    @asynccontextmanager
    async def _child(
        self,
        args: list[str],
        *,
        config: Sequence[tuple[str, str]],
        env: dict[str, str],
        fds: tuple[int, ...] = (),
    ) -> AsyncIterator[ServedChild]:
        try:
            async with asyncio.timeout(self.limits.queue_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise Refused(503, "gitsync: the Git host is busy; try again in a moment.") from None
        try:
            child = await ServedChild.start(
                args, limits=self.limits, config=[*_CONFIG, *config], env=env, fds=fds
            )
            try:
                if self._guard is not None:
                    await asyncio.to_thread(self._guard.on_start, child.pid)
                yield child
            finally:
                await asyncio.shield(self._end(child))
        finally:
            self._slots.release()

    async def _end(self, child: ServedChild) -> None:
        await child.close()
        if self._guard is not None:
            await asyncio.to_thread(self._guard.on_end, child.pid)


def _name(user: str) -> str:
    return printable(user, limit=100).translate({ord(c): None for c in "<>"}) or "somebody"


async def _next(lines: AsyncIterator[str]) -> str | None:
    return await anext(lines, None)


async def _joined(head: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in pieces:
        yield piece


async def _request(pieces: AsyncIterator[bytes]) -> tuple[Request, bytes]:
    """The commands of a push, and the bytes that were read to know them."""
    request, head = Request(), bytearray()
    try:
        async for piece in pieces:
            head += piece
            request.feed(piece)
            if request.whole:
                break
            if len(head) > _HEAD_BYTES:
                raise Refused(413, "The list of refs to push is too long.")
    except RemoteMalformed as e:
        raise Refused(400, e.message) from e
    return request, bytes(head)


async def _unless_gone[T](
    wanted: Awaitable[T], body: Body, feeding: asyncio.Task[None] | None
) -> T:
    """The result of `wanted`; `Gone` if the client leaves before."""
    task = asyncio.ensure_future(wanted)
    try:
        if feeding is not None:
            await asyncio.wait([task, feeding], return_when=asyncio.FIRST_COMPLETED)
            if feeding.done():
                feeding.result()
        if not task.done() and (feeding is None or feeding.done()):
            await asyncio.wait([task, body.leaving()], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Gone
        return await task
    finally:
        task.cancel()


@asynccontextmanager
async def _locked(repo: Path, wait: float) -> AsyncIterator[int]:
    """The repository's lock, shared with other pushes; its descriptor goes to the child.

    Whoever finds nobody else there first removes what a killed git left: a stale lock file of a
    branch would refuse every later push to it.
    """
    lock = RepoLock(repo)
    end = asyncio.get_running_loop().time() + wait
    while True:
        with suppress(RepositoryBusy):
            fd = await _alone(lock, repo)
            break
        with suppress(RepositoryBusy):
            fd = lock.take(shared=True)
            break
        if asyncio.get_running_loop().time() > end:
            raise Refused(503, "gitsync: the repository is busy; push again.")
        await asyncio.sleep(0.02)
    try:
        yield fd
    finally:
        os.close(fd)


async def _alone(lock: RepoLock, repo: Path) -> int:
    fd = lock.take()
    cleaning = asyncio.ensure_future(asyncio.to_thread(remove_leftovers, repo))
    try:
        await asyncio.shield(cleaning)
        lock.share(fd)
    except BaseException:
        await asyncio.wait([cleaning])  # the lock is given back only when nobody removes any more
        os.close(fd)
        raise
    return fd
