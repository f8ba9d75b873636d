"""Running the server: start, first link, graceful end (decision 25)."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType

import uvicorn

from gitsync import inspection
from gitsync.engine import EmbeddedEngine
from gitsync.errors import ConfigError
from gitsync.instance import DataFolder, Instance, open_instance
from gitsync.settings import Settings
from gitsync.store import people
from gitsync.web.api.people import login_url
from gitsync.web.app import create_app
from gitsync.web.logs import configure_logging
from gitsync.web.protocol import BoundedProtocol

log = logging.getLogger(__name__)

GRACE_S = 3  # for requests, after streams were told to end
LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def _no_point(_name: str) -> None:
    """Nothing stops a server in production."""


@dataclass(slots=True)
class Running:
    """A server that listens; `url` is where."""

    instance: Instance
    url: str
    engine: EmbeddedEngine
    _server: uvicorn.Server
    _thread: threading.Thread
    _folder: DataFolder
    _end_waits: Callable[[], None]
    _close_host: Callable[[], None]

    def stop(self) -> None:
        """Take no new work, let syncs end, close everything; within 15 s."""
        self._end_waits()
        self.instance.signals.notify()
        self._server.should_exit = True
        self.engine.stop()
        self.instance.signals.notify()
        self._thread.join(timeout=GRACE_S + 2)
        self._close_host()
        self.instance.close()
        self._folder.unlock()

    def wait(self) -> None:
        """Until the server ends by itself."""
        while self._thread.is_alive():
            self._thread.join(timeout=0.5)


def start(settings: Settings, *, at: Callable[[str], None] = _no_point) -> Running:
    """Open the instance, bind, recover, serve in a thread; returns when requests are answered."""
    folder = DataFolder(settings.data_dir)
    with ExitStack() as undo:
        folder.lock()
        undo.callback(folder.unlock)
        listening = undo.enter_context(_bind(settings))
        port = listening.getsockname()[1]
        settings = settings.model_copy(update={"port": port})
        instance = open_instance(settings, folder, at=at)
        undo.pop_all()
    engine = EmbeddedEngine(instance)
    instance.wake.listener = engine.wake
    app = create_app(instance, running=lambda: engine.running)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_S,
        http=BoundedProtocol,
        limit_concurrency=None,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies) or None,
        server_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(server, listening), loop_factory=_loop()),
        name="http",
        daemon=True,
    )
    warm = threading.Thread(target=_warm, args=(instance,), name="warm", daemon=True)
    warm.start()
    engine.start()
    thread.start()
    while not server.started and thread.is_alive():
        thread.join(timeout=0.01)
    if not server.started:
        instance.close()
        folder.unlock()
        raise ConfigError("The server did not start; the log says why.")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return Running(
        instance,
        f"http://{host}:{port}",
        engine,
        server,
        thread,
        folder,
        app.state.waits.close,
        app.state.git_host.close,
    )


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    # signals are ours: uvicorn would take them in the main thread only
    await server._serve(sockets=[listening])


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as e:
        listening.close()
        raise ConfigError(
            f"Cannot listen on {settings.host}:{settings.port} (GITSYNC_HOST, GITSYNC_PORT): "
            f"{e.strerror}."
        ) from e
    listening.listen(1024)
    return listening


def _warm(instance: Instance) -> None:
    """Load the checker in all worker processes, so that the first push does not wait for it."""
    threads = [
        threading.Thread(target=_warm_one, args=(instance,), daemon=True)
        for _ in range(instance.settings.check_processes)
    ]
    for thread in threads:
        thread.start()


def _warm_one(instance: Instance) -> None:
    try:
        instance.pool.run(inspection.warm)
    except Exception:
        log.exception("a worker process could not be prepared")


def first_link(instance: Instance) -> str | None:
    """At the very first start: an administrator, and the link that signs them in once."""
    now = instance.now()
    with instance.database.write() as db:
        if people.count_users(db):
            return None
        admin = people.add_user(
            db, email="admin@localhost.invalid", name="Administrator", is_admin=True, now=now
        )
        code = people.add_login_link(db, admin.id, now=now)
    return login_url(instance.settings.url, code)


def serve(settings: Settings, *, at: Callable[[str], None] = _no_point) -> None:
    """Serve until SIGTERM or SIGINT."""
    configure_logging(settings)
    running = start(settings, at=at)
    stop = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    if link := first_link(running.instance):
        print(f"Sign in as administrator, once, within 24 hours:\n  {link}", flush=True)
    print(f"gitsync listens on {running.url}", flush=True)
    if settings.host not in LOOPBACK and not settings.url.startswith("https://"):
        log.warning(
            "tokens travel unencrypted: put a TLS proxy in front and set GITSYNC_PUBLIC_URL"
        )
    while not stop.wait(0.5):
        if not running._thread.is_alive():
            log.error("the HTTP server ended")
            break
    running.stop()
    log.info("stopped")
