"""A plain Git host for baselines: `git http-backend` behind the test kit's small server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/hostile"))


@contextmanager
def plain_host(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """The folder of its repositories, its URL and its port."""
    from servers import GitProxy  # type: ignore[import-not-found]

    root = folder / "plain"
    root.mkdir()
    with GitProxy(root, allow_push=True) as proxy:
        url = proxy.url_of("x.git").rsplit("/", 1)[0]
        yield root, url, int(url.rsplit(":", 1)[1].split("/")[0])
