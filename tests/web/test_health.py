"""`/healthz`, `/readyz`, `/metrics`: for those who watch over the service."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.live import GOOD_MAIN, live_server, workspace_files


def fetch(live, path):
    return httpx.get(live.url + path, trust_env=False, verify=False, timeout=20)


def metrics(live):
    answer = fetch(live, "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_live_server_says_so_and_shows_no_more(live):
    answer = fetch(live, "/healthz")
    assert answer.status_code == 200 and set(answer.json()) == {"status", "version"}
    assert answer.json()["status"] == "ok"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A server whose engine does not work; each test leaves nothing owed."""
    with live_server(tmp_path_factory.mktemp("stopped")) as live:
        live.running.engine.stop()
        live.running.instance.stopping.clear()
        yield live


def test_stuck_work_makes_the_server_not_ready(stopped, monkeypatch):
    from datetime import timedelta

    from gitsync.web import health

    assert fetch(stopped, "/readyz").json() == {
        "status": "ready",
        "queue_depth": 0,
        "stuck_workspaces": [],
        "executors": {"eval": 0, "training": 0},
        "waiting_runs": {"eval": 0, "training": 0},
        "remarks": [],
    }
    workspace = stopped.create()
    fresh = fetch(stopped, "/readyz")
    assert fresh.status_code == 200 and fresh.json()["queue_depth"] == 1
    monkeypatch.setattr(health, "STUCK_AFTER", timedelta(0))
    stuck = fetch(stopped, "/readyz")
    assert stuck.status_code == 503 and stuck.json()["status"] == "not ready"
    assert stuck.json()["stuck_workspaces"] == [workspace["id"]]
    stopped.post(f"/workspaces/{workspace['id']}/suspend")
    assert fetch(stopped, "/readyz").status_code == 200  # nobody expects anything of it now
    found = metrics(stopped)
    assert (
        "gitsync_workspace_staleness_seconds",
        ("workspace", workspace["identity"]),
    ) not in found


def test_staleness_grows_while_nothing_happens(stopped):
    workspace = stopped.create()
    name = ("gitsync_workspace_staleness_seconds", ("workspace", workspace["identity"]))
    first = metrics(stopped)[name]
    second = metrics(stopped)[name]
    assert 0 <= first < second
    assert metrics(stopped)[("gitsync_queue_depth",)] == 1
    stopped.post(f"/workspaces/{workspace['id']}/suspend")


def test_a_server_that_stops_is_not_ready(stopped):
    stopped.running.instance.stopping.set()
    assert fetch(stopped, "/readyz").status_code == 503
    assert fetch(stopped, "/healthz").status_code == 200
    stopped.running.instance.stopping.clear()
    assert fetch(stopped, "/readyz").status_code == 200


def test_metrics_tell_what_happened(tmp_path):
    with live_server(tmp_path) as live:
        workspace = live.create()
        checkout = live.checkout(workspace)
        one = checkout.commit(workspace_files())
        checkout.push("-q", "origin", "main")
        assert live.status(workspace, one)["state"] == "published"
        two = checkout.commit({"rollouts/demo/main.py": GOOD_MAIN + "# two\n"})
        checkout.push("-q", "origin", "main")
        assert live.status(workspace, two)["state"] == "published"
        sync = live.post(f"/workspaces/{workspace['id']}/sync")["sync_id"]
        live.get(f"/workspaces/{workspace['id']}/syncs/{sync}", params={"wait": 20})
        found = metrics(live)
        who = ("workspace", workspace["identity"])
        assert found[("gitsync_workspace_staleness_seconds", who)] == 0
        assert 0 <= found[("gitsync_workspace_last_look_seconds", who)] < 60
        assert found[("gitsync_queue_depth",)] == 0
        assert found[("gitsync_deliveries", ("outcome", "published"))] == 2
        assert found[("gitsync_syncs", ("outcome", "published"))] >= 2
        assert found[("gitsync_syncs", ("outcome", "unchanged"))] >= 1
        assert found[("gitsync_rows", ("kind", "versions"))] == 2
        for step in ("look", "check", "store", "publish"):
            assert found[("gitsync_step_seconds_sum", ("step", step))] > 0, step
            assert found[("gitsync_step_seconds_count", ("step", step))] >= 2, step
        assert ("gitsync_syncs_running",) in found


def test_a_label_from_outside_cannot_break_the_format(live):
    """Identities are letters, digits, `-`, `.` and `_`; the parser reads every line."""
    live.create("quote", identity="quote--x/a.b_c-D")
    assert metrics(live)


def test_metrics_hold_no_names_of_people_or_secrets(live, crowd):
    text = fetch(live, "/metrics").text
    assert "@" not in text and "gs_" not in text


def test_the_front_page_leads_somewhere(live):
    assert (
        httpx.get(live.url + "/", trust_env=False, verify=False, follow_redirects=True).status_code
        == 200
    )


def test_the_front_page_tells_a_program_where_to_go_and_a_person_where_to_sign_in(live):
    told = live.call("GET", "//", headers={"Authorization": ""}).json()
    for name in ("openapi", "health", "ready"):
        found = httpx.get(told[name], trust_env=False, verify=False)
        assert found.status_code == 200, (name, found.text)
    with httpx.Client(base_url=live.url, trust_env=False, verify=False) as browser:
        page = browser.get("/", headers={"Accept": "text/html"}, follow_redirects=True)
    assert page.status_code == 200 and page.url.path == "/signin"
