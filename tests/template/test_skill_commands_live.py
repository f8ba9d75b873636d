"""What the skills tell an agent to run, against a server: in a good state, then in bad ones.

A workspace made by `gitsync workspace create`, cloned by `gitsync clone`; the real `osmosis`, `git`
and `gitsync`; an executor over HTTP. The lines that need no server are in `test_skill_commands`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.live import Live, live_server
from tests.runs.kit import Executor
from tests.template.builders import put
from tests.template.skill_blocks import EXAMPLE_VALUES, fill
from tests.template.test_skill_commands import EVERY, NEEDS_SERVER, PROOFS, Ran
from tests.template.test_skill_commands import field as value_at

pytestmark = pytest.mark.slow  # CI and `make test-all` run it

BIN = Path(sys.executable).parent
IDENTITY = "acme--local/chess"
LINES = [c for c in EVERY if c.startswith(NEEDS_SERVER)]
SUBMIT = {
    "eval": "osmosis --json eval submit configs/eval/<rollout>.toml --yes",
    "train": "osmosis --json train submit configs/training/<rollout>.toml --yes",
}
MAIN = "rollouts/minimal-local/main.py"


@dataclass
class Desk:
    """A clone, and what was said there."""

    live: Live
    root: Path
    home: Path
    values: dict[str, str]
    said: dict[str, Ran] = field(default_factory=dict)

    def sh(self, *words: str, cwd: Path | None = None, **env: str) -> Ran:
        done = subprocess.run(
            words,
            cwd=cwd or self.root,
            env={
                "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(self.home),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_TERMINAL_PROMPT": "0",
                "OSMOSIS_TOKEN_STORE": "file",
                "no_proxy": "*",
                **{k: v for k, v in os.environ.items() if k.startswith(("GIT_AUTHOR", "GIT_COMM"))},
                **env,
            },
            capture_output=True,
            text=True,
            timeout=180,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def run(self, line: str, **values: str) -> Ran:
        """One line of a skill; `<run>` is the run of the kind that the line is about."""
        kind = "train" if " train " in line else "eval"
        known = {**self.values, "<run>": self.values.get(f"<{kind}-run>", "none"), **values}
        return self.sh(*fill(line, known))

    def note(self, *lines: str) -> None:
        """Run lines and keep what they said."""
        for line in lines:
            self.said[line] = self.run(line)
            assert self.said[line].code == 0, f"{line}: {self.said[line]}"

    def ok(self, *words: str, **env: str) -> str:
        ran = self.sh(*words, **env)
        assert ran.code == 0, f"{' '.join(words)}: {ran}"
        return ran.stdout

    def commit(self, files: dict[str, str]) -> str:
        put(self.root, files)
        self.ok("git", "add", "--all")
        self.ok("git", "commit", "-q", "-m", "Change")
        return self.head()

    def head(self) -> str:
        return self.ok("git", "rev-parse", "HEAD").strip()

    def refused(self, line: str, **values: str) -> dict[str, Any]:
        """The error a line of `osmosis` ends with."""
        ran = self.run(line, **values)
        assert ran.code == 1 and ran.stdout == "", f"{line}: {ran}"
        error: dict[str, Any] = json.loads(ran.stderr.splitlines()[-1])["error"]
        return error

    def dataset_ready(self) -> None:
        for _ in range(200):
            data = json.loads(self.ok("osmosis", "--json", "dataset", "info", "multiply"))["data"]
            if data["status"] == "uploaded":
                return
            time.sleep(0.05)
        raise AssertionError(data)

    def carry_out(self, kind: str) -> None:
        """Submit, let an executor do it, and note what the skills look at."""
        self.note(SUBMIT[kind])
        self.values[f"<{kind}-run>"] = self.said[SUBMIT[kind]].json()["resource"]["name"]
        name = {"eval": "eval", "train": "training"}[kind]
        workspace = self.live.get("/workspaces", params={"identity": IDENTITY})["items"][0]
        body = {"name": "gpu", "role": "executor", "workspaces": [workspace["id"]]}
        made = self.live.post("/tokens", body, status=201)
        executor = Executor(self.live, made["secret"], made["token"]["id"])
        claim = executor.claim(name)
        assert claim is not None
        executor.finish(claim, [1.0, 0.0, 1.0] if kind == "eval" else [])


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The whole story: nothing uploaded, then all as it should be. Later tests break it."""
    folder = tmp_path_factory.mktemp("desk")
    with live_server(folder) as live:
        found = Desk(live, folder / "chess", put(folder / "home", {"x": ""}), dict(EXAMPLE_VALUES))
        found.values |= {"<rollout>": "minimal-local"}
        place = {"GITSYNC_SERVER": live.url, "GITSYNC_TOKEN": live.token}
        create = ["workspace", "create", IDENTITY, "--starter", "minimal-local", "--wait"]
        for words in (create, ["clone", IDENTITY]):
            ran = found.sh("gitsync", *words, cwd=folder, **place)
            assert ran.code == 0, ran
        yield found


@pytest.fixture(scope="module")
def early(desk) -> dict[str, Any]:
    """What a submit says while dataset and secret are missing."""
    before = {"no secret": desk.refused(SUBMIT["eval"])}
    secret = ("secret", "set", "OPENAI_API_KEY", "--scope", "workspace", "--env", "KEY")
    desk.ok("osmosis", "--json", *secret, KEY="not-a-real-key")
    before["no dataset"] = desk.refused(SUBMIT["eval"])
    before["no dataset to train on"] = desk.refused(SUBMIT["train"])
    desk.ok("osmosis", "--json", "dataset", "upload", "data/multiply.jsonl", "--yes")
    desk.dataset_ready()
    return before


@pytest.fixture(scope="module")
def good(desk, early) -> Desk:
    """Every line in the order of work, each with exit 0."""
    desk.commit({MAIN: (desk.root / MAIN).read_text() + "\n# a change\n"})
    desk.note("git push", "gitsync status --wait", "gitsync status --json")
    desk.note("osmosis --json doctor")
    desk.carry_out("eval")
    desk.carry_out("train")
    desk.note(*(line for line in LINES if line not in desk.said))
    return desk


def code_of(error: dict[str, Any]) -> str:
    """Where `debug-rollouts` says that the platform's own code stands."""
    return str(error["details"]["platform_code"])


def test_the_starters_say_what_is_missing_before_the_first_run(early):
    assert early["no secret"]["code"] == "INTERACTIVE_REQUIRED"
    assert early["no secret"]["details"]["missing"] == ["OPENAI_API_KEY"]
    for what in ("no dataset", "no dataset to train on"):
        assert code_of(early[what]) == "DATASET_NOT_FOUND", early[what]
        assert early[what]["details"]["field"] == "experiment_config.dataset"
        assert "multiply" in early[what]["message"]


def test_every_line_that_needs_a_server_succeeds_in_a_good_state(good):
    assert set(LINES) <= set(good.said)
    for line in LINES:
        if "--json" in line:
            good.said[line].json()


def holds(desk: Desk, claim: str, proof, ran: Ran) -> bool:
    """Whether the answer proves what the table says it proves."""
    if claim == "exit 0":
        return ran.code == 0
    values = [value_at(ran.json(), path) for path in proof.fields]
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    head = desk.head()
    if claim.endswith(("is HEAD", "is the pinned commit")):
        wanted: list[Any] = [True, head] if "is true" in claim else [head] * len(flat)
        return bool(flat) and flat == wanted
    if claim.endswith("is not null") or claim.startswith("`.resource.workspace` is not null"):
        return None not in flat
    if claim.endswith("has no `limit`"):
        return all("limit" not in json.dumps(value) for value in flat)
    if " is `" in claim:
        return flat == [claim.rpartition(" is ")[2].strip("`")]
    return all(value not in (None, "") for value in flat)  # a number or a state to look at


def proofs_with_a_server():
    return [
        p for p in PROOFS if p.command.startswith(NEEDS_SERVER) or ".resource.workspace" in p.fields
    ]


# true of the run of record alone: the starter's config has a limit on purpose
LATER = "`.data.config` has no `limit`"


def test_proofs_hold_in_a_good_state(good):
    seen = 0
    for proof in proofs_with_a_server():
        ran = good.said.get(proof.command) or good.run(proof.command)
        assert holds(good, proof.proof, proof, ran) is (proof.proof != LATER), (proof, ran)
        seen += 1
    assert seen >= 20


@pytest.fixture(scope="module")
def recorded(good):
    """The same workspace after its run of record: the tests of a file may run in two processes."""
    path = "configs/eval/minimal-local.toml"
    text = (good.root / path).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("limit")]
    good.commit({path: "\n".join(lines) + "\n"})
    good.note("git push", "gitsync status --wait")
    good.carry_out("eval")
    return good


def test_a_run_of_record_has_no_limit(recorded):
    (proof,) = [p for p in PROOFS if p.proof == LATER]
    assert holds(recorded, LATER, proof, recorded.run(proof.command))


def test_doctor_mends_what_was_broken_by_hand(good, tmp_path):
    """`doctor --fix` of the real client in a connected clone that lost files."""
    copy = tmp_path / "copy"
    shutil.copytree(good.root, copy, symlinks=True)
    for name in ("AGENTS.md", "configs/AGENTS.md"):
        (copy / name).unlink()
    shutil.rmtree(copy / "data")
    assert good.sh("osmosis", "--json", "doctor", cwd=copy).code == 1
    mended = good.sh("osmosis", "--json", "doctor", "--fix", cwd=copy)
    assert mended.code == 0, mended
    found = mended.json()["resource"]
    assert found["valid"] and found["git"]["identity"] == IDENTITY
    assert found["workspace"]["name"] == IDENTITY
    assert (copy / "AGENTS.md").is_file() and (copy / "data").is_dir()
    checked = good.sh("gitsync", "check", ".", "--format", "json", cwd=good.root)
    assert checked.json()["findings"] == []


# -- bad states, from harmless to lost ---------------------------------------------------------


def failing(desk: Desk) -> set[tuple[str, str]]:
    """The proofs that do not hold."""
    found = set()
    for proof in proofs_with_a_server():
        ran = desk.run(proof.command)
        if ran.code and proof.proof != "exit 0" or not holds(desk, proof.proof, proof, ran):
            found.add((proof.command, proof.proof))
    return found


IS_LIVE = {
    ("gitsync status", "exit 0"),
    ("osmosis --json rollout list", "`.items[].last_synced_commit_sha` is HEAD"),
    ("gitsync status --json", "`.live` is true and `.commit_sha` is HEAD"),
}
IS_MEASURED = {
    ("osmosis --json eval info <run>", "`.data.commit_sha` is HEAD"),
    ("osmosis --json eval info <run>", "`.data.commit_sha` is the pinned commit"),
}


def test_what_is_not_pushed_proves_nothing(recorded):
    good = recorded
    good.commit({MAIN: (good.root / MAIN).read_text() + "# not pushed\n"})
    assert failing(good) == IS_LIVE | IS_MEASURED
    ran = good.run("gitsync status --json")
    assert ran.code in {4, 5} and ran.json()["state"] in {"unknown", "unreachable"}


def test_a_push_that_cannot_run_is_told_everywhere(good):
    broken = (good.root / MAIN).read_text().replace("(Grader)", "")
    good.commit({MAIN: broken})
    pushed = good.run("git push")
    assert pushed.code == 0 and "no-grader" in pushed.stderr
    waited = good.run("gitsync status --wait")
    assert waited.code == 1 and "no-grader" in waited.stdout
    said = good.run("gitsync status --json")
    assert said.code == 1 and said.json()["state"] == "published_with_errors"
    for line in SUBMIT.values():
        refused = good.refused(line)
        assert code_of(refused) == "ROLLOUT_INVALID", refused
        assert "no-grader" in json.dumps(refused)
    assert ("gitsync status", "exit 0") in failing(good)


def test_what_does_not_exist_is_named(good):
    for line in LINES:
        if "<dataset>" in line or "<run>" in line:
            error = good.refused(line, **{"<dataset>": "nothing", "<run>": "nothing"})
            assert error["code"] == "NOT_FOUND", (line, error)


def test_without_a_token_each_line_says_so(good):
    kept = (good.root / ".env").read_text()
    (good.root / ".env").write_text(f"OSMOSIS_PLATFORM_URL={good.live.url}\n")
    try:
        for line in LINES:
            if line.startswith("osmosis") and " submit " not in line:
                error = good.refused(line, **{"<run>": "x"})
                assert error["code"] == "AUTH_REQUIRED", (line, error)
        connected = good.run("osmosis --json doctor")
        assert connected.code == 0 and connected.json()["resource"]["workspace"] is None
    finally:
        (good.root / ".env").write_text(kept)


def test_a_server_that_is_away_is_no_proof(good):
    good.live.running.stop()
    assert good.run("gitsync status --wait").code == 6
    assert good.run("git push").code != 0
    for line in LINES:
        if line.startswith("osmosis") and " submit " not in line:
            good.refused(line, **{"<run>": "x"})
    everything = {(p.command, p.proof) for p in proofs_with_a_server()}
    assert failing(good) == everything
