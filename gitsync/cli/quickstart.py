"""`gitsync quickstart`: the main job in one command, on this machine."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.quickstart import TOKEN_FILE, Ready, prepare_admin, run
from gitsync.settings import Settings
from gitsync.web.logs import configure_logging
from gitsync.web.server import start


def quickstart(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of all local state.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0 picks one.")
    ] = None,
    leave: Annotated[
        bool, typer.Option("--exit", help="Stop after the first version is published.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Start the service here, push a first rollout, wait until it is published.

    It serves until Ctrl-C. Run again on the same folder it goes on with what is there.
    """
    settings = Settings.load(data_dir=data_dir, port=port, host="127.0.0.1")
    configure_logging(settings.model_copy(update={"log_level": "warning"}))
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    with output.waiting("starting"):
        running = start(settings)
        try:
            ready = run(running.url, prepare_admin(running.instance))
        except BaseException:
            running.stop()
            raise
    try:
        if json:
            output.emit(ready.to_json())
        else:
            _tell(ready, running.url, settings.data_dir)
        if leave:
            return
        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)
        if not json:
            output.say("", f"Serving on {running.url} until Ctrl-C.")
        while not stop.wait(0.2):
            pass
    finally:
        running.stop()


def _program() -> str:
    """How to call this program from a shell: by name, or by path where PATH lacks it."""
    found = shutil.which("gitsync")
    here = Path(sys.argv[0]).absolute()
    is_same = found is not None and Path(found).resolve() == here.resolve()
    return "gitsync" if is_same else shlex.quote(str(here))


def _tell(ready: Ready, url: str, data_dir: Path) -> None:
    program = _program()
    place = f"--server {url} --token-file {shlex.quote(str(data_dir / TOKEN_FILE))}"
    output.say(f"Published {ready.commit_sha[:10]} of {ready.identity}:")
    for rollout in ready.rollouts:
        output.say(f"  {rollout['name']}: {rollout['verdict']}, sha256:{rollout['digest']}")
    output.say(
        "What to do next:",
        "",
        f"  {program} clone {ready.identity} {place}",
        f"  cd {ready.identity.partition('/')[2]}   # change something and commit it, then",
        "  git push",
        f"  {program} status --wait",
        "",
        "A workspace of your own, from starters:",
        "",
        f"  {program} workspace create OWNER/NAME --starter minimal-local {place}",
        "",
        f"All state is in {data_dir}.",
    )
