"""The embedded host's memory does not grow with what passes through it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from tests.git.kit import checkout, git

pytestmark = pytest.mark.slow
MB = 1 << 20


class Peak:
    """The largest resident memory of a process while it is watched, in MB."""

    def __init__(self, pid: int) -> None:
        self.pid, self.most = pid, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def now(self) -> int:
        with open(f"/proc/{self.pid}/status") as file:
            [line] = [row for row in file if row.startswith("VmRSS")]
        return int(line.split()[1]) // 1024

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.most = max(self.most, self.now())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A working copy with a commit of 500 MB that do not compress."""
    work = checkout(tmp_path_factory.mktemp("large") / "work")
    with (work / "blob").open("wb") as file:
        for _ in range(500):
            file.write(os.urandom(MB))
    git("-c", "core.bigFileThreshold=1m", "add", "blob", cwd=work)
    git("commit", "-q", "-m", "large", cwd=work)
    (work / "blob").unlink()
    return work


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_500_mb_push_and_clone(large, tmp_path, http):
    code = (
        "import time\nfrom pathlib import Path\nfrom tests.git.kit import ServedHost\n"
        f"host = ServedHost(Path({str(tmp_path / 'repos')!r}), http={http!r})\nhost.make()\n"
        "with host:\n    print(host.port, flush=True)\n    time.sleep(600)\n"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/demo.git"
        git("ls-remote", url, cwd=large)
        time.sleep(0.5)
        with Peak(server.pid) as peak:
            before = peak.now()
            git("push", "-q", url, "HEAD:main", cwd=large)
            git("clone", "-q", "--bare", url, str(tmp_path / "copy"))
        assert peak.most - before < 50
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert (tmp_path / "copy").exists()
