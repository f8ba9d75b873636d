"""New objects as one pack: git reads what we wrote, and nothing half-written is ever seen."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygit2.enums import ObjectType

from gitsync.git.failures import LimitHit, RepositoryCorrupt
from gitsync.git.host import create_repository
from gitsync.git.odb import ObjectStore
from gitsync.git.packing import NewPack
from gitsync.git.storage import remove_leftovers
from tests.git.kit import git


@pytest.fixture
def repo(tmp_path):
    create_repository(tmp_path / "r.git")
    return tmp_path / "r.git"


def packs(repo):
    return sorted(p.name for p in (repo / "objects/pack").iterdir())


def test_git_and_we_read_the_same(repo):
    pack = NewPack(repo)
    datas = [b"", b"a", b"b" * 15, b"c" * 16, b"d" * 2047, b"e" * 2048, os.urandom(300_000)]
    names = [pack.add(ObjectType.BLOB, data) for data in datas]
    assert packs(repo) == []
    pack.store()
    git("verify-pack", *(f"objects/pack/{n}" for n in packs(repo) if n.endswith(".idx")), cwd=repo)
    store = ObjectStore(repo)
    for name, data in zip(names, datas, strict=True):
        assert store.read_blob(name, limit=10**6) == data
        assert git("cat-file", "-s", name, cwd=repo) == str(len(data))
    assert {oct(p.stat().st_mode)[-3:] for p in (repo / "objects/pack").iterdir()} == {"444"}
    git("fsck", "--strict", cwd=repo)
    git("gc", "-q", "--prune=now", cwd=repo)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=400), min_size=1, max_size=300))
def test_any_objects_can_be_read_again(tmp_path_factory, datas):
    repo = tmp_path_factory.mktemp("p") / "r.git"
    create_repository(repo)
    pack = NewPack(repo)
    names = [pack.add(ObjectType.BLOB, data) for data in datas]
    pack.store()
    store = ObjectStore(repo)
    assert [store.read_blob(name, limit=400) for name in names] == datas


def test_the_same_objects_are_stored_once_and_none_make_no_pack(repo):
    NewPack(repo).store()
    assert packs(repo) == []
    for _ in range(2):
        pack = NewPack(repo)
        pack.add(ObjectType.BLOB, b"x")
        pack.store()
    assert len(packs(repo)) == 2


def test_a_kill_between_pack_and_index_leaves_what_is_swept(repo, monkeypatch):
    pack = NewPack(repo)
    name = pack.add(ObjectType.BLOB, b"x")
    with monkeypatch.context() as patch:
        patch.setattr("gitsync.git.packing._index", _break)
        with pytest.raises(KeyboardInterrupt):
            pack.store()
    assert [p.rpartition(".")[2] for p in packs(repo)] == ["pack"]
    with pytest.raises(RepositoryCorrupt):
        ObjectStore(repo).read_blob(name, limit=10)
    assert remove_leftovers(repo) == 1
    pack.store()
    assert ObjectStore(repo).read_blob(name, limit=10) == b"x"


def _break(*_):
    raise KeyboardInterrupt


def test_what_cannot_be_written_says_so(repo, monkeypatch):
    pack = NewPack(repo)
    pack.add(ObjectType.BLOB, os.urandom(2000))
    with monkeypatch.context() as patch:
        patch.setattr("gitsync.git.packing.MAX_PACK_BYTES", 1000)
        with pytest.raises(LimitHit):
            pack.store()
    (repo / "objects/pack").rmdir()
    (repo / "objects/pack").write_text("in the way")
    with pytest.raises(RepositoryCorrupt):
        pack.store()
