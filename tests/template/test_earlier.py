"""From three earlier states of our own template to the present one, byte for byte.

`earlier/*.json` are whole workspaces (path → mode, text) as commits of this project rendered them,
with all their starters and skills, shorter data, and `max_concurrent = 6`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gitsync.template.catalogue import builtin
from gitsync.template.disk import DiskTree
from gitsync.template.files import EmptyTree, blob_id
from gitsync.template.journal import apply_plan
from gitsync.template.lock import LOCK_PATH, read_lock
from gitsync.template.plan import Action
from gitsync.template.starter import plan_workspace
from gitsync.template.update import plan_update
from gitsync.tree import Kind
from tests.template.builders import lay_out, snapshot

FOLDER = Path(__file__).parent / "earlier"
VERSIONS = ["0.1.0", "0.2.0", "0.3.0"]


class Earlier:
    def __init__(self, version: str, root: Path) -> None:
        stored = json.loads((FOLDER / f"{version}.json").read_text())
        self.files = {p: (Kind(mode), text.encode()) for p, (mode, text) in stored.items()}
        self.blobs = {blob_id(data): data for _, data in self.files.values()}
        self.root = lay_out(root, self.files)

    def plan(self):
        return plan_update(DiskTree(self.root), builtin(), read_blob=self.blobs.get)

    def fresh(self) -> dict[str, tuple[str, bytes]]:
        """The present template with the selection of the stored lock."""
        selection = read_lock(DiskTree(self.root)).selection
        plan = plan_workspace(EmptyTree(), builtin(), selection)
        return {p: (k.value, d) for p, (k, d) in plan.changes.items()}


@pytest.fixture(params=VERSIONS)
def earlier(request, tmp_path) -> Earlier:
    return Earlier(request.param, tmp_path / "ws")


def test_the_stored_trees_are_really_older(earlier):
    now = earlier.fresh()
    changed = [p for p, f in now.items() if p in earlier.files and earlier.files[p][1] != f[1]]
    assert len(changed) >= 3


def test_an_untouched_workspace_becomes_the_present_template(earlier):
    plan = earlier.plan()
    assert not plan.conflicts
    expected = earlier.fresh()
    apply_plan(earlier.root, plan)
    assert snapshot(earlier.root) == expected
    assert earlier.plan().changes == {}


def test_every_kind_of_edit_survives_byte_for_byte(earlier):
    root, now = earlier.root, earlier.fresh()
    config = root / "configs/eval/minimal-local.toml"
    config.write_text(config.read_text().replace("limit = 20", "limit = 3"))
    mine = {
        "data/multiply.jsonl": b"my rows\n",
        "CLAUDE.md": b"@AGENTS.md\n\nMy notes.\n",
        "configs/benchmark/default.toml": b"# mine\n",
        "rollouts/minimal-local/main.py": (root / "rollouts/minimal-local/main.py").read_bytes()
        + b"# mine\n",
        "notes/today.md": b"mine\n",
    }
    for path, data in mine.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(data)
    (root / ".env.example").unlink()
    (root / "README.md").chmod(0o755)
    plan = earlier.plan()
    apply_plan(root, plan)
    after = snapshot(root)

    expected = now | {p: ("100644", d) for p, d in mine.items()}
    del expected[".env.example"]
    expected["README.md"] = ("100755", earlier.files["README.md"][1])
    present = now["configs/eval/minimal-local.toml"][1].replace(b"limit = 20", b"limit = 3")
    expected["configs/eval/minimal-local.toml"] = ("100644", present)
    assert {p: f for p, f in after.items() if p != LOCK_PATH} == {
        p: f for p, f in expected.items() if p != LOCK_PATH
    }
    for step in plan.conflicts:
        path = step.path
        assert now[path][1] != earlier.files[path][1], "only where the template changed as well"
        assert step.base and step.ours and step.theirs
    actions = {s.path: s.action for s in plan.steps}
    assert actions[".env.example"] is Action.SKIP
    assert actions["data/multiply.jsonl"] is Action.SKIP
    assert {p: s for p, s in actions.items() if s is Action.CONFLICT} == {
        s.path: s.action for s in earlier.plan().conflicts
    }, "a conflict stays open"
