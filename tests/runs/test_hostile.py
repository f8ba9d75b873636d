"""What executors and submitters might do to others, and to themselves by being repeated."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gitsync.runs import life, output
from gitsync.store import run_tables, runs


def test_a_waiting_claim_with_a_key_sleeps_until_something_happens(team, monkeypatch):
    looks = []

    def counted(*given, **more):
        looks.append(1)
        return claim(*given, **more)

    claim = life.claim
    monkeypatch.setattr(life, "claim", counted)
    headers = {"Idempotency-Key": "wait-1"}
    assert team.executor().claim(wait=1.5, headers=headers) is None
    assert 2 <= len(looks) < 20


def test_a_claim_sent_twice_at_once_under_one_key_is_one_run(team):
    for _ in range(4):
        team.submit()
    executor = team.executor()
    headers = {"Idempotency-Key": "twice"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(
                lambda _: executor.call("/runs/claim", {"kinds": ["eval"]}, headers=headers),
                range(4),
            )
        )
    assert {answer.status_code for answer in answers} <= {200, 409}
    claims = [answer.json()["claim"] for answer in answers if answer.status_code == 200]
    assert claims and len({claim["claim_id"] for claim in claims}) == 1
    held = team.live.get(f"{team.path}/runs?state=running")["items"]
    assert [run["id"] for run in held] == [claims[0]["run"]["id"]]


def test_a_number_that_json_cannot_hold_is_refused(team):
    body = json.dumps(team.body() | {"advanced_config": {"scale": 0.5}}).replace("0.5", "1e999")
    answer = team.cli("POST", "eval-runs", content=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "advanced_config"), answer.text
    assert team.cli("GET", "eval-runs").status_code == 200


def test_rewards_that_no_mean_can_hold_are_refused_and_large_ones_end_well(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    samples = [{"row_index": n, "reward": 1.7e308} for n in range(3)]
    assert executor.say(claim, "samples", 400, samples=samples)["code"] == "VALIDATION"
    tokens = [{"row_index": n, "tokens": 2**53} for n in range(3)]
    assert executor.say(claim, "samples", 400, samples=tokens)["code"] == "VALIDATION"
    executor.finish(claim, [1e100, -1e100, 1e100])
    assert team.cli("GET", "eval-runs").status_code == 200
    assert team.got(f"eval-runs/{run['id']}/metrics")["reward_stats"]["max"] == 1e100


def test_a_run_keeps_a_bounded_number_of_samples_and_metrics(team, monkeypatch):
    monkeypatch.setattr(output, "MOST_SAMPLES", 4)
    monkeypatch.setattr(output, "MOST_METRICS", 4)
    team.submit()
    executor = team.executor()
    claim = executor.claim()
    samples = [{"row_index": n, "reward": 1.0} for n in range(5)]
    metrics = [{"key": "loss", "step": n, "value": 1.0} for n in range(5)]
    assert executor.say(claim, "samples", samples=samples[:4])["samples"] == 4
    executor.say(claim, "metrics", metrics=metrics[:4])
    for what, body in (("samples", samples[4:]), ("metrics", metrics[4:])):
        assert executor.say(claim, what, 409, **{what: body})["code"] == "RUN_OUTPUT_FULL"
    assert executor.say(claim, "samples", samples=samples[:4])["samples"] == 4
    assert executor.say(claim, "finish", state="finished")["state"] == "finished"


def test_a_run_that_cannot_be_given_out_does_not_keep_the_others_waiting(team):
    damaged, other = team.submit(), team.submit()
    database = team.live.running.instance.database
    vaults = run_tables.run_vaults
    with database.write() as db:
        row = runs.find_vault(db, runs.get_run(db, damaged["id"]))
        altered = row[:-8] + ("AAAAAAAA" if row[-8:] != "AAAAAAAA" else "BBBBBBBB")
        mine = vaults.c.run_id == damaged["id"]
        db.execute(vaults.update().where(mine).values(sealed=altered))
    assert team.executor().claim()["run"]["id"] == other["id"]
    assert team.live.get(f"{team.path}/runs/{damaged['id']}")["state"] == "pending"


def test_times_at_the_ends_of_the_calendar_are_taken_or_refused(team):
    run = team.submit("training")
    executor = team.executor()
    claim = executor.claim("training")
    times = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z")
    for step, when in enumerate(times):
        metric = {"key": "loss", "step": step, "value": 1.0, "timestamp": when}
        entry = {"sequence": step, "message": "x", "timestamp": when}
        for what, where, item in (("metrics", "metrics", metric), ("logs", "entries", entry)):
            body = {"claim_id": claim["claim_id"], where: [item]}
            answer = executor.call(f"/runs/{run['id']}/{what}", body)
            assert answer.status_code in (200, 400), (when, what, answer.text)
        assert team.cli("GET", f"training-runs/{run['id']}/metrics").status_code in (200, 404)
        assert len(team.logs(run, "training")) >= 2


@pytest.mark.parametrize("depth", [200, 900, 3_000, 20_000])
def test_details_may_be_deep_but_break_nothing(team, depth):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    deep = '{"a":' * depth + "1" + "}" * depth
    head = json.dumps({"claim_id": claim["claim_id"]})[:-1]
    for what, body in (
        ("logs", f'{head}, "entries": [{{"sequence": 1, "message": "x", "details": {deep}}}]}}'),
        ("samples", f'{head}, "samples": [{{"row_index": 1, "details": {deep}}}]}}'),
        ("finish", f'{head}, "state": "finished", "results": {deep}}}'),
    ):
        path = f"/runs/{run['id']}/{what}"
        answer = team.live.call("POST", path, token=executor.secret, content=body)
        assert answer.status_code in (200, 400), (what, answer.text)
    for path in ("", "/logs"):
        assert team.cli("GET", f"eval-runs/{run['id']}{path}").status_code == 200
        assert team.live.call("GET", f"{team.path}/runs/{run['id']}{path}").status_code == 200


def test_results_of_an_executor_are_text_if_they_are_no_usual_numbers(team):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    results = {"score": 10**400, "total_runs": [1], "skipped": "many", "pass_rate": {}}
    executor.say(claim, "finish", state="finished", results=results)
    shown = team.got(f"eval-runs/{run['id']}")["results"]
    assert isinstance(shown["score"], str) and shown["skipped"] == "many"
