"""A small real HTTP server that keeps the API's shapes and can misbehave on demand, and helpers.

It exists for what a healthy server never does: breaking off, lying, being away. The stories against
the real server are in `test_live.py`.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, unquote, urlsplit

from gitsync.cli import execute
from gitsync.client.place import Place

TOKEN = "gs_token-of-the-test"
WORKSPACE = "ws_0123456789abcdef"
IDENTITY = "demo--local/rollouts"
BIN = Path(sys.executable).parent
GITSYNC = BIN / "gitsync"


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Stage:
    """What the server answers; `routes` maps `METHOD path-below-/api/v1` to a function of Call."""

    url: str = ""
    repos: Path | None = None
    artifacts: dict[str, bytes] = field(default_factory=dict)
    routes: dict[str, Callable[[Call], tuple[int, Any]]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # consumed one per artifact request
    default_branch: str | None = "main"
    stalled: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def place(self, **changes: Any) -> Place:
        values = {"server": self.url, "workspace": WORKSPACE, "token": TOKEN, **changes}
        return Place(**values)

    def on(self, route: str, status: int, body: Any) -> None:
        self.routes[route] = lambda _call: (status, body)

    def asked(self, part: str) -> list[Call]:
        return [call for call in self.calls if part in call.path]

    def workspace(self) -> dict[str, Any]:
        return {
            "id": WORKSPACE,
            "name": "Demo team",
            "identity": IDENTITY,
            "provider": "embedded",
            "clone_url": f"{self.url}/git/{IDENTITY}.git",
            "default_branch": self.default_branch,
            "state": "active",
            "branches": [],
        }

    def answer(self, call: Call) -> tuple[int, Any]:
        route = self.routes.get(f"{call.method} {call.path}")
        if route is not None:
            return route(call)
        if call.path == "workspaces":
            known = {"identity": IDENTITY, "name": "Demo team"}
            hit = any(call.query.get(k, "").lower() == v.lower() for k, v in known.items())
            items = [self.workspace()] if hit else []
            return 200, {"items": items, "total_count": len(items), "has_more": False, "next": None}
        if call.path == f"workspaces/{WORKSPACE}":
            return 200, self.workspace()
        return 404, {"error": "Nothing here.", "message": "Nothing here.", "code": "NOT_FOUND"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stage: Stage

    def log_message(self, *args: Any) -> None:
        pass

    def _go(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length)
        if self.headers.get("transfer-encoding") == "chunked":
            data = self._chunks()
        if parts.path.startswith("/git/"):
            self._git(parts.path, parts.query, data)
            return
        path = unquote(parts.path.removeprefix("/api/v1/"))
        headers = {key.lower(): value for key, value in self.headers.items()}
        call = Call(
            self.command,
            path,
            dict(parse_qsl(parts.query)),
            headers,
            json.loads(data) if data else None,
        )
        self.stage.calls.append(call)
        if headers.get("authorization") != f"Bearer {TOKEN}":
            self._json(401, {"error": "No.", "message": "No.", "code": "TOKEN_INVALID"})
        elif path.startswith(f"workspaces/{WORKSPACE}/artifacts/"):
            self._artifact(path.rpartition("/")[2].removesuffix(".tar"))
        else:
            self._json(*self.stage.answer(call))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _go

    def _chunks(self) -> bytes:
        out = b""
        while size := int(self.rfile.readline(), 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def _json(self, status: int, body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _artifact(self, digest: str) -> None:
        data = self.stage.artifacts.get(digest)
        fault = self.stage.faults.pop(0) if self.stage.faults else ""
        if data is None:
            self._json(404, {"error": "No.", "message": "No such artifact.", "code": "NOT_FOUND"})
            return
        if fault == "503":
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if fault == "lie":
            data = data[:-1] + b"!"
        wanted = self.headers.get("range", "")
        start = 0
        if wanted and fault != "no-ranges" and self.headers.get("if-range") == f'"{digest}"':
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start and start >= len(data):
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("ETag", f'"{digest}"')
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        rest = data[start:]
        if fault == "stall":
            self.wfile.write(rest[: len(rest) // 2])
            self.wfile.flush()
            self.stage.stalled.set()
            self.stage.go_on.wait(30)
            self.close_connection = True
            return
        if fault == "break":
            self.wfile.write(rest[: len(rest) // 2])
            self.close_connection = True
            return
        self.wfile.write(rest)

    def _git(self, path: str, query: str, data: bytes) -> None:
        given = self.headers.get("authorization", "")
        password = base64.b64decode(given.removeprefix("Basic ")).rpartition(b":")[2]
        if password.decode() != TOKEN:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="gitsync"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.stage.repos),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(data)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
            "REMOTE_USER": "robin",
        }
        out = subprocess.run(
            ["git", "http-backend"], input=data, env=env, stdout=subprocess.PIPE, check=True
        ).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        fields = [line.decode().partition(": ") for line in head.split(b"\r\n")]
        status = next((v.split()[0] for k, _, v in fields if k.lower() == "status"), "200")
        self.send_response(int(status))
        for key, _, value in fields:
            if key.lower() != "status":
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def break_off(self) -> None:
        for request in list(self.open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that leave early are part of the tests


@contextlib.contextmanager
def serving(
    repos: Path | None = None, *, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Stage]:
    stage = Stage(repos=repos)
    handler = type("Handler", (_Handler,), {"stage": stage})
    with _Listener(("127.0.0.1", port), handler) as listener:
        stage.url = f"http://127.0.0.1:{listener.server_address[1]}"
        if tls is not None:
            stage.url = stage.url.replace("http:", "https:")
            listener.socket = tls.wrap_socket(
                listener.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(
            target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield stage
        finally:
            listener.shutdown()
            listener.break_off()
            thread.join()


def tar_of(*members: tuple[str, Any]) -> bytes:
    """A tar from (name, content): bytes are a file, str is a link, TarInfo is taken as it is."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
    return out.getvalue()


def special(name: str, kind: bytes, **values: Any) -> tuple[str, tarfile.TarInfo]:
    info = tarfile.TarInfo(name)
    info.type = kind
    for key, value in values.items():
        setattr(info, key, value)
    return name, info


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


def gitsync(*args: str, cwd: Path, env: dict[str, str] | None = None, given: str = "") -> Ran:
    """Run a command line in this process: as `process` does, without the start of a Python."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    with (
        mock.patch.dict(os.environ, home_env(cwd) | (env or {}), clear=True),
        mock.patch.object(sys, "stdin", io.StringIO(given)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        os.chdir(cwd)
        try:
            code = execute(list(args))
        finally:
            os.chdir(before)
    return Ran(code, out.getvalue(), err.getvalue())


def process(*args: str, cwd: Path, env: dict[str, str] | None = None, given: str = "") -> Ran:
    """Run the installed command as a person would, with a home of its own."""
    done = subprocess.run(
        [str(GITSYNC), *args],
        cwd=cwd,
        env=home_env(cwd) | (env or {}),
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def home_env(folder: Path) -> dict[str, str]:
    """An environment without the developer's settings."""
    home = folder / ".home"
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "OSMOSIS_"))}
    return kept | {
        "HOME": str(home),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "GITSYNC_CACHE": str(folder / ".cache"),
    }


def git(*args: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run git; its two outputs together."""
    done = subprocess.run(
        ["git", *args],
        cwd=cwd,
        env=home_env(cwd.parent) | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stdout}"
    return done.stdout
