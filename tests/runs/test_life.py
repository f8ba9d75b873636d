"""A run from submit to its end, by a real executor over HTTP."""

from __future__ import annotations

import hashlib

import httpx


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
