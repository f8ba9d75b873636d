"""`gitsync serve`: the service, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gitsync.settings import Settings
from gitsync.web.server import serve as run


def serve(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of all local state.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to bind to.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to bind to; 0 picks one.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option("--public-url", metavar="URL", help="How people reach it.")
    ] = None,
) -> None:
    """Run the service.

    Settings come from these options, GITSYNC_* in the environment and gitsync.toml, in this order.
    """
    run(Settings.load(data_dir=data_dir, host=host, port=port, public_url=public_url))
