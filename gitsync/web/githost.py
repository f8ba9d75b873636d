"""`/git/{owner}/{repo}.git`: routing and authentication for the embedded Git host."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from starlette.types import Receive, Scope, Send

from gitsync.errors import GitSyncError
from gitsync.git.child import Guard
from gitsync.git.host import Command, Host, HostLimits, Pushed
from gitsync.instance import MIB, Instance
from gitsync.records import Role, Workspace, WorkspaceState
from gitsync.store import objects, workspaces
from gitsync.sync import triggers
from gitsync.sync.lines import push_lines
from gitsync.sync.objects import ensure_repository, start_time
from gitsync.web.auth import Caller, basic_password, bearer, identify, role_in

_PATH = re.compile(r"/git/([A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/(info/refs|git-[a-z-]+|.*)")


class GitHost:
    """The ASGI application mounted at `/git`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        settings = instance.settings
        # rows of children are written by one thread, in order, off the event loop
        self._recorder = ThreadPoolExecutor(1, thread_name_prefix="git-children")
        self._host = Host(
            HostLimits(
                push_bytes=settings.max_push_mb * MIB,
                children=settings.max_git_children,
                lines_seconds=settings.push_wait_s + 1,
            ),
            guard=Guard(on_start=self._started, on_end=self._ended),
        )

    def _started(self, pgid: int) -> None:
        started = start_time(pgid) or ""

        def note() -> None:
            with self._instance.database.write(durable=False) as db:
                objects.note_child(
                    db,
                    pgid=pgid,
                    boot=self._instance.boot,
                    workspace_id=None,
                    started=started,
                    now=self._instance.now(),
                )

        self._recorder.submit(note)

    def _ended(self, pgid: int) -> None:
        def drop() -> None:
            with self._instance.database.write(durable=False) as db:
                objects.drop_child(db, pgid=pgid, boot=self._instance.boot)

        self._recorder.submit(drop)

    def close(self) -> None:
        """Write what is still to be noted."""
        self._recorder.shutdown(wait=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one Git request."""
        if scope["type"] != "http":
            return
        path = scope["path"]
        found = _PATH.fullmatch(path)
        if found is None:
            await _plain(send, 404, "There is no such repository.")
            return
        headers = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        header = headers.get(b"authorization")
        try:
            caller = await asyncio.to_thread(self._caller, header)
        except GitSyncError as e:
            await _plain(send, 401, e.message, challenge=True)
            return
        answer = await asyncio.to_thread(self._find, caller, found[1])
        if answer is None:
            await _plain(send, 404, "There is no such repository, or you are not a member.")
            return
        workspace, can_push = answer
        if workspace.state is not WorkspaceState.ACTIVE:
            can_push = False
        repo = await asyncio.to_thread(ensure_repository, self._instance, workspace)
        url = f"{self._instance.settings.url}/workspaces/{workspace.id}"

        async def before(_commands: Sequence[Command]) -> None:
            await asyncio.to_thread(triggers.before_push, self._instance, workspace)

        async def after(pushed: Pushed) -> AsyncIterator[str]:
            await asyncio.to_thread(triggers.after_push, self._instance, workspace, pushed)
            return push_lines(self._instance, workspace, pushed, url=url)

        await self._host.handle(
            scope,
            receive,
            send,
            repo=repo,
            user=caller.id,
            can_push=can_push,
            before_push=before,
            after_push=after,
        )

    def _caller(self, header: str | None) -> Caller:
        secret = basic_password(header)
        return identify(self._instance, secret if secret is not None else bearer(header))

    def _find(self, caller: Caller, identity: str) -> tuple[Workspace, bool] | None:
        with self._instance.database.read() as db:
            workspace = workspaces.find_by_identity(db, identity)
        if workspace is None or not workspace.is_embedded:
            return None
        role = role_in(self._instance, caller, workspace.id)
        if role is None:
            return None
        may = caller.token.role == "push" or (
            caller.token.role is None and role.rank >= Role.MEMBER.rank
        )
        return workspace, may


async def _plain(send: Send, status: int, text: str, *, challenge: bool = False) -> None:
    body = (text + "\n").encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    if challenge:
        headers.append((b"www-authenticate", b'Basic realm="gitsync: any user name, a token"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
