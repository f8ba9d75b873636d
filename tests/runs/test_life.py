"""A run from submit to its end, by a real executor over HTTP."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from gitsync.runs import life
from gitsync.store import RowExists, run_tables, runs, tables
from tests.live import live_server
from tests.runs.kit import make_team

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


def test_a_run_is_carried_out_with_all_that_it_needs(team):
    run = team.submit()
    executor = team.executor("eval")
    claim = executor.claim("eval")
    assert claim["run"]["name"] == run["name"]
    assert claim["run"]["commit_sha"] == team.sha
    assert (claim["workflow"], claim["grader"]) == ("main:EchoFlow", "main:EchoScore")
    assert claim["config"]["experiment"]["dataset"] == "sums"
    assert claim["secrets"] == {"OPENAI_API_KEY": "sk-run-only"}
    for what, digest in (("artifact", "digest"), ("dataset", "digest")):
        found = httpx.get(
            claim[what]["url"],
            headers={"Authorization": f"Bearer {executor.secret}"},
            trust_env=False,
            verify=False,
        )
        assert found.status_code == 200, found.text
        assert hashlib.sha256(found.content).hexdigest() == claim[what][digest]
        assert len(found.content) == claim[what]["size"]
    assert executor.claim("eval") is None
    entries = [{"sequence": n, "message": f"row {n}", "step": "sample"} for n in range(3)]
    assert executor.say(claim, "logs", entries=entries)["added"] == 3
    assert executor.say(claim, "logs", entries=entries)["added"] == 0
    assert executor.say(claim, "heartbeat")["stop"] is False
    executor.finish(claim, [1.0, 0.5, None, 1.0])
    row = team.got("eval-runs")["eval_runs"][0]
    assert row["status"] == "finished" and row["started_at"] and row["completed_at"]
    detail = team.got(f"eval-runs/{run['name']}")
    results = detail["results"]
    assert {key: results[key] for key in ("total_runs", "graded", "passed", "failed")} == {
        "total_runs": 4,
        "graded": 3,
        "passed": 2,
        "failed": 1,
    }
    assert results["pass_rate"] == 0.5 and results["total_dataset_rows"] == 6
    metrics = team.got(f"eval-runs/{run['id']}/metrics")
    assert metrics["overview"]["tokens_used"] == 40
    assert metrics["reward_stats"]["median"] == 1.0
    messages = [entry["message"] for entry in team.logs(run)]
    assert messages[-4:] == ["row 0", "row 1", "row 2", "The run is finished."]


def test_what_another_claim_says_changes_nothing(team):
    team.submit()
    executor, other = team.executor(), team.executor()
    claim = executor.claim()
    stolen = {**claim, "claim_id": "claim_someoneelse"}
    for what, body in (
        ("heartbeat", {}),
        ("logs", {"entries": [{"sequence": 1, "message": "x"}]}),
        ("samples", {"samples": [{"row_index": 0, "reward": 1}]}),
        ("metrics", {"metrics": [{"key": "loss", "step": 1, "value": 1}]}),
        ("finish", {"state": "finished"}),
    ):
        assert executor.say(stolen, what, 409, **body)["code"] == "CLAIM_LOST"
        assert other.say(claim, what, 409, **body)["code"] == "CLAIM_LOST"
    assert other.call(f"/runs/{claim['run']['id']}/dataset").status_code == 409
    assert team.got(f"eval-runs/{claim['run']['id']}")["eval_run"]["status"] == "running"


def test_a_claim_repeated_with_its_key_gives_the_same_run_and_is_kept_nowhere(team):
    runs = [team.submit()["name"] for _ in range(2)]
    executor = team.executor()
    headers = {"Idempotency-Key": "try-1"}
    first, again = (executor.claim(headers=headers) for _ in range(2))
    assert first["run"]["name"] == again["run"]["name"] == runs[0]
    assert first["claim_id"] == again["claim_id"] and again["secrets"]
    executor.finish(first, [1.0])
    assert executor.claim(headers=headers)["run"]["name"] == runs[1]


def test_two_executors_never_get_the_same_run(team):
    names = {team.submit()["name"] for _ in range(6)}
    crew = [team.executor() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        claims = [
            claim
            for found in pool.map(lambda e: [e.claim() for _ in range(3)], crew)
            for claim in found
            if claim is not None
        ]
    assert len(claims) == 6 and {claim["run"]["name"] for claim in claims} == names


def test_a_waiting_claim_gets_the_run_as_soon_as_it_is_submitted(team):
    executor = team.executor()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(executor.claim, wait=20)
        time.sleep(0.3)
        started = time.monotonic()
        run = team.submit()
        assert waiting.result()["run"]["name"] == run["name"]
    assert time.monotonic() - started < 5


def test_an_executor_that_went_away_while_waiting_gets_nothing(team):
    executor = team.executor()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{team.live.url}/api/v1/runs/claim",
            json={"kinds": ["eval"], "wait": 30},
            headers={"Authorization": f"Bearer {executor.secret}"},
            timeout=0.3,
            trust_env=False,
            verify=False,
        )
    time.sleep(0.2)
    run = team.submit()
    time.sleep(0.2)
    assert team.live.get(f"{team.path}/runs/{run['name']}")["state"] == "pending"


def test_a_stop_reaches_the_executor_at_its_next_heartbeat(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    assert team.cli("POST", f"eval-runs/{run['name']}/stop").status_code == 200
    stopped = team.got(f"eval-runs/{run['name']}")["eval_run"]
    assert stopped["status"] == "stopped" and stopped["completed_at"]
    assert executor.say(claim, "heartbeat")["stop"] is True
    last = [{"sequence": 0, "message": "cleaning up"}]
    assert executor.say(claim, "logs", entries=last)["added"] == 1
    answer = executor.say(claim, "finish", state="finished")
    assert (answer["state"], answer["stop"]) == ("stopped", True)
    executor.say(claim, "logs", 409, entries=[{"sequence": 1, "message": "too late"}])
    again = team.cli("POST", f"eval-runs/{run['name']}/stop")
    assert (again.status_code, again.json()["code"]) == (409, "RUN_NOT_STOPPABLE")
    assert team.got(f"eval-runs/{run['name']}")["eval_run"] == stopped


def test_a_finish_said_twice_is_one_and_a_failure_has_its_reason(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    for _ in range(2):
        answer = executor.say(claim, "finish", state="failed", reason="CUDA out of memory")
        assert answer["state"] == "failed"
    assert team.live.get(f"{team.path}/runs/{run['name']}")["reason"] == "CUDA out of memory"
    ends = [e for e in team.logs(run) if e["step"] == "finish"]
    assert [(e["level"], "CUDA" in e["message"]) for e in ends] == [("error", True)]


def test_samples_and_metrics_said_again_replace_the_earlier_ones(team):
    run = team.submit("training")
    executor = team.executor("training")
    claim = executor.claim("training")
    for value in (1.0, 0.5):
        metrics = [
            {"key": "reward", "title": "Reward", "step": step, "value": value * step}
            for step in (1, 2)
        ]
        executor.say(claim, "metrics", metrics=metrics)
        executor.say(claim, "samples", samples=[{"row_index": 0, "reward": value}])
    executor.say(claim, "heartbeat", current_step=2, total_steps=10, examples=64)
    found = team.got(f"training-runs/{run['id']}/metrics")
    assert found["overview"] | {"metric_summaries": 0} == {
        "duration_ms": None,
        "metric_summaries": 0,
        "examples_processed_count": 64,
        "latest_step": 2,
        "total_steps": 10,
    }
    points = found["metrics"][0]["data_points"]
    assert [(point["step"], point["value"]) for point in points] == [(1, 0.5), (2, 1.0)]
    row = team.got("training-runs")["training_runs"][0]
    assert (row["reward"], row["current_step"], row["model"]["model_name"]) == (
        1.0,
        2,
        "Qwen/Qwen3.6-35B-A3B",
    )
    samples = team.live.get(f"{team.path}/runs/{run['name']}/samples")["items"]
    assert [(sample["row_index"], sample["reward"]) for sample in samples] == [(0, 0.5)]
    checkpoints = team.got(f"training-runs/{run['name']}/checkpoints")
    assert checkpoints == {"training_run_name": run["name"], "checkpoints": []}


def test_an_executor_carries_out_its_kinds_only(team):
    team.submit()
    trainer = team.executor("training")
    assert trainer.call("/runs/claim", {"kinds": ["eval"]}).status_code == 403
    assert trainer.claim("training") is None
    claim = team.executor("eval").claim()
    assert trainer.say(claim, "heartbeat", 404)["code"] == "NOT_FOUND"


def test_secrets_of_a_run_are_given_to_its_executor_only_and_gone_at_its_end(team):
    secret = "sk-" + "only-for-this-run" * 2
    body = team.body() | {"secrets": {"required": ["KEY"], "provided": {"KEY": secret}}}
    run = team.submit(body=body)
    executor = team.executor()
    claim = executor.claim()
    assert claim["secrets"] == {"KEY": secret}
    for token in (None, executor.secret):
        for path in ("", "/logs", "/samples"):
            shown = team.live.call("GET", f"{team.path}/runs/{run['name']}{path}", token=token)
            assert shown.status_code == 200 and secret not in shown.text
        assert secret not in team.cli("GET", f"eval-runs/{run['id']}", token=token).text
    executor.finish(claim, [])
    with team.live.running.instance.database.read() as db:
        found = runs.get_run(db, run["id"])
        assert found.provided == ("KEY",) and runs.find_vault(db, found) is None
    for file in team.live.data_dir.glob("gitsync.db*"):
        assert secret.encode() not in file.read_bytes()


def test_stored_secrets_come_from_where_the_run_said(team):
    for scope in ("workspace", "user"):
        made = team.cli(
            "POST",
            "environment-secrets",
            json={"name": "BOTH", "value": f"of-{scope}", "scope": scope},
        )
        assert made.status_code < 300, made.text
    run = team.submit(body=team.body() | {"secrets": {"required": ["BOTH"]}})
    detail = team.got(f"eval-runs/{run['name']}")
    assert detail["resolved_secret_scopes"] == {"BOTH": "user_override"}
    executor = team.executor()
    assert executor.claim()["secrets"] == {"BOTH": "of-user"}
    late = team.submit(body=team.body() | {"secrets": {"required": ["BOTH"]}})
    gone = team.cli("DELETE", "environment-secrets", json={"name": "BOTH", "scope": "user"})
    assert gone.status_code < 300
    assert executor.claim() is None
    assert "BOTH" in team.live.get(f"{team.path}/runs/{late['name']}")["reason"]


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server that gives up on executors, and on eager people, quickly."""
    folder = tmp_path_factory.mktemp("hasty")
    with live_server(folder, executor_lease_s=0.4, run_attempts=2, submits_per_minute=9) as live:
        yield make_team(live)


def test_a_run_whose_executor_is_gone_waits_again_and_fails_after_a_few(hasty):
    run = hasty.submit()
    executor, other = hasty.executor(), hasty.executor()
    lost = executor.claim()
    executor.say(lost, "logs", entries=[{"sequence": 0, "message": "so far"}])
    second = other.claim(wait=10)
    assert (second["run"]["name"], second["run"]["attempt"]) == (run["name"], 2)
    assert second["secrets"]
    assert executor.say(lost, "heartbeat", 409)["code"] == "CLAIM_LOST"
    other.say(second, "logs", entries=[{"sequence": 0, "message": "once more"}])
    texts = [entry["message"] for entry in hasty.logs(run)]
    assert any("not heard of" in text for text in texts)
    assert texts.index("so far") < texts.index("once more")
    end = time.monotonic() + 20
    while hasty.live.get(f"{hasty.path}/runs/{run['name']}")["state"] == "running":
        assert time.monotonic() < end
        assert executor.claim(wait=0.3) is None
    found = hasty.live.get(f"{hasty.path}/runs/{run['name']}")
    assert found["state"] == "failed" and "attempt 2 of 2" in found["reason"]
    assert found["executor_token_id"] == other.token_id


def test_heartbeats_keep_a_run(hasty):
    hasty.submit()
    executor, other = hasty.executor(), hasty.executor()
    claim = executor.claim()
    for _ in range(6):
        time.sleep(0.2)
        assert executor.say(claim, "heartbeat")["stop"] is False
        assert other.claim() is None
    executor.finish(claim, [1.0])


def test_the_log_and_readiness_say_that_no_executor_is_there(hasty):
    live = hasty.live
    time.sleep(0.7)  # whoever was there is gone
    run = hasty.submit("training")
    texts = [e["message"] for e in hasty.logs(run, "training") if e["level"] == "warning"]
    assert any("No executor for training runs" in text for text in texts)
    ready = live.get("//readyz")
    assert ready["status"] == "ready" and ready["executors"] == {"eval": 0, "training": 0}
    assert ready["waiting_runs"]["training"] == 1 and "no executor" in ready["remarks"][0]
    hasty.executor().claim("eval")
    assert live.get("//readyz")["executors"] == {"eval": 1, "training": 0}
    metrics = live.call("GET", "//metrics").text
    assert 'gitsync_runs{kind="training",state="pending"} 1.0' in metrics
    assert 'gitsync_executors{kind="eval"} 1.0' in metrics


def test_a_waiting_run_is_told_when_its_executors_leave(hasty):
    executor = hasty.executor()
    assert executor.claim() is None
    run = hasty.submit()
    assert not any("No executor" in e["message"] for e in hasty.logs(run))
    time.sleep(0.7)
    for _ in range(2):
        life.tell_lonely(hasty.live.running.instance)
        assert sum("No executor" in e["message"] for e in hasty.logs(run)) == 1
    hasty.stop_all()


def test_too_many_submits_are_told_when_to_come_back(hasty):
    for _ in range(10):
        answer = hasty.cli("POST", "eval-runs", json={})
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1


def test_no_state_beyond_pending_exists_without_an_executor(team):
    run = team.submit()
    database = team.live.running.instance.database
    for state in ("running", "finished", "failed"):
        with pytest.raises(RowExists), database.write() as db:
            db.execute(run_tables.runs.update().values(state=state, executor_token_id=None))
    stopped = team.live.post(f"{team.path}/runs/{run['name']}/stop")
    assert stopped["executor_token_id"] is None  # a person stopped it before anybody claimed it
    for found in team.live.get(f"{team.path}/runs?limit=200")["items"]:
        if found["state"] not in ("pending", "stopped"):
            assert found["executor_token_id"], found


def test_a_version_is_kept_while_a_run_needs_it(team):
    run = team.submit()
    database = team.live.running.instance.database
    now = team.live.running.instance.now()

    def leases() -> int:
        with database.read() as db:
            holder = runs.lease_holder(run["id"])
            query = run_tables.sa.select(run_tables.sa.func.count()).select_from(tables.leases)
            return db.execute(
                query.where(tables.leases.c.holder == holder, tables.leases.c.expires_at > now)
            ).scalar_one()

    assert leases() == 1
    executor = team.executor()
    claim = executor.claim()
    assert leases() == 1
    executor.finish(claim, [])
    assert leases() == 0


def test_samples_of_one_request_may_repeat_a_place_and_the_last_counts(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    samples = [{"row_index": n % 3, "run_index": n % 2, "reward": n} for n in range(12)]
    assert executor.say(claim, "samples", samples=samples)["samples"] == 6
    assert executor.say(claim, "samples", samples=samples[:1])["samples"] == 6
    found = team.live.get(f"{team.path}/runs/{run['name']}/samples")["items"]
    rewards = {(s["row_index"], s["run_index"]): s["reward"] for s in found}
    assert rewards == {(0, 0): 0, (1, 1): 7, (2, 0): 8, (0, 1): 9, (1, 0): 10, (2, 1): 11}
    metrics = team.got(f"eval-runs/{run['name']}/metrics")
    assert [point["k"] for point in metrics["pass_at_k"]] == [1, 2]
