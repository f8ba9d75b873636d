"""A real S3 API (moto's server) for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

BUCKET = "gitsync-test"


@contextmanager
def s3_server() -> Iterator[str]:
    """The endpoint of a server with one bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        httpx.put(f"{url}/{BUCKET}", trust_env=False).raise_for_status()
        yield url
    finally:
        server.stop()
