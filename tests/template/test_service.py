"""Changes that the service commits: one commit that is the plan, a branch, a patch, or nothing."""

from __future__ import annotations

import contextlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitsync import cli
from gitsync.git.objects import open_commit
from gitsync.template.catalogue import builtin
from gitsync.template.files import walk
from gitsync.template.operations import ApplyStarter
from tests.crash.service import eventually
from tests.live import git
from tests.template.builders import commit_all, snapshot
from tests.template.service_kit import Place, Stage, stage


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture
def place(scene: Stage) -> Place:
    return scene.embedded("minimal-local")


def content(place: Place, sha: str) -> dict[str, tuple[str, bytes]]:
    """Mode and bytes of every file of a commit that the checkout has."""
    tree = open_commit(place.checkout.path / ".git", sha)
    return {p: (e.kind.value, tree.read(p, limit=10**7)) for p, e in walk(tree, "")}


def test_an_apply_is_one_commit_that_is_the_plan(place: Place):
    base = place.head()
    planned = place.apply("chess", dry_run=True)
    assert (planned["outcome"], planned["written"], place.head()) == ("planned", False, base)
    assert any('+rollout = "chess"' in d["patch"] for d in planned["diffs"])
    done = place.apply("chess", message="Add chess\n\nAs we said.")
    assert (done["outcome"], done["branch"], done["base_sha"]) == ("committed", "main", base)
    assert done["steps"] == planned["steps"] and done["findings"] == []
    assert done["next_steps"][0] == "git pull"
    sha = place.pull()
    assert sha == done["commit_sha"]
    tree = open_commit(place.checkout.path / ".git", base)
    wanted = ApplyStarter("minimal-local", "chess").plan(tree, builtin(), lambda _: None)
    overlay = wanted.overlay(tree)
    assert content(place, sha) == {
        p: (e.kind.value, overlay.read(p, limit=10**7)) for p, e in walk(overlay, "")
    }
    said = git(place.checkout.path, "log", "-1", "--format=%P%n%an <%ae>%n%B").stdout
    me = place.live.get("/whoami")["user"]
    assert said.strip() == f"{base}\n{me['name']} <{me['email']}>\nAdd chess\n\nAs we said."
    place.published(sha)
    assert place.get(f"syncs/{done['sync_id']}?wait=30")["trigger"] == "push"
    state = place.get("templates")
    assert {s["rollout"] for s in state["starters"]} == {"minimal-local", "chess"}
    assert not (state["edited"] or state["missing"] or state["outdated"])
    for where in ("templates", "templates/diff", "skills"):
        unknown = place.live.call("GET", f"{place.path}/{where}?branch=none")
        assert (unknown.status_code, unknown.json()["field"]) == (404, "branch")


@pytest.mark.slow
def test_a_dry_run_of_what_the_check_refuses_says_so(place: Place):
    place.push({"data/other.jsonl": "{}\n"})
    planned = place.apply("chess", dry_run=True)
    assert {f["code"] for f in planned["findings"]} >= {"too-few-rows", "missing-column"}


def test_conflicts_are_told_path_by_path_and_nothing_is_written(place: Place):
    before = place.head()
    refused = place.apply("minimal-local", 409)
    assert refused["code"] == "PLAN_BLOCKED"
    assert "rollouts/minimal-local" in {issue["key"] for issue in refused["issues"]}
    assert place.head() == before
    planned = place.apply("minimal-local", dry_run=True)
    assert planned["blocked"] and planned["counts"]["conflict"] == 3
    assert place.apply("minimal-local", force=True)["outcome"] == "unchanged"
    assert place.head() == before


def test_readers_plan_and_members_commit(place: Place):
    tokens = {}
    for role in ("reader", "member"):
        user, tokens[role] = place.live.user(f"{role}-{place.workspace['id']}@example.com")
        path = f"{place.path}/members/{user['email']}"
        assert place.live.call("PUT", path, json={"role": role}).status_code == 200
    body = {"rollout": "chess"}
    where = f"{place.path}/templates/minimal-local/apply"
    dry = place.live.call("POST", where, token=tokens["reader"], json={**body, "dry_run": True})
    assert dry.json()["outcome"] == "planned"
    for path in ("templates/minimal-local/apply", "templates/update", "skills/upgrade", "adopt"):
        write = body if "apply" in path else {"dry_run": False}
        refused = place.live.call(
            "POST", f"{place.path}/{path}", token=tokens["reader"], json=write
        )
        assert refused.status_code == 403, path
    done = place.live.call("POST", where, token=tokens["member"], json=body)
    assert done.json()["outcome"] == "committed"
    machine = {"name": "ci", "role": "push", "workspaces": [place.workspace["id"]]}
    secret = place.live.post("/tokens", machine)["secret"]
    assert place.live.call("POST", where, token=secret, json=body).status_code == 403


def test_a_new_branch_leaves_the_default_one_alone(place: Place):
    before = place.head()
    done = place.apply("chess", branch="add-chess")
    assert (done["branch"], place.head(), place.head("add-chess")) == (
        "add-chess",
        before,
        done["commit_sha"],
    )
    taken = place.apply("go", 409, branch="add-chess")
    assert taken["code"] == "BRANCH_EXISTS"
    assert place.apply("go", 409, branch="main")["code"] == "BRANCH_EXISTS"
    for bad in ("a b", "a..b", "/x", "x.lock"):
        assert place.apply("go", 400, branch=bad)["field"] == "branch", bad


@pytest.mark.slow
def test_the_expected_tip_is_expected(place: Place):
    before = place.head()
    for wrong in ("0" * 40, "1" * 40):
        assert place.apply("chess", 409, expected_sha=wrong)["code"] == "REF_MOVED"
    assert place.head() == before
    assert place.apply("chess", expected_sha=before)["base_sha"] == before


@pytest.mark.slow
def test_a_pull_request_is_refused_with_the_way_out(place: Place):
    refused = place.apply("chess", 400, **{"as": "pull_request"})
    assert refused["code"] == "PULL_REQUEST_UNSUPPORTED" and "`branch`" in refused["message"]


@pytest.mark.slow
def test_the_same_request_is_one_commit(place: Place):
    key = {"Idempotency-Key": "chess-1"}
    where = "templates/minimal-local/apply"
    first = place.ask(where, {"rollout": "chess"}, headers=key)
    assert place.ask(where, {"rollout": "chess"}, headers=key) == first
    other = place.ask(where, {"rollout": "go"}, 409, headers=key)
    assert other["code"] == "IDEMPOTENCY_MISMATCH"
    assert place.head() == first["commit_sha"]


@pytest.mark.slow
def test_an_update_keeps_edits_and_follows_parameters(place: Place):
    place.pull()
    config = place.checkout.path / "configs/training/minimal-local.toml"
    edited = "# ours\n" + config.read_text()
    place.push({"configs/training/minimal-local.toml": edited})
    assert place.ask("templates/update")["outcome"] == "unchanged"
    assert [d["path"] for d in place.get("templates/diff")["items"]] == [
        "configs/training/minimal-local.toml"
    ]
    body = {"rollout": "minimal-local", "parameters": {"base_model": "Qwen/Other-1B"}}
    done = place.ask("templates/update", body)
    assert done["outcome"] == "committed"
    place.pull()
    text = config.read_text()
    assert text.startswith("# ours\n") and "Qwen/Other-1B" in text
    assert place.get("templates")["edited"] == ["configs/training/minimal-local.toml"]
    empty = place.live.create()
    refused = place.live.post(f"/workspaces/{empty['id']}/templates/update", {}, 404)
    assert "template.lock.toml" in refused["message"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "external"])
def test_changes_at_the_same_moment_all_arrive(scene: Stage, kind: str):
    place = getattr(scene, kind)("minimal-local")
    with ThreadPoolExecutor(5) as pool:
        done = list(pool.map(place.apply, ["a", "b", "c", "d", "e"]))
    place.pull()
    said = git(place.checkout.path, "log", "--format=%H").stdout.split()
    assert len(said) == 6 and {d["commit_sha"] for d in done} == set(said[:-1])


@pytest.mark.slow
def test_skills_come_go_and_are_mended(place: Place):
    def names(word: str = "installed") -> set[str]:
        return {s["name"] for s in place.get("skills")["items"] if s[word]}

    assert place.ask("skills/install", {"skills": ["plan-eval"]})["written"]
    place.pull()
    link = place.checkout.path / ".claude/skills/plan-eval"
    assert os.readlink(link) == "../../.agents/skills/plan-eval"
    assert "`plan-eval`" in (place.checkout.path / "AGENTS.md").read_text()
    assert "plan-eval" in names()
    place.push({".claude/skills/plan-eval": None})
    eventually(lambda: names("damage") == {"plan-eval"})
    assert place.ask("skills/repair")["counts"]["create"] == 1
    gone = place.ask("skills/uninstall", {"skills": ["plan-eval"]})
    assert gone["counts"]["delete"] > 1
    place.pull()
    assert not link.is_symlink() and not (place.checkout.path / ".agents/skills/plan-eval").exists()
    assert "plan-eval" not in names()
    assert place.ask("skills/upgrade")["outcome"] == "unchanged"
    assert place.ask("skills/install", {"skills": ["nope"]}, 404)["code"] == "NOT_FOUND"
    copied = place.ask("skills/repair", {"mode": "copy"})
    assert copied["written"]
    place.pull()
    folder = place.checkout.path / ".claude/skills/plan-training"
    assert folder.is_dir() and not folder.is_symlink()


@pytest.mark.slow
def test_adopt_offers_and_replaces_nothing(scene: Stage):
    workspace = scene.live.create()
    checkout = scene.live.checkout(workspace)
    mine = {"AGENTS.md": "# Mine\n", "README.md": "hello\n", "rollouts/x/main.py": "print()\n"}
    sha = checkout.commit(mine, "Mine")
    checkout.push("origin", "HEAD:refs/heads/main")
    scene.live.status(workspace, sha)
    place = Place(scene.live, workspace, checkout)
    offer = place.ask("adopt")
    assert offer["outcome"] == "planned" and place.head() == sha
    assert {s["action"] for s in offer["steps"]} == {"create", "skip"}
    done = place.ask("adopt", {"dry_run": False, "skills": []})
    assert done["counts"]["replace"] == done["counts"]["delete"] == 0
    place.pull()
    for path, text in mine.items():
        assert (checkout.path / path).read_text() == text
    assert (checkout.path / ".osmosis/template.lock.toml").exists()
    assert not (checkout.path / ".agents").exists()


@pytest.mark.slow
def test_no_hook_and_no_configuration_of_git_takes_part(scene: Stage, place: Place):
    repo = scene.live.data_dir / "repos" / f"{place.workspace['id']}.git"
    canary = scene.live.scratch / "canary"
    (repo / "hooks").mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-commit", "pre-commit", "update", "pre-push"):
        hook = repo / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {canary}\nexit 1\n")
        hook.chmod(0o755)
    git(repo, "config", "core.hooksPath", "hooks")
    git(repo, "config", "user.name", "Somebody Else")
    assert place.apply("chess")["written"]
    assert not canary.exists()
    who = git(repo, "log", "-1", "--format=%an %cn", "main").stdout
    assert "Somebody" not in who


@pytest.mark.slow
@pytest.mark.parametrize(
    "lock",
    [
        "garbage = [",
        "schema = 1\n" + "a." * 60_000 + "b = 1\n",
        'schema = 1\n[files]\n"../x" = 1\n',
    ],
    ids=["garbage", "bomb", "outside"],
)
def test_a_damaged_lock_is_told_and_nothing_is_written(place: Place, lock: str):
    tip = place.push({".osmosis/template.lock.toml": lock})
    for where in ("templates/minimal-local/apply", "templates/update", "skills/upgrade"):
        refused = place.ask(where, {}, 400)
        assert "template.lock.toml" in refused["message"], where
    seen = place.live.call("GET", f"{place.path}/templates")
    assert seen.status_code == 400 and "template.lock.toml" in seen.json()["message"]
    assert place.head() == tip
    assert {job["state"] for job in place.get("jobs")["items"]} == {"failed"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rollouts", "configs", ".osmosis", "data"])
def test_nothing_is_written_through_a_link(scene: Stage, name: str):
    workspace = scene.live.create()
    checkout = scene.live.checkout(workspace)
    (checkout.path / name).symlink_to("../../outside")
    checkout.commit({"README.md": "x\n"}, "A link")
    checkout.push("origin", "HEAD:refs/heads/main")
    place = Place(scene.live, workspace, checkout)
    refused = place.apply("chess", 409)
    assert refused["code"] == "PLAN_BLOCKED"
    assert any(issue["key"].startswith(f"{name}/") for issue in refused["issues"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, field",
    [
        ({"rollout": "../x"}, "rollout"),
        ({"rollout": ".git"}, "rollout"),
        ({"parameters": {"dataset": "../../x"}}, "parameters.dataset"),
        ({"parameters": {"eval_model": "{{ x }}\n[evil]"}}, "parameters.eval_model"),
        ({"parameters": {"nope": 1}}, "parameters.nope"),
        ({"expected_sha": "main"}, "expected_sha"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_bad_values_are_refused_before_a_job_is_kept(place: Place, body: dict, field: str):
    refused = place.ask("templates/minimal-local/apply", body, 400)
    assert refused["field"] == field, refused
    assert place.get("jobs")["items"] == []


# -- external remotes -----------------------------------------------------------------------------


def test_a_change_is_pushed_to_an_external_remote(scene: Stage):
    place = scene.external("minimal-local")
    done = place.apply("chess")
    assert place.head() == done["commit_sha"]
    place.published(done["commit_sha"])
    assert place.apply("go", branch="add/go")["commit_sha"] == place.head("add/go")


@pytest.mark.slow
def test_an_unseen_commit_of_the_remote_is_planned_upon(scene: Stage):
    place = scene.external("minimal-local")
    theirs = place.push({"NOTES.md": "x\n"})
    assert place.apply("chess")["base_sha"] == theirs


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_tip_that_moves_is_planned_for_once_more(scene: Stage, times: int):
    place = scene.external("minimal-local")

    def push_beside(number: int) -> None:
        theirs.append(place.push({"NOTES.md": f"{number}\n"}))
        if number < times:
            scene.points["apply.committed"] = lambda: push_beside(number + 1)

    theirs: list[str] = []
    scene.points["apply.committed"] = lambda: push_beside(1)
    if times == 1:
        done = place.apply("chess")
        assert (done["base_sha"], place.head()) == (theirs[0], done["commit_sha"])
    else:
        assert place.apply("chess", 409)["code"] == "REF_MOVED"
        assert place.head() == theirs[-1]
        assert place.get("jobs")["items"][0]["state"] == "failed"


@pytest.mark.slow
def test_with_an_expected_tip_nothing_is_planned_anew(scene: Stage):
    place = scene.external("minimal-local")
    base = place.head()
    scene.points["apply.committed"] = lambda: place.push({"NOTES.md": "x\n"}) and None
    assert place.apply("chess", 409, expected_sha=base)["code"] == "REF_MOVED"


@pytest.mark.slow
def test_a_hook_of_the_remote_that_refuses_is_told(scene: Stage):
    place = scene.external("minimal-local")
    hook = Path(place.checkout.url) / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho only by review >&2\nexit 1\n")
    hook.chmod(0o755)
    before = place.head()
    refused = place.apply("chess", 409)
    assert refused["code"] == "PUSH_REFUSED" and "`branch`" in refused["message"]
    assert place.head() == before


def check_patch(place: Place, done: dict, before: str) -> None:
    """`git am` makes the planned tree of it, and the remote is as it was."""
    assert (done["outcome"], done["written"], done["commit_sha"]) == ("patch", False, None)
    assert done["reason"] and place.head() == before
    place.pull()
    mail = place.live.scratch / "change.patch"
    mail.write_text(done["patch"])
    git(place.checkout.path, "am", str(mail))
    tree = open_commit(place.checkout.path / ".git", before)
    plan = ApplyStarter("minimal-local", "chess").plan(tree, builtin(), lambda _: None)
    overlay = plan.overlay(tree)
    assert content(place, place.checkout.head()) == {
        p: (e.kind.value, overlay.read(p, limit=10**7)) for p, e in walk(overlay, "")
    }
    me = place.live.get("/whoami")["user"]
    assert git(place.checkout.path, "log", "-1", "--format=%ae").stdout.strip() == me["email"]


def test_without_a_credential_there_is_a_patch(scene: Stage):
    place = scene.external("minimal-local", credential=False)
    before = place.head()
    check_patch(place, place.apply("chess"), before)
    assert place.get("jobs")["items"] == []


@pytest.mark.slow
def test_with_a_credential_that_may_only_read_there_is_a_patch(scene: Stage):
    place = scene.external("minimal-local")
    before = place.head()
    scene.host.allow_push = False
    try:
        done = place.apply("chess", message="Ünïcode\n\n--- not the end\ndiff --git a/x b/x")
    finally:
        scene.host.allow_push = True
    check_patch(place, done, before)
    said = git(place.checkout.path, "log", "-1", "--format=%B").stdout
    assert said.startswith("Ünïcode\n\n --- not the end\n diff --git")
    assert place.get("jobs")["items"][0]["state"] == "done"


@pytest.mark.slow
def test_a_push_whose_answer_is_lost_is_finished_by_itself(scene: Stage):
    place = scene.external("minimal-local")

    def go_away() -> None:
        scene.host.before = lambda _request: 500

    scene.points["apply.committed"] = go_away
    try:
        assert place.apply("chess", 502)["code"]
        assert place.get("jobs")["items"][0]["state"] == "open"
    finally:
        scene.host.before = None
    job = eventually(lambda: (j := place.get("jobs")["items"][0])["state"] == "done" and j)
    assert place.head() == job["commit_sha"]
    place.published(job["commit_sha"])


# -- the command line -----------------------------------------------------------------------------


@dataclass
class Commands:
    """Command lines of a person who is signed in."""

    folder: Path

    def __call__(self, *args: str, code: int = 0) -> str:
        """What it prints, on both streams."""
        out, err = io.StringIO(), io.StringIO()
        streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with contextlib.chdir(self.folder), streams[0], streams[1]:
            got = cli.execute(list(args))
        assert got == code, (out.getvalue(), err.getvalue())
        return out.getvalue() + err.getvalue()


@pytest.fixture
def gitsync(scene: Stage, monkeypatch) -> Commands:
    monkeypatch.setenv("GITSYNC_SERVER", scene.live.url)
    monkeypatch.setenv("GITSYNC_TOKEN", scene.live.token)
    return Commands(scene.live.scratch)


def test_the_commands_do_it_in_the_service(place: Place, gitsync: Commands):
    name = place.workspace["name"]
    apply = ("template", "apply", "minimal-local", "--rollout", "chess", "-w", name)
    dry = gitsync(*apply, "--dry-run")
    assert "create   rollouts/chess/main.py" in dry and "+++ b/rollouts/chess/main.py" in dry
    said = gitsync(*apply, "-m", "Chess")
    assert "Committed" in said and "git pull" in said
    refused = gitsync(*apply, code=1)
    assert "the rollout exists" in refused
    assert "Nothing is to be done" in gitsync("template", "update", "-w", name)
    assert "need --workspace" in gitsync("template", "update", "--branch", "x", code=2)
    adopt = json.loads(gitsync("workspace", "adopt", name, "--json"))
    assert adopt["outcome"] == "planned"


@pytest.mark.slow
def test_so_do_the_commands_of_skills(place: Place, gitsync: Commands):
    name = place.workspace["name"]
    done = json.loads(gitsync("skills", "install", "plan-eval", "-w", name, "--json"))
    assert done["outcome"] == "committed"
    assert "plan-eval" in gitsync("skills", "list", "-w", name)
    assert "complete" in gitsync("skills", "check", "-w", name)
    assert "Nothing is to be done" in gitsync("skills", "upgrade", "-w", name)
    assert "Committed" in gitsync("skills", "repair", "--copy", "-w", name)
    assert "Committed" in gitsync("skills", "uninstall", "plan-eval", "-w", name)
    place.push({"AGENTS.md": "# Mine\n"})
    assert "+# Mine" in gitsync("template", "diff", "-w", name)
    planned = gitsync("workspace", "adopt", name, "--no-skills")
    assert "Lay out" in planned


@pytest.mark.slow
def test_connect_offers_what_the_repository_lacks(scene: Stage, gitsync: Commands):
    scene.external("minimal-local")
    url = scene.host.url_of(f"r{scene.count}.git")
    name = f"connected {scene.count}"
    said = gitsync("workspace", "connect", url, "--name", name)
    offer = next(line for line in said.splitlines() if "gitsync workspace adopt" in line)
    command = offer.partition(": gitsync ")[2].split()
    eventually(lambda: scene.live.get(f"/workspaces?name={name}")["items"][0]["branches"])
    assert "Nothing was written" not in gitsync(*command), "it lacks nothing"


@pytest.mark.slow
def test_a_patch_goes_to_standard_output_as_it_is(scene: Stage, gitsync: Commands):
    place = scene.external("minimal-local", credential=False)
    apply = ("template", "apply", "minimal-local", "--rollout", "chess")
    said = gitsync(*apply, "-w", place.workspace["name"])
    mail = said[said.index("From 000") : said.index("gitsync may not")]
    (scene.live.scratch / "m").write_text(mail)
    place.pull()
    git(place.checkout.path, "am", str(scene.live.scratch / "m"))


@pytest.mark.slow
def test_a_checkout_and_the_service_make_the_same_tree(scene: Stage, gitsync: Commands):
    one, two = scene.embedded("minimal-local"), scene.embedded("minimal-local")
    one.apply("chess", parameters={"max_concurrent": 3})
    one.pull()
    two.pull()
    apply = ("template", "apply", "minimal-local", "--rollout", "chess")
    gitsync(*apply, "--set", "max_concurrent=3", "--path", str(two.checkout.path))
    assert snapshot(one.checkout.path) == snapshot(two.checkout.path)
    commit_all(two.checkout.path)
    trees = [git(p.checkout.path, "rev-parse", "HEAD^{tree}").stdout for p in (one, two)]
    assert trees[0] == trees[1]
