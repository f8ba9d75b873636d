"""Runs on the dashboard, without a browser: a real executor carries them out over HTTP."""

from __future__ import annotations

import re
import threading
import time

import httpx
import pytest

from gitsync.web.pages import run_live
from tests.live import live_server
from tests.runs.kit import ROWS, Team, make_team
from tests.web.browser import Browser
from tests.web.dashboard import HOSTILE, counted, enter, text_of


@pytest.fixture(scope="module")
def shared(live) -> Team:
    return make_team(live)


@pytest.fixture
def team(shared) -> Team:
    """A workspace where nothing waits."""
    yield shared
    shared.stop_all()


@pytest.fixture
def fresh(live) -> Team:
    """A workspace that no run and no executor was ever in."""
    made = make_team(live)
    yield made
    made.stop_all()


def page_of(team: Team, run: dict) -> str:
    return f"{team.path}/runs/{run['name']}"


def evaluated(team: Team, executor, rewards: list[float | None], **experiment) -> dict:
    """A finished evaluation."""
    run = team.submit(**experiment)
    claim = executor.claim()
    assert claim["run"]["name"] == run["name"]
    executor.finish(claim, rewards)
    return run


def test_a_workspace_without_runs_teaches_how_to_submit(live, chief):
    here = f"/workspaces/{live.create()['id']}/runs"
    said = text_of(chief.get(here))
    assert "No run yet" in said and "osmosis eval submit configs/eval/NAME.toml" in said
    assert "nothing to compare yet" in text_of(chief.get(f"{here}/compare"))


def test_the_address_the_client_is_told_is_the_page(live, team, chief):
    run = team.submit()
    assert run["platform_url"] == f"{live.url}{page_of(team, run)}"
    assert chief.get(run["platform_url"].removeprefix(live.url)).status_code == 200


def test_a_pending_run_says_why_in_one_sentence(fresh, chief):
    first = fresh.submit()
    said = text_of(chief.get(page_of(fresh, first)))
    assert "No executor for eval runs of this workspace was heard of" in said
    assert "it is first in the queue." in said
    assert "No executor for eval runs is connected." in text_of(chief.get(f"{fresh.path}/runs"))
    executor = fresh.executor("eval")
    assert executor.claim()["run"]["name"] == first["name"]
    second, third = fresh.submit(), fresh.submit()
    said = text_of(chief.get(page_of(fresh, second)))
    assert "The only executor for eval runs of this workspace carries out other runs" in said
    assert "it is first in the queue." in said
    assert "1 run waits before it." in text_of(chief.get(page_of(fresh, third)))
    training = fresh.submit("training")
    said = text_of(chief.get(page_of(fresh, training)))
    assert "No executor for training runs" in said and "it is first in the queue" in said
    idle = fresh.executor("eval", "training")
    assert idle.claim("training") is not None
    said = text_of(chief.get(page_of(fresh, third)))
    assert "The only executor" in said  # the other one did not ask for evaluations
    other = fresh.executor("eval")
    other.claim()
    claimed = fresh.live.get(f"{fresh.path}/runs/{second['name']}")
    assert claimed["state"] == "running"
    said = text_of(chief.get(page_of(fresh, third)))
    assert "All 2 executors for eval runs of this workspace carry out other runs" in said


def test_an_idle_executor_is_told_of(team, chief):
    executor = team.executor("eval")
    assert executor.claim() is None
    run = team.submit()
    said = text_of(chief.get(page_of(team, run)))
    assert "1 executor for eval runs is there, and it is first in the queue." in said


def test_a_run_shows_what_it_is_pinned_to(team, chief):
    run = team.submit()
    answer = chief.get(page_of(team, run))
    found = team.live.get(f"{team.path}/runs/{run['name']}")
    said = text_of(answer)
    for word in (
        team.sha[:12],
        found["digest"],
        "main.py",
        "main:EchoFlow",
        "main:EchoScore",
        "openai/gpt-5-mini",
        "sums",
        "6 rows",
        "configs/eval/alpha.toml",
        "OPENAI_API_KEY sent along with the run",
        "Submitted",
        "by Robin",
        "Accepted: branch main",
    ):
        assert word in said, word
    assert "sk-run-only" not in answer.text
    for path in (f"versions/{team.sha}", f"artifacts/{found['digest']}.tar", "rollouts/alpha"):
        assert f'href="{team.path}/{path}"' in answer.text
        assert chief.get(f"{team.path}/{path}").status_code == 200
    dataset = re.search(r'href="([^"]+/datasets/ds_\w+)"', answer.text)[1]
    assert "sums" in text_of(chief.get(dataset))


def test_warnings_of_the_submit_are_prominent(team, chief):
    body = team.body()
    body["experiment_config"]["model_path"] = "openai/gpt-5"
    run = team.submit(body=body)
    said = text_of(chief.get(page_of(team, run)))
    warning = f"The submitted config equals none of commit {team.sha[:12]}"
    assert said.index(warning) < said.index("Life")
    assert "as submitted; it equals none of the commit" in said


def test_the_whole_life_of_an_evaluation(team, chief):
    run = team.submit()
    here = page_of(team, run)
    executor = team.executor("eval")
    claim = executor.claim()
    said = text_of(chief.get(here))
    assert "Running" in said and "No sample is done yet." in said and "by executor gpu-7" in said
    executor.say(
        claim,
        "samples",
        samples=[
            {"row_index": 0, "reward": 1.0, "tokens": 10, "duration_ms": 1500},
            {"row_index": 1, "reward": 0.25, "details": {"answer": "#### 5"}},
        ],
    )
    said = text_of(chief.get(here))
    assert "mean reward 0.625, 1 of 2 samples passed so far" in said
    assert "2 of 6 samples" in said and "#### 5" in said and "1.5 s" in said
    assert "last heard of" in said
    executor.finish(claim, [1.0, 0.25, None, 1.0])
    answer = chief.get(here)
    said = text_of(answer)
    assert "Finished: mean reward 0.75, 2 of 4 samples passed" in said
    assert "Rewards of the samples" in said and "3 samples with a reward, 1 without" in said
    assert "data-live" not in answer.text and "Stop" not in said  # nothing more comes
    worst = text_of(chief.get(f"{here}?order=worst")).rpartition("Took")[2]
    assert re.match(r" 2 0 – (–|.*Failed)", worst), worst[:80]
    rows = chief.get(f"{team.path}/runs")
    assert "mean reward 0.75, 2 of 4 samples passed" in text_of(rows)


def test_a_failed_run_says_its_reason(team, chief):
    executor = team.executor()
    run = team.submit()
    executor.finish(executor.claim(), [], state="failed", reason=f"Out of memory {HOSTILE}")
    answer = chief.get(page_of(team, run))
    assert "Failed Out of memory" in text_of(answer)
    assert "<img src=x" not in answer.text and "\u202e" not in answer.text
    assert "Out of memory" in text_of(chief.get(f"{team.path}/runs?state=failed"))


def test_training_shows_its_metrics(team, chief):
    run = team.submit("training")
    executor = team.executor("training")
    claim = executor.claim("training")
    metrics = [
        {"key": key, "title": f"The {key}", "step": step, "value": value * step}
        for key, value in (("reward", 0.001), ("loss", -2.5))
        for step in range(1, 401)
    ]
    executor.say(claim, "metrics", metrics=metrics)
    executor.say(claim, "heartbeat", current_step=400, total_steps=1000)
    answer = chief.get(page_of(team, run))
    said = text_of(answer)
    assert "reward 0.4, step 400 of 1000 so far" in said
    assert "The loss 400 values" in said and "The reward over the steps" in said
    assert "It goes from -2.5 at step 1 to -1000 at step 400." in said
    assert len(re.findall(r"[\d.]+,[\d.]+", answer.text)) < 300  # thinned


def test_logs_are_paged_and_escaped(team, chief):
    run = team.submit()
    executor = team.executor()
    claim = executor.claim()
    entries = [
        {"sequence": n, "message": f"line {n}\n  of two {HOSTILE}", "level": "warning"}
        for n in range(150)
    ]
    entries[149]["details"] = {"<b>": HOSTILE}
    executor.say(claim, "logs", entries=entries)
    here = page_of(team, run)
    answer = chief.get(here)
    shown = text_of(answer)
    assert "line 149 of two" in shown and "line 80 of" not in shown and "60 shown" in shown
    seen = {int(n) for n in re.findall(r"line (\d+)", shown)}
    for _ in range(3):
        for bad in ("<img src=x", "<b>", "\u202e"):
            assert bad not in answer.text
        older = re.search(r"\?before=\d+(?=#log)", answer.text)
        if not older:
            break
        answer = chief.get(here + older[0])
        seen |= {int(n) for n in re.findall(r"line (\d+)", text_of(answer))}
    assert seen == set(range(150)) and "Newest" in text_of(answer)


def test_stop_needs_the_form_and_the_role(live, team, chief):
    run = team.submit()
    here = page_of(team, run)
    live._count += 1
    email = f"watch-{live._count}@example.com"
    with enter(live, email, is_admin=False) as reader:
        for path in (here, f"{team.path}/runs", f"{here}/live", f"{team.path}/runs/compare"):
            assert reader.get(path).status_code == 404
        live.call("PUT", f"{team.path}/members/{email}", json={"role": "reader"})
        assert "Stop" not in text_of(reader.get(here))
        assert reader.send(f"{here}/stop", form_of=here).status_code == 403
    assert chief.http.post(f"{here}/stop", data={"csrf": "no"}).status_code == 403
    assert live.get(f"{team.path}/runs/{run['name']}")["state"] == "pending"
    answer = chief.send(f"{here}/stop", form_of=here)
    assert answer.status_code == 303
    said = text_of(chief.get(answer.headers["location"]))
    assert "The run is stopped." in said and "Stopped by" in said
    again = chief.send(f"{here}/stop", form_of=here)
    assert again.status_code == 409 and "it is stopped" in text_of(again)


def test_the_run_of_another_workspace_is_not_here(live, team, chief):
    run = team.submit()
    other = live.create()
    assert chief.get(f"/workspaces/{other['id']}/runs/{run['name']}").status_code == 404
    pair = f"/workspaces/{other['id']}/runs/compare?a={run['name']}&b={run['name']}"
    assert chief.get(pair).status_code == 404
    with Browser(live.url) as stranger:
        assert stranger.get(page_of(team, run)).status_code == 303


def test_the_list_is_filtered_and_paged(fresh, chief):
    evals = [fresh.submit()["name"] for _ in range(3)]
    training = fresh.submit("training")["name"]
    here = f"{fresh.path}/runs"
    said = text_of(chief.get(f"{here}?kind=training&state="))
    assert training in said and evals[0] not in said and "1 run" in said
    said = text_of(chief.get(f"{here}?kind=&state=finished"))
    assert "0 runs" in said and "No run is like that." in said
    seen, path = [], f"{here}?kind=eval&limit=2"
    answer = chief.get(path)
    seen += re.findall(r"<strong>(alpha-eval-\w+)", answer.text)
    older = re.search(r'href="([^"]+after=\w+)"', answer.text)[1].replace("&amp;", "&")
    assert "kind=eval" in older
    seen += re.findall(r"<strong>(alpha-eval-\w+)", chief.get(older).text)
    assert seen == evals[::-1]


def test_rewards_of_a_rollout_over_its_evaluations(fresh, chief):
    executor = fresh.executor()
    assert "No evaluation of it has finished" in text_of(
        chief.get(f"{fresh.path}/runs?rollout=alpha")
    )
    names = [evaluated(fresh, executor, [r, r])["name"] for r in (0.5, 0.9, 0.7)]
    for path in (f"{fresh.path}/runs?rollout=alpha", f"{fresh.path}/rollouts/alpha"):
        said = text_of(chief.get(path))
        assert "3 evaluations: the newest has the mean reward 0.7; the best is 0.9" in said
        assert f"{names[1]} of {fresh.sha[:7]}: mean reward 0.9, 0% passed" in said
    assert "osmosis eval submit configs/eval/NAME.toml" in text_of(
        chief.get(f"{fresh.path}/rollouts/beta")
    )


def test_two_runs_are_compared_sample_by_sample(team, chief):
    executor = team.executor()
    one = evaluated(team, executor, [1.0, 0.0, None, 0.5, 0.5, 1.0])
    two = evaluated(team, executor, [1.0, 1.0, 0.5, 0.25, 0.5], model_path="openai/gpt-5")
    here = f"{team.path}/runs/compare?a={one['name']}&b={two['name']}"
    answer = chief.get(here)
    said = text_of(answer)
    assert "model openai/gpt-5-mini openai/gpt-5" in said
    differing = said.partition("Settings that differ")[2].partition("Samples by reward")[0]
    assert "commit" not in differing
    assert "1 better 1 worse 1 got one 2 the same" in said and "1 in one of them only" in said
    assert "mean change +0.188 over the 4 samples with a reward in both" in said
    rows = said.partition("Sample by sample")[2].partition("Change ")[2]
    assert rows.startswith("2 0 – 0.5 got one 1 0 0 1 +1 3 0 0.5 0.25 −0.25"), rows[:80]
    assert "Rewards of the samples of both runs" in said
    assert f"{one['name']}: 5 samples with a reward, 1 without" in said
    assert "One run does not differ" in text_of(chief.get(here.replace(two["name"], one["name"])))
    assert team.live.call("DELETE", f"{team.path}/datasets/sums").status_code == 204
    team.upload("sums", ROWS + ROWS)
    three = evaluated(team, executor, [1.0])
    said = text_of(chief.get(here.replace(two["name"], three["name"])))
    assert "They used different data sets" in said and "data set sums (ds_" in said
    assert "deleted since" in text_of(chief.get(page_of(team, one)))


def test_samples_that_lost_their_reward_are_no_gain(team, chief):
    executor = team.executor()
    one = evaluated(team, executor, [0.0, 0.0, 0.5, 0.5, 1.0, 1.0])
    two = evaluated(team, executor, [1.0, 1.0, 1.0, 1.0, None, None])
    here = f"{team.path}/runs/compare?a={one['name']}&b={two['name']}"
    answer = chief.get(here)
    said = text_of(answer)
    assert "4 better 0 worse 2 lost their reward 0 the same" in said
    assert "mean change +0.75 over the 4 samples with a reward in both" in said
    assert "Mean reward 0.5 of 6 rewards 1 of 4 rewards +0.5" in said
    assert '<span class="muted">+0.5</span>' in answer.text  # no green: six against four
    assert said.count(" lost ") == 3 and "1 to 6" not in said
    back = text_of(chief.get(f"{team.path}/runs/compare?a={two['name']}&b={one['name']}"))
    assert "0 better 4 worse 2 got one" in back and "lost" not in back


def test_the_stream_tells_when_to_look_again(live, team, chief):
    run = team.submit()
    here = page_of(team, run)
    page = chief.get(here).text
    last = int(re.search(r'data-last="(\d+)"', page)[1])
    assert f'data-live="{here}/live"' in page
    executor = team.executor()
    told: list[int] = []
    begun = threading.Event()

    def listen() -> None:
        url = f"{here}/live?after={last}"
        with chief.http.stream("GET", url, timeout=httpx.Timeout(20)) as answer:
            for line in answer.iter_lines():
                if line.startswith(": open"):
                    begun.set()
                if line.startswith("id: "):
                    told.append(int(line[4:]))
                    if len(told) == 3:
                        return

    listener = threading.Thread(target=listen)
    listener.start()
    assert begun.wait(10)
    claim = executor.claim()
    for n, what in enumerate(("logs", "samples"), 1):
        _until(lambda n=n: len(told) >= n)
        body = {
            "logs": {"entries": [{"sequence": 1, "message": "x"}]},
            "samples": {"samples": [{"row_index": 0, "reward": 1.0}]},
        }[what]
        executor.say(claim, what, **body)
    listener.join(10)
    assert not listener.is_alive() and len(set(told)) == 3 and last not in told
    current = int(re.search(r'data-last="(\d+)"', chief.get(here).text)[1])
    assert current == told[-1]


def test_the_stream_ends_for_who_is_no_member_any_more(live, team, monkeypatch):
    monkeypatch.setattr(run_live, "ROUND_S", 0.2)
    run = team.submit()
    live._count += 1
    email = f"leaves-{live._count}@example.com"
    with enter(live, email, is_admin=False) as leaver:
        live.call("PUT", f"{team.path}/members/{email}", json={"role": "reader"})
        with leaver.http.stream("GET", f"{page_of(team, run)}/live", timeout=20) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 500"
            live.call("DELETE", f"{team.path}/members/{email}")
            assert "event: gone" in list(lines)[:100]  # it ends, and says why


@pytest.mark.slow
def test_an_open_stream_does_not_keep_the_server(tmp_path):
    done = threading.Event()
    with live_server(tmp_path) as live:
        team = make_team(live)
        run = team.submit()
        begun = threading.Event()

        def listen(chief) -> None:
            with chief.http.stream("GET", f"{page_of(team, run)}/live", timeout=60) as answer:
                for _ in answer.iter_lines():
                    begun.set()
            done.set()

        chief = enter(live)
        threading.Thread(target=listen, args=(chief,), daemon=True).start()
        assert begun.wait(10)
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 8 and done.wait(5)
    chief.http.close()


def _until(is_so) -> None:
    for _ in range(400):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen in time")


def test_the_cost_of_a_page_does_not_grow(team, chief):
    executor = team.executor()
    one = evaluated(team, executor, [1.0, 0.0])
    two = evaluated(team, executor, [0.5, 0.5])
    paths = [
        f"{team.path}/runs",
        f"{team.path}/runs?rollout=alpha",
        page_of(team, one),
        f"{team.path}/runs/compare?a={one['name']}&b={two['name']}",
    ]

    def costs() -> list[int]:
        found = []
        for path in paths:
            chief.get(path)
            with counted() as statements:
                assert chief.get(path).status_code == 200
            found.append(len([s for s in statements if s.lstrip().upper().startswith("SELECT")]))
        return found

    before = costs()
    for _ in range(4):
        evaluated(team, executor, [1.0] * 40)
    assert costs() == before
    assert max(before) <= 24, before
