"""What a submit takes, what it refuses, and what the log says first."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gitsync.runs import ready
from tests.live import EVAL, GOOD_MAIN, live_server
from tests.runs.kit import make_team


def experiment(team, **more):
    return {"experiment_config": team.body()["experiment_config"] | more}


def test_the_first_entry_names_branch_commit_rollout_and_artifact(team):
    run = team.submit()
    logs = team.logs(run)
    first = logs[0]
    digest = team.live.post(f"{team.path}/resolve", {"rollout": "alpha"})["digest"]
    for part in ("branch main", f"commit {team.sha}", "rollout alpha", f"sha256:{digest}"):
        assert part in first["message"]
    assert first["level"] == "info" and first["details"]["config"] == "configs/eval/alpha.toml"
    assert not any("equals none" in entry["message"] for entry in logs)


def test_a_config_that_the_commit_does_not_hold_is_warned_about(team):
    body = team.body() | {"evaluation_config": {"limit": 2}}
    first, second, *_ = team.logs(team.submit(body=body))
    assert first["details"]["config"] is None
    assert second["level"] == "warning"
    assert f"equals none of commit {team.sha[:12]}" in second["message"]
    assert second["details"] == {"config": "configs/eval/alpha.toml", "keys": ["evaluation.limit"]}


def test_values_that_look_like_credentials_are_compared_and_shown_as_digests(live):
    own = make_team(live)
    config = EVAL.format(name="alpha") + '\n[env]\nMY_TOKEN = "hunter2-hunter2"\n'
    own.checkout.commit({"configs/eval/alpha.toml": config})
    own.checkout.push("-q", "origin", "main")
    body = own.body() | {"env_config": {"MY_TOKEN": "hunter2-hunter2"}}
    run = own.submit(body=body)
    detail = own.cli("GET", f"eval-runs/{run['name']}")
    assert "hunter2" not in detail.text
    assert own.logs(run)[0]["details"]["config"] == "configs/eval/alpha.toml"
    assert own.executor().claim()["env"] == {"MY_TOKEN": "hunter2-hunter2"}


BAD = {
    "rollout": [7, "", " ", "../alpha", "a/b", "..", "x\ny", None],
    "entrypoint": ["../main.py", "/etc/passwd", "a//b.py", "./main.py", "a\\b.py", 1],
    "model_path": [None, 1.5, ""],
    "dataset": [None, ["sums"]],
    "commit_sha": ["zzzzzzz", "abc", "--help00", 1234567],
    "branch": ["a b", ""],
    "surprise": [1],
}


@pytest.mark.parametrize("field", BAD)
def test_a_malformed_experiment_names_its_field(team, field):
    for value in BAD[field]:
        body = experiment(team, **{field: value})
        if value is None:
            del body["experiment_config"][field]
        found = team.refused(400, "VALIDATION", body=body)
        assert found["field"] == f"experiment_config.{field}", (value, found)


OTHERS = {
    "evaluation_config.limit": {"evaluation_config": {"limit": "many"}},
    "evaluation_config.n": {"evaluation_config": {"n": 0}},
    "evaluation_config.pass_threshold": {"evaluation_config": {"pass_threshold": True}},
    "evaluation_config.grader_timeout_s": {"evaluation_config": {"grader_timeout_s": -1}},
    "evaluation_config.speed": {"evaluation_config": {"speed": 1}},
    "evaluation_config": {"evaluation_config": []},
    "advanced_config": {"advanced_config": {"x": "y" * 70_000}},
    "env_config.lower": {"env_config": {"lower": "x"}},
    "env_config._OSMOSIS_X": {"env_config": {"_OSMOSIS_X": "x"}},
    "env_config.N": {"env_config": {"N": 1}},
    "secrets.required": {"secrets": {"required": ["lower"]}},
    "secrets.provided": {"secrets": {"provided": {"1X": "y"}}},
    "secrets.provided.X": {"secrets": {"provided": {"X": ""}}},
    "env_config ": {"env_config": {"X": "1"}, "secrets": {"provided": {"X": "y"}}},
    "training_config": {"training_config": {}},
    "experiment_config.commit_sha": {},
}


@pytest.mark.parametrize("field", OTHERS)
def test_a_malformed_section_names_its_field(team, field):
    more = {} if OTHERS[field] else {"commit_sha": team.sha, "branch": "main"}
    body = experiment(team, **more) | OTHERS[field]
    assert team.refused(400, "VALIDATION", body=body)["field"] == field.strip()


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"null", b"\xff\xfe", b'{"a": NaN}', b"[" * 5000, b"1" * 5000, b""]
)
def test_a_body_that_is_no_object_is_refused(team, data):
    answer = team.cli("POST", "eval-runs", content=data)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION")


def test_what_the_code_version_lacks_is_not_found(team):
    ghost = "0123456789abcdef0123456789abcdef01234567"
    for status, code, field, value in (
        (404, "ROLLOUT_NOT_FOUND", "rollout", "ghost"),
        (404, "ENTRYPOINT_NOT_FOUND", "entrypoint", "ghost.py"),
        (404, "COMMIT_NOT_FOUND", "commit_sha", ghost),
        (404, "COMMIT_NOT_FOUND", "commit_sha", ghost[:7]),
        (404, "BRANCH_NOT_FOUND", "branch", "no-such"),
        (404, "DATASET_NOT_FOUND", "dataset", "no-such"),
    ):
        found = team.refused(status, code, body=experiment(team, **{field: value}))
        assert found["field"] == f"experiment_config.{field}"
        assert value[:7] in found["message"]


def test_a_rollout_that_cannot_run_is_refused_with_its_findings_and_the_last_good_one(team):
    found = team.refused(400, "ROLLOUT_INVALID", body=experiment(team, rollout="beta"))
    assert [issue["code"] for issue in found["issues"]] == ["no-grader"]
    assert found["last_good"]["commit_sha"] != team.sha


def test_a_missing_secret_is_named_as_the_client_expects(team):
    body = experiment(team) | {"secrets": {"required": ["ZETA", "ALPHA"]}}
    found = team.refused(404, "SECRET_NOT_FOUND", body=body)
    assert found["error"] == "Secret(s) not found: ALPHA, ZETA"


def test_a_data_set_that_is_not_uploaded_is_not_ready(team):
    made = team.cli(
        "POST", "datasets", json={"file_name": "late", "file_size": 400, "extension": "jsonl"}
    )
    assert made.status_code < 300
    found = team.refused(400, "DATASET_NOT_READY", body=experiment(team, dataset="late"))
    assert "late" in found["message"]


def test_an_older_commit_becomes_a_version_because_a_run_asks_for_it(live):
    own = make_team(live)
    middle = own.checkout.commit({"rollouts/alpha/notes.md": "one\n"}, "Between")
    last = own.checkout.commit({"rollouts/alpha/notes.md": "two\n"}, "Last")
    own.checkout.push("-q", "origin", "main")
    assert live.status(own.workspace, last)["live"]
    for pin in (middle[:10].upper(), middle):
        run = own.submit(commit_sha=pin)
        detail = own.got(f"eval-runs/{run['name']}")
        assert detail["commit_sha"] == middle and detail["branch"] is None
    assert "pinned by its commit" in own.logs(run)[0]["message"]


def test_a_branch_is_pinned_to_its_tip_whatever_is_pushed_later(live):
    own = make_team(live)
    live.call("PATCH", own.path, json={"watch": "all"})
    side = own.checkout.commit({"rollouts/alpha/notes.md": "side\n"})
    own.checkout.push("-q", "origin", "HEAD:side")
    assert live.status(own.workspace, side)["live"]
    run = own.submit(branch="side")
    later = own.checkout.commit({"rollouts/alpha/notes.md": "later\n"})
    own.checkout.push("-q", "origin", "HEAD:side")
    assert live.status(own.workspace, later)["live"]
    detail = own.got(f"eval-runs/{run['name']}")
    assert (detail["commit_sha"], detail["branch"]) == (side, "side")


def test_equal_submits_at_once_are_runs_of_their_own(team):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: team.submit(), range(8)))
    assert len({run["name"] for run in found}) == len({run["id"] for run in found}) == 8


@pytest.mark.slow
def test_a_submit_during_a_sync_gets_one_consistent_version(live):
    own = make_team(live)
    digests = {}
    over = threading.Event()

    def push():
        for n in range(4):
            sha = own.checkout.commit({"rollouts/alpha/main.py": GOOD_MAIN + f"\nN = {n}\n"})
            own.checkout.push("-q", "origin", "main")
            live.status(own.workspace, sha)
        over.set()

    pusher = threading.Thread(target=push)
    pusher.start()
    seen = []
    while not over.is_set() and len(seen) < 40:
        seen.append(own.submit()["name"])
    pusher.join()
    for version in live.get(f"{own.path}/versions")["items"]:
        shown = live.get(f"{own.path}/versions/{version['commit_sha']}")
        digests[version["commit_sha"]] = {r["name"]: r["digest"] for r in shown["rollouts"]}
    for name in seen:
        run = live.get(f"{own.path}/runs/{name}")
        assert digests[run["commit_sha"]]["alpha"] == run["digest"]


def test_pieces_of_a_list_do_not_shift_when_runs_come_in_between(team):
    names = [team.submit()["name"] for _ in range(5)]
    first = team.got("eval-runs?limit=2")
    team.submit()
    rest, offset = [], first["next_offset"]
    while offset is not None and len(rest) < 3:
        page = team.got(f"eval-runs?limit=2&offset={offset}")
        rest += [run["name"] for run in page["eval_runs"]]
        offset = page["next_offset"]
    got = [run["name"] for run in first["eval_runs"]] + rest
    assert got[:5] == names[::-1]
    for query in ("limit=0", "limit=51", "limit=x", "offset=-1", "offset=9" * 3):
        answer = team.cli("GET", f"eval-runs?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PAGINATION")


def test_readers_submit_and_stop_nothing(team):
    run = team.submit()
    _, token = team.live.user(f"reader-{team.live._count}@example.com")
    email = team.live.get("/whoami", token=token)["user"]["email"]
    team.live.call("PUT", f"{team.path}/members/{email}", json={"role": "reader"})
    assert team.cli("GET", f"eval-runs/{run['name']}", token=token).status_code == 200
    assert team.cli("POST", "eval-runs", json=team.body(), token=token).status_code == 403
    assert team.cli("POST", f"eval-runs/{run['id']}/stop", token=token).status_code == 403


def test_suspended_takes_runs_with_a_warning_and_disconnected_takes_none(live):
    own = make_team(live)
    live.post(f"{own.path}/suspend")
    warnings = [e["message"] for e in own.logs(own.submit()) if e["level"] == "warning"]
    assert any("suspended" in text for text in warnings)
    live.post(f"{own.path}/disconnect")
    own.refused(409, "CONFLICT")
    assert live.call("DELETE", own.path).status_code == 409
    claim = own.executor().claim()
    own.executor()
    assert claim["run"]["commit_sha"] == own.sha
    own.stop_all()
    assert live.call("DELETE", own.path).status_code == 204


def test_training_may_ask_for_an_evaluation_of_the_same_code(live):
    own = make_team(live)
    live.call("PATCH", own.path, json={"train_requires_eval": "refuse"})
    found = own.refused(409, "EVALUATION_REQUIRED", "training")
    assert "osmosis eval submit" in found["message"]
    live.call("PATCH", own.path, json={"train_requires_eval": "warn"})
    warned = [e["message"] for e in own.logs(own.submit("training"), "training")]
    assert any("Evaluate before you train" in text for text in warned)
    live.call("PATCH", own.path, json={"train_requires_eval": "refuse"})
    executor = own.executor("eval")
    own.submit()
    executor.finish(executor.claim(), [1.0, None])  # one sample without a reward
    own.refused(409, "EVALUATION_REQUIRED", "training")
    own.submit()
    executor.finish(executor.claim(), [1.0, 0.0])
    own.submit("training")


@pytest.mark.slow
def test_a_commit_on_its_way_is_waited_for_and_then_asked_to_be_repeated(tmp_path, monkeypatch):
    with live_server(tmp_path, push_wait_s=0.1) as live:
        own = make_team(live)
        live.running.engine.stop()
        live.running.instance.stopping.clear()
        coming = own.checkout.commit({"rollouts/alpha/notes.md": "new\n"})
        own.checkout.push("-q", "origin", "main")
        monkeypatch.setattr(ready, "WAIT_S", 0.5)
        started = time.monotonic()
        found = own.refused(409, "SYNC_IN_PROGRESS", body=experiment(own, commit_sha=coming[:12]))
        assert "repeat the command" in found["message"] and coming[:12] in found["message"]
        assert time.monotonic() - started < 5
        own.refused(409, "SYNC_IN_PROGRESS", body=experiment(own, branch="never-seen"))
        # what is published needs no sync, and is taken at once
        assert own.got(f"eval-runs/{own.submit()['name']}")["commit_sha"] == own.sha
