"""Runs, data sets and secrets in a real browser, while a real executor carries a run out."""

from __future__ import annotations

import pytest

from tests.browser.conftest import person, window
from tests.live import Live
from tests.runs.kit import Executor, Team, make_team

pytestmark = pytest.mark.slow
LOSSES = [2.31, 1.92, 1.71, 1.4, 1.33, 1.18, 1.12, 0.97, 0.94, 0.88, 0.87, 0.85]


@pytest.fixture(scope="module")
def team(live) -> Team:
    """A workspace with evaluations that became better, and a training."""
    team = make_team(live)
    team.live.call(
        "PUT", f"{team.path}/secrets/OPENAI_API_KEY", json={"value": "x", "scope": "workspace"}
    )
    executor = team.executor("eval", "training")
    for rewards in ([0.0, 0.2, 0.5, 1.0, 0.1, None], [0.3, 0.2, 0.9, 1.0, 0.4, 0.7]):
        evaluate(team, executor, rewards)
    evaluate(team, executor, [0.8, 0.6, 1.0, 1.0, 0.4, 1.0], model_path="openai/gpt-5")
    team.submit("training")
    claim = executor.claim("training")
    metrics = [
        {"key": key, "title": title, "step": step * 10, "value": value}
        for step, loss in enumerate(LOSSES)
        for key, title, value in (
            ("loss", "Loss", loss),
            ("reward", "Mean reward", 1 - loss / 2.5),
        )
    ]
    executor.say(claim, "metrics", metrics=metrics)
    executor.say(claim, "heartbeat", current_step=110, total_steps=200)
    return team


def evaluate(team: Team, executor: Executor, rewards: list[float | None], **more: str) -> dict:
    run = team.submit(**more)
    claim = executor.claim()
    says(executor, claim, [f"Row {n} of {len(rewards)} is graded." for n in range(len(rewards))])
    executor.finish(claim, rewards)
    return run


def says(executor: Executor, claim: dict, messages: list[str]) -> None:
    entries = [{"sequence": n, "message": m, "step": "sample"} for n, m in enumerate(messages)]
    executor.say(claim, "logs", entries=entries)


def places(team: Team) -> dict[str, str]:
    """Every page of runs and data with something on it."""
    found = team.live.get(f"{team.path}/runs?limit=50")["items"]
    evals = [run["name"] for run in found if run["kind"] == "eval" and run["state"] == "finished"]
    training = next(run["name"] for run in found if run["kind"] == "training")
    return {
        "runs": f"{team.path}/runs",
        "runs-of-one": f"{team.path}/runs?rollout=alpha",
        "run": f"{team.path}/runs/{evals[0]}",
        "run-training": f"{team.path}/runs/{training}",
        "compare": f"{team.path}/runs/compare?a={evals[-1]}&b={evals[0]}",
        "compare-choice": f"{team.path}/runs/compare",
        "datasets": f"{team.path}/datasets",
        "dataset": f"{team.path}/datasets/sums",
        "secrets": f"{team.path}/secrets",
        "rollout-rewards": f"{team.path}/rollouts/alpha",
    }


@pytest.fixture(scope="module")
def state(chromium, live: Live):
    """Cookies of a signed-in administrator."""
    with window(chromium, live) as visit:
        visit.sign_in(person(live, name="Sam", is_admin=True)[1])
        return visit.page.context.storage_state()


def test_browser_a_run_goes_by_while_one_watches(chromium, live, state):
    """Pending and why, claimed, its words, its samples, finished; never loaded anew."""
    team = make_team(live)
    run = team.submit()
    with window(chromium, live, storage_state=state) as sam:
        sam.go(f"{team.path}/runs/{run['name']}")
        sam.is_live()
        sam.mark()
        sam.says("No executor for eval runs of this workspace was heard of")
        sam.shoot("run-pending")
        executor = team.executor("eval")
        claim = executor.claim()
        sam.says("No sample is done yet.")
        says(executor, claim, ["Loads the rollout.", "Asks the model <b>six</b> times."])
        sam.says("Asks the model <b>six</b> times.")
        executor.say(claim, "samples", samples=[{"row_index": 0, "reward": 1.0}])
        sam.says("1 of 6 samples")
        sam.page.get_by_text("Samples by reward").wait_for()
        sam.shoot("run-running")
        assert sam.page.get_by_role("button", name="Stop").count() == 1
        executor.finish(claim, [1.0, 0.5, 0.25, 1.0, None, 1.0])
        sam.says("Finished: mean reward 0.75, 3 of 6 samples passed")
        sam.until("document.querySelector('main').dataset.live === undefined")
        assert sam.page.get_by_role("button", name="Stop").count() == 0
        assert sam.stands()


def test_browser_stops_a_run(chromium, live, state):
    team = make_team(live)
    run = team.submit()
    with window(chromium, live, storage_state=state) as sam:
        sam.go(f"{team.path}/runs")
        sam.page.get_by_role("link", name=run["name"]).click()
        sam.page.get_by_role("button", name="Stop").click()
        sam.says("The run is stopped.")
        assert team.live.get(f"{team.path}/runs/{run['name']}")["state"] == "stopped"


def test_browser_compares_sets_and_deletes(chromium, live, state, team):
    with window(chromium, live, storage_state=state) as sam:
        sam.go(places(team)["run"])
        sam.page.get_by_label("With another eval run").select_option(index=1)
        sam.page.get_by_role("button", name="Compare").click()
        sam.says("Settings that differ")
        sam.says("4 better")
        sam.page.get_by_role("navigation", name="Workspace").get_by_text("Secrets").click()
        sam.page.get_by_label("Name").fill("WANDB_KEY")
        sam.page.get_by_label("Value").fill("not-on-any-page")
        sam.page.get_by_role("button", name="Set", exact=True).click()
        sam.says("The secret is set.")
        assert "not-on-any-page" not in sam.page.content()
        sam.page.get_by_role("button", name="Delete WANDB_KEY (yours)").click()
        sam.says("The secret was deleted.")
        team.upload("spare")
        sam.page.get_by_role("navigation", name="Workspace").get_by_text("Data sets").click()
        sam.page.get_by_role("link", name="spare").click()
        sam.page.get_by_text("Delete the data set").click()
        sam.page.get_by_role("button", name="Delete for good").click()
        sam.says("The data set was deleted.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_axe_finds_nothing_serious_on_runs(chromium, live, state, team, scheme):
    found = []
    with window(chromium, live, storage_state=state, color_scheme=scheme) as visit:
        for name, path in places(team).items():
            visit.go(path)
            visit.shoot(f"{name}-{scheme}")
            found += [f"{name}: {text}" for text in visit.serious()]
    assert not found, "\n".join(found)


def test_browser_runs_fit_375_pixels(chromium, live, state, team):
    options = {"viewport": {"width": 375, "height": 700}, "storage_state": state}
    with window(chromium, live, **options) as visit:
        for name, path in places(team).items():
            visit.go(path)
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= 375, name
            visit.shoot(f"{name}-narrow")


def test_browser_runs_need_no_script(chromium, live, team):
    link = person(live, name="Kit", is_admin=True)[1]
    with window(chromium, live, java_script_enabled=False) as visit:
        visit.sign_in(link)
        for path in places(team).values():
            visit.go(path)
            assert visit.page.locator("h1").count() == 1
        visit.go(f"{team.path}/runs")
        visit.page.get_by_label("Kind").select_option("training")
        visit.page.get_by_role("button", name="Show").click()
        visit.says("1 run")
