"""What is durable before what: the artifact and its folder before the transaction that names it.

A killed process loses no page cache, so this is read from the system calls (decision 4).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.service import eventually, family

CALLS = "openat,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,pwrite64,write,close"
_LINE = re.compile(r"^(\d+)\s+(\w+)\((.*)$")


@contextmanager
def traced(pid: int, out: Path):
    """Every call of the process and its threads, with the path of each descriptor (`-y`)."""
    strace = shutil.which("strace")
    assert strace, "strace is needed to see the order of system calls"
    process = subprocess.Popen(
        [strace, "-f", "-y", "-e", f"trace={CALLS}", "-s", "0", "-o", str(out), "-p", str(pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(
            lambda: _tracer(pid) == process.pid,
            what=lambda: "strace could not attach",
        )
        time.sleep(0.2)  # to the other threads too
        yield
    finally:
        process.terminate()
        process.wait(10)
        if process.stderr:
            process.stderr.close()


def _tracer(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"TracerPid:\s+(\d+)", text)[1])


def calls_of(out: Path, data: Path) -> list[tuple[str, str]]:
    """Call and the paths below the data folder it speaks of, in order."""
    found = []
    for line in out.read_text(errors="replace").splitlines():
        match = _LINE.match(line)
        if match:
            paths = re.findall(re.escape(str(data)) + r"/([^\">, )]+)", match[3])
            found += [(match[2], path) for path in paths]
    return found


@pytest.mark.slow
def test_an_artifact_is_synced_before_the_transaction_that_names_it(scene, tmp_path):
    service = scene.service
    assert not [p for p in family(service.pid) if _tracer(p)], "nobody else traces it"
    known = {p.name for p in (service.data / "artifacts").rglob("*.tar")}
    out = tmp_path / "trace"
    with traced(service.pid, out):
        tip = scene.move("commit")
        scene.deliver()
        eventually(lambda: service.served(scene.workspace) == tip, seconds=60)
    fresh = [p for p in (service.data / "artifacts").rglob("*.tar") if p.name not in known]
    assert len(fresh) == 1
    artifact = fresh[0].relative_to(service.data).as_posix()
    folder = fresh[0].parent.relative_to(service.data).as_posix()
    pack = next(
        path
        for call, path in calls_of(out, service.data)
        if call == "fsync" and path.startswith("artifacts/packs/") and path.endswith(".pack")
    )
    calls = calls_of(out, service.data)

    def last(call: str, path: str) -> int:
        found = [n for n, each in enumerate(calls) if each == (call, path)]
        assert found, f"no {call} of {path} was seen"
        return found[-1]

    # the sync of the write-ahead log that follows both is the publish transaction's commit
    logs = [
        n
        for n, (call, path) in enumerate(calls)
        if call in ("fsync", "fdatasync") and path.endswith("gitsync.db-wal")
    ]
    assert logs, "synchronous=FULL syncs the log at each commit"
    named = _commit_that_names(service, calls, logs)
    for path in (artifact, folder, pack):
        assert last("fsync", path) < named, f"{path} is synced after the transaction"


def _commit_that_names(service, calls: list[tuple[str, str]], logs: list[int]) -> int:
    """The first log sync after which nothing is put into the store any more."""
    stored = max(
        n
        for n, (call, path) in enumerate(calls)
        if path.startswith("artifacts/")
        and call
        in ("rename", "renameat", "renameat2", "link", "linkat", "write", "pwrite64", "fsync")
    )
    later = [n for n in logs if n > stored]
    assert later, "the transaction was committed before the artifact was stored"
    return later[0]
