"""Whatever an archive holds: inside the folder only, and never through a link."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitsync.artifacts import write_tar
from gitsync.client import ArtifactUnsafe, TargetUnwritable
from gitsync.client.artifact import pull
from gitsync.client.extract import extract
from gitsync.tree import Entry, Kind
from tests.cli.kit import special, tar_of

part = st.sampled_from(["a", "b", "A", "..", ".", "", "link", "\udcff", "ü"])
path = st.lists(part, min_size=1, max_size=4).map("/".join)
plain = st.tuples(path, st.binary(max_size=8))
link = st.tuples(path, st.one_of(path, st.just("/tmp"), st.just("../outside/secret")))
odd = st.builds(
    lambda name, kind, target: special(name, kind, linkname=target),
    path,
    st.sampled_from([tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"?"]),
    path,
)


def outside_of(box: Path) -> dict[str, bytes | None]:
    return {
        str(p.relative_to(box)): p.read_bytes() if p.is_file() else None
        for p in box.rglob("*")
        if (box / "target") not in (p, *p.parents)
    }


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(plain, plain, link, odd), max_size=8))
def test_nothing_outside_changes_and_no_link_leads_out(members) -> None:
    data = tar_of(*members)
    with tempfile.TemporaryDirectory() as name:
        box = Path(name)
        (box / "outside").mkdir()
        (box / "outside" / "secret").write_bytes(b"s")
        target = box / "target"
        target.mkdir()
        before = outside_of(box)
        try:
            count = extract(io.BytesIO(data), target)
        except ArtifactUnsafe:
            assert outside_of(box) == before
            return
        assert outside_of(box) == before
        assert count == len(members)
        for found in target.rglob("*"):
            real = Path(os.path.realpath(found))
            assert real == target.resolve() or target.resolve() in real.parents


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=4096))
def test_any_bytes_end_in_an_answer(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.suppress(ArtifactUnsafe):
        extract(io.BytesIO(data), Path(name))


def headers(count: int) -> bytes:
    """A chain of extended headers, each about the next one."""
    record = b"11 path=ab\n"
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(record)
    return (info.tobuf(tarfile.USTAR_FORMAT) + record.ljust(512, b"\0")) * count


ODD = {
    "a chain of headers": headers(3000),
    "a header about nothing": headers(1),
    "a negative size": tar_of(special("x", b"0", pax_headers={"size": "-1024"})),
    "a size that is no number": tar_of(special("x", b"0", pax_headers={"size": "1e999"})),
    "a name too long for a file": tar_of(("n" * 300, b"x")),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_archives_are_refused(tmp_path: Path, name: str) -> None:
    with contextlib.suppress(ArtifactUnsafe):
        extract(io.BytesIO(ODD[name]), tmp_path)
        assert [p.stat().st_size for p in tmp_path.iterdir()] in ([], [0])


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tar_of(("a", b"x"))
    digest = hashlib.sha256(data).hexdigest()
    entry = tmp_path / "cache" / digest[:2] / f"{digest}.tar"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(data)
    (tmp_path / "in").mkdir()

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gitsync.client.extract._write", full)
    with pytest.raises(TargetUnwritable, match="No space left"):
        pull(
            digest, tmp_path / "in/out", place=None, env={"GITSYNC_CACHE": str(tmp_path / "cache")}
        )
    assert os.listdir(tmp_path / "in") == []


class Memory:
    """A tree of one artifact, as the service has it."""

    def __init__(self, files: dict[str, tuple[Kind, bytes]]) -> None:
        self.files = files

    def entry(self, path: str) -> Entry | None:
        found = self.files.get(path)
        name = path.rpartition("/")[2]
        return None if found is None else Entry(name, found[0], None, int(found[0].value, 8))

    def children(self, path: str) -> list[Entry]:
        return []

    def size(self, path: str) -> int:
        return len(self.files[path][1])

    def read(self, path: str, *, limit: int) -> bytes:
        return self.files[path][1]

    def stream(self, path: str):
        yield self.files[path][1]


def test_what_the_service_writes_is_what_is_unpacked(tmp_path: Path) -> None:
    long = "rollouts/x/" + "n" * 120 + "/" + "m" * 200
    files = {
        "rollouts/x/\udcff\udcfe": (Kind.FILE, b"undecodable"),
        "rollouts/x/main.py": (Kind.FILE, b"x" * 100_000),
        "rollouts/x/run": (Kind.EXECUTABLE, b"#!"),
        "rollouts/x/to-ü": (Kind.LINK, "../../data/ü".encode()),
        "data/ü": (Kind.FILE, b""),
        long: (Kind.FILE, b"deep"),
    }
    tree = Memory(files)
    out = io.BytesIO()
    write_tar(tree, [(p, tree.entry(p)) for p in sorted(files)], out)
    assert extract(out, tmp_path) == len(files)
    for name, (kind, data) in files.items():
        target = tmp_path / name
        if kind is Kind.LINK:
            assert os.readlink(os.fsencode(target)) == data
        else:
            assert target.read_bytes() == data
            assert bool(target.stat().st_mode & 0o100) == (kind is Kind.EXECUTABLE)
