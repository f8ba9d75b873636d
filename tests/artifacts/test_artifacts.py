from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from gitsync.artifacts import ArtifactTooLarge, LinkMemory, closure, content_key, write_tar
from gitsync.tree import Kind

from .memory_tree import MemoryTree

PLAIN = {
    "rollouts/demo/main.py": b"print('hi')\n",
    "rollouts/demo/run.sh": ("100755", b"#!/bin/sh\n"),
    "rollouts/demo/pkg/__init__.py": b"",
    "rollouts/other/main.py": b"x = 1\n",
    "common/lib/a.py": b"a = 1\n",
    "common/lib/b.py": ("120000", b"a.py"),
    "README.md": b"# hello\n",
}


def tar_of(files, rollout="demo", **more):
    tree = MemoryTree(files)
    members = closure(tree, rollout)
    out = io.BytesIO()
    digest, size = write_tar(tree, members.paths, out, **more)
    assert hashlib.sha256(out.getvalue()).hexdigest() == digest and len(out.getvalue()) == size
    return digest, out.getvalue(), [path for path, _ in members.paths]


def test_an_artifact_holds_the_rollout_and_nothing_else():
    _, data, names = tar_of(PLAIN)
    assert names == [
        "rollouts/demo/main.py",
        "rollouts/demo/pkg/__init__.py",
        "rollouts/demo/run.sh",
    ]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == names
        modes = {m.name: oct(m.mode) for m in tar.getmembers()}
        assert modes["rollouts/demo/run.sh"] == "0o755"
        assert modes["rollouts/demo/main.py"] == "0o644"
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in tar.getmembers()} == {
            (0, 0, 0, "", "")
        }


@pytest.mark.parametrize(
    ("link", "target", "also"),
    [
        ("rollouts/demo/lib", "../../common/lib", ["common/lib/a.py", "common/lib/b.py"]),
        ("rollouts/demo/a.py", "../../common/lib/b.py", ["common/lib/a.py", "common/lib/b.py"]),
        ("rollouts/demo/a.py", "../../common/lib/a.py", ["common/lib/a.py"]),
        ("rollouts/demo/gone", "../../nothing/here", []),
        ("rollouts/demo/up", "../../../../etc/passwd", []),
        ("rollouts/demo/abs", "/etc/passwd", []),
        ("rollouts/demo/self", "self", []),
        ("rollouts/demo/here", ".", []),
        ("rollouts/demo/sib", "../other", ["rollouts/other/main.py"]),
    ],
)
def test_link_targets_in_the_commit_travel_along(link, target, also):
    _, _, names = tar_of({**PLAIN, link: ("120000", target.encode())})
    plain = tar_of(PLAIN)[2]
    assert sorted(set(names) - set(plain)) == sorted([link, *also])


def test_a_link_to_the_root_takes_everything_and_ends():
    _, _, names = tar_of({**PLAIN, "rollouts/demo/all": ("120000", b"../..")})
    assert set(names) == {*PLAIN, "rollouts/demo/all"}


def test_a_rollout_that_is_a_link_brings_its_folder():
    _, _, names = tar_of({**PLAIN, "rollouts/alias": ("120000", b"demo")}, "alias")
    assert names[0] == "rollouts/alias" and "rollouts/demo/main.py" in names


def test_equal_trees_under_two_names_have_two_digests_and_keys():
    files = {"rollouts/a/main.py": b"x\n", "rollouts/b/main.py": b"x\n"}
    assert tar_of(files, "a")[0] != tar_of(files, "b")[0]
    tree = MemoryTree(files)
    assert closure(tree, "a").content_key != closure(tree, "b").content_key


def test_the_key_follows_files_outside_only_where_a_link_leads_there():
    memory = LinkMemory()
    linked = {**PLAIN, "rollouts/demo/lib": ("120000", b"../../common/lib")}
    changed = {**linked, "common/lib/a.py": b"a = 2\n"}
    assert content_key(MemoryTree(linked), "demo", memory) != content_key(
        MemoryTree(changed), "demo", memory
    )
    unlinked = {**PLAIN, "common/lib/a.py": b"a = 2\n"}
    assert content_key(MemoryTree(PLAIN), "demo", memory) == content_key(
        MemoryTree(unlinked), "demo", memory
    )
    assert (
        content_key(MemoryTree(PLAIN), "demo", memory)
        == closure(MemoryTree(PLAIN), "demo").content_key
    )


def test_too_large_is_an_error_with_both_numbers():
    with pytest.raises(ArtifactTooLarge) as error:
        tar_of({"rollouts/demo/big": b"x" * 2048}, limit=1024)
    assert error.value.details == {"size": 2048, "limit": 1024}


LONG = "rollouts/demo/" + "d" * 120 + "/" + "f" * 120


def test_the_empty_artifact_is_one_record_of_zeros():
    digest, data, _ = tar_of({})
    assert data == b"\0" * 10240
    assert digest == hashlib.sha256(b"\0" * 10240).hexdigest()


@pytest.mark.parametrize(
    ("files", "digest"),
    [
        (PLAIN, "PLAIN"),
        ({LONG: b"long\n"}, "LONG"),
        ({"rollouts/demo/naïve-日本.py": b"utf8\n"}, "UTF8"),
        ({"rollouts/demo/link": ("120000", b"t" * 150)}, "LINK"),
        ({"rollouts/demo/x" * 3: b"x" * 512}, "BLOCK"),
    ],
)
def test_golden_digests_do_not_change(files, digest):
    """Version 1 of the format is frozen: a change here breaks every published digest."""
    expected = dict(
        line.split() for line in (Path(__file__).parent / "golden.txt").read_text().splitlines()
    )
    assert tar_of(files)[0] == expected[digest]


def test_the_docs_recompute_a_digest_with_plain_python(tmp_path):
    """The program in docs/artifact-format.md gives the digest we publish."""
    text = (Path(__file__).parents[2] / "docs/artifact-format.md").read_text()
    program = text.split("```python\n", 1)[1].split("```", 1)[0]
    for path, value in PLAIN.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode, data = value if isinstance(value, tuple) else ("100644", value)
        if mode == Kind.LINK:
            target.symlink_to(data.decode())
        else:
            target.write_bytes(data)
            target.chmod(0o755 if mode == Kind.EXECUTABLE else 0o644)
    (tmp_path / "rollouts/demo/lib").symlink_to("../../common/lib")
    import sys

    done = subprocess.run(
        [sys.executable, "-c", program, "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr
    linked = {**PLAIN, "rollouts/demo/lib": ("120000", b"../../common/lib")}
    assert done.stdout.strip() == tar_of(linked)[0]
