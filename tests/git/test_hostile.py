"""Every repository of the hostile kit at the fetch, from honest and from unchecked servers."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest
import servers

from gitsync.errors import GitSyncError
from gitsync.git.failures import GitFailure
from gitsync.git.lsrefs import look
from gitsync.git.mirror import Mirror
from gitsync.git.objects import count_history, open_commit, read_commit
from gitsync.git.remote import Remote
from gitsync.tree import Kind
from tests.git.conftest import make_kit

pytestmark = pytest.mark.slow

# What a fetch refuses although the kit would rather have a finding: git itself cannot take it.
BY_ACCEPT_ONLY = {
    "path-empty-name",  # an honest server cannot pack it
    "path-slash-in-name",  # its tree is not sorted, which is a check that stays
    "path-slash-escape",  # as above
    "delta-bomb",  # the memory limit
}


class Children:
    """The most memory that our children ever held together, in MB, as sampled 20 times a second."""

    def __init__(self) -> None:
        self.peak = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.wait(0.05):
            pages = 0
            for entry in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if b"GITSYNC_CHILD=1" in (entry / "environ").read_bytes():
                        pages += int((entry / "statm").read_text().split()[1])
            self.peak = max(self.peak, pages * 4096 / 1e6)


@pytest.fixture
def children():
    with Children() as children:
        yield children
    assert 0 < children.peak < 300


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_kit(tmp_path_factory.mktemp("whole"))


def wanted(case) -> str:
    head = case["states"][-1]["HEAD"]
    return head.removeprefix("ref: ") if head.startswith("ref: refs/") else "refs/heads/main"


def touch(repo, sha: str) -> None:
    """Read what an inspection reads, within its limits."""
    read_commit(repo, sha)
    tree, stack, seen = open_commit(repo, sha), [""], 0
    while stack and seen < 5000:
        at = stack.pop()
        for entry in tree.children(at):
            seen += 1
            path = f"{at}/{entry.name}" if at else entry.name
            if tree.entry(path) is None:
                continue  # a name with a slash, or an empty one: no path leads to it
            if entry.kind is Kind.FOLDER and path.count("/") < 64:
                stack.append(path)
            elif entry.is_file and tree.size(path) <= 1 << 20:
                tree.read(path, limit=1 << 20)


def test_an_honest_server(whole, tmp_path, loopback, children):
    refused = {}
    with servers.GitProxy(whole.out) as proxy:
        for name, case in whole.cases.items():
            mirror = Mirror(tmp_path / case["repo"])
            mirror.ensure()
            remote = Remote.parse(proxy.url_of(case["repo"]))
            ref = wanted(case)
            try:
                tips = look(remote, loopback)
                result = mirror.fetch(remote, [tips.default_branch or ref], loopback)
                [sha] = result.tips.values()
                assert sha == case["states"][-1]["tip"] or name == "head-detached"
                touch(mirror.path, sha)
                assert count_history(mirror.path, sha) >= 1
            except GitSyncError as e:
                assert isinstance(e, GitFailure), (name, e)
                assert e.message.isprintable(), name
                refused[name] = e
            finally:
                mirror.remove()
    for name, error in refused.items():
        assert "refuse-fetch" in whole.cases[name]["accept"], (name, error)
    by_accept = {n for n in refused if whole.cases[n]["must"] != "refuse-fetch"}
    assert by_accept == BY_ACCEPT_ONLY
    must = {n for n, c in whole.cases.items() if c["must"] == "refuse-fetch"}
    assert must - set(refused) == {"format-sha256"} - set(refused)


def test_a_server_that_sends_its_pack_unchecked(whole, tmp_path, loopback, children):
    for name, case in whole.cases.items():
        if case["group"] not in ("storage", "paths") and "bomb" not in name:
            continue
        mirror = Mirror(tmp_path / case["repo"])
        mirror.ensure()
        with servers.Remote(whole.path(name)) as server:
            try:
                result = mirror.fetch(Remote.parse(server.url), [wanted(case)], loopback)
                touch(mirror.path, next(iter(result.tips.values())))
                fine = True
            except GitFailure as e:
                fine = False
                assert e.message.isprintable()
        mirror.remove()
        if name == "index-lies":
            assert fine  # its pack is sound, and we make our own index
        elif fine:
            assert case["must"] != "refuse-fetch" or "publish" in case["accept"], name
        else:
            assert "refuse-fetch" in case["accept"], name
