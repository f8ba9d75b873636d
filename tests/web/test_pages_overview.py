"""What the overview, a commit's page and the list say of a workspace that is not simply healthy."""

from __future__ import annotations

import re
import socket
import time
from datetime import UTC, datetime

import httpx
import pytest

from gitsync.store import glance
from gitsync.web.pages import admin as admin_page
from gitsync.web.pages import trace as trace_page
from gitsync.web.pages import workspace as workspace_page
from gitsync.web.pages import workspaces as workspaces_page
from tests.live import GOOD_MAIN, NO_GRADER, git, live_server, workspace_files
from tests.web.conftest import publish_two
from tests.web.dashboard import enter, text_of


@pytest.fixture
def place(live):
    """A workspace that serves one commit, its checkout and its page."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files(), "First")
    checkout.push()
    assert live.status(workspace, sha)["state"] == "published"
    return workspace, checkout, f"/workspaces/{workspace['id']}"


def test_a_version_without_artifacts_has_a_page(live, chief):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit({"README.md": "Soon.\n"}, "Scaffold")
    checkout.push()
    assert live.status(workspace, sha)["live"]
    said = text_of(chief.get(f"/workspaces/{workspace['id']}/versions/{sha}"))
    assert "It holds no artifact." in said


def test_a_chosen_branch_that_is_not_there_is_told(live, chief, place):
    workspace, _, here = place
    form = chief.get(f"{here}/settings")
    assert form.status_code == 200
    path = f"/workspaces/{workspace['id']}"
    answer = live.call("PATCH", path, json={"default_branch": "bad..name"})
    assert answer.status_code == 400 and answer.json()["field"] == "default_branch"
    assert "no valid name of a branch" in answer.json()["message"]
    assert live.call("PATCH", path, json={"default_branch": "prod"}).status_code == 200
    sync = live.post(f"{path}/sync")["sync_id"]
    live.get(f"{path}/syncs/{sync}", params={"wait": 20})
    said = text_of(chief.get(here))
    assert "the chosen branch prod does not exist" in said and "Syncs" in said
    assert "Nothing is published yet" not in said
    listed = text_of(chief.get(f"/workspaces?q={workspace['name'].replace(' ', '+')}"))
    assert "Branch missing" in listed and "Nothing published" not in listed
    with live.running.instance.database.read() as db:
        long_ago = datetime(2026, 1, 1, tzinfo=UTC)
        troubled, _ = glance.troubled(db, limit=200, user_id=None, owed_before=long_ago)
    assert workspace["id"] in [w.id for w in troubled]
    live.call("PATCH", path, json={"default_branch": None})
    sync = live.post(f"{path}/sync")["sync_id"]
    live.get(f"{path}/syncs/{sync}", params={"wait": 20})
    assert "does not exist" not in text_of(chief.get(here))


def test_a_commit_on_an_unfollowed_branch_says_so(live, chief, place):
    workspace, checkout, here = place
    git(checkout.path, "checkout", "-q", "-b", "side")
    older = checkout.commit({"a.md": "a"}, "Older")
    newer = checkout.commit({"b.md": "b"}, "Newer")
    checkout.push("-q", "origin", "side")
    for sha in (older, newer):
        said = text_of(chief.get(f"{here}/commits/{sha}"))
        assert "Not live: not followed." in said and "It is on side , which is not followed" in said
        assert "Merge it into main" in said and "Was it pushed?" not in said, said
    reason = live.get(f"/workspaces/{workspace['id']}/commits/{newer}")["reason"]
    assert reason.startswith("It is on `side`, which is not followed.")
    starter = text_of(chief.get(f"{here}/templates/minimal-local"))
    assert "Only main is followed" in starter
    live.call("PATCH", f"/workspaces/{workspace['id']}", json={"watch": "all"})
    assert live.status(workspace, newer)["live"]
    assert "Only main is followed" not in text_of(chief.get(f"{here}/templates/minimal-local"))


def test_a_commit_of_several_branches_is_live_on_the_served_one(live, chief, place):
    workspace, checkout, here = place
    for name in ("a-feature", "b-feature"):
        checkout.push("-q", "origin", f"HEAD:refs/heads/{name}")
    live.call("PATCH", f"/workspaces/{workspace['id']}", json={"watch": "all"})
    sync = live.post(f"/workspaces/{workspace['id']}/sync")["sync_id"]
    live.get(f"/workspaces/{workspace['id']}/syncs/{sync}", params={"wait": 20})
    said = text_of(chief.get(f"{here}/commits/{checkout.head()}"))
    assert "Live on main and 2 other branches." in said


def refused_first(live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    checkout.commit(workspace_files())
    (checkout.path / "rollouts/demo/out").symlink_to("../../../../etc/passwd")
    sha = checkout.commit({"note.md": "x"}, "A link that leaves")
    checkout.push()
    assert live.status(workspace, sha)["state"] == "refused"
    return workspace, checkout, sha


def test_a_refused_first_push_says_why_on_the_overview(live, chief):
    workspace, checkout, sha = refused_first(live)
    here = f"/workspaces/{workspace['id']}"
    said = text_of(chief.get(here))
    assert f"{sha[:7]} on main was refused." in said and "rollouts/demo/out" in said, said
    assert "Nothing is served yet." in said and "No folder under" not in said
    assert "has no folder under" not in said
    way = text_of(chief.get(f"{here}/commits/{sha}"))
    assert "made it visible" not in way and "noted why it is not published" in way
    (checkout.path / "rollouts/demo/out").unlink()
    good = checkout.commit({"note.md": "y"}, "No link")
    checkout.push()
    live.status(workspace, good)
    assert "was refused" not in text_of(chief.get(here))


def test_many_branches_do_not_push_the_rest_away(live, chief, place, monkeypatch):
    monkeypatch.setattr(workspace_page, "SHOWN_BRANCHES", 3)
    workspace, checkout, here = place
    live.call("PATCH", f"/workspaces/{workspace['id']}", json={"watch": "all"})
    for n in range(6):
        checkout.commit({"n.md": str(n)}, f"Branch {n}")
        checkout.push("-q", "origin", f"HEAD:refs/heads/f-{n}")
        live.status(workspace, checkout.head())
    html = chief.get(here).text.partition('id="h-branches"')[2]
    shown, _, hidden = html.partition("<details")
    assert [name in shown for name in ("main", "f-5", "f-4", "f-3")] == [True, True, True, False]
    assert "4 more of 7 branches" in hidden and "f-0" in hidden.partition("</details>")[0]


def test_a_first_sync_that_hangs_is_told(tmp_path):
    """A remote that never answers: the overview and the list say since when, and who waits."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        live_server(
            tmp_path, allowed_hosts=(f"127.0.0.1:{silent.getsockname()[1]}",), concurrent_syncs=1
        ) as away,
        enter(away) as chief,
    ):
        ids = []
        for name in ("Silent", "Behind it"):
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/acme/{name[:3]}.git"
            body = {"name": name, "provider": "generic", "connect": {"clone_url": url}}
            ids.append(away.post("/workspaces", body)["id"])
        end = time.monotonic() + 10
        while "A sync has run since" not in (said := text_of(chief.get(f"/workspaces/{ids[0]}"))):
            assert time.monotonic() < end, said
            time.sleep(0.05)
        assert "Syncs All 1" in said
        assert "A sync has waited for its turn since" in text_of(chief.get(f"/workspaces/{ids[1]}"))
        said = text_of(chief.get("/workspaces"))
        assert re.search(r"Behind it \S+ Pending since", said), said
        assert re.search(r"Silent \S+ Syncing since", said), said
        silent.close()


def attention(chief, name: str, path: str = "/workspaces") -> str:
    """The row of a workspace among those that need attention, empty without one."""
    html = chief.get(path).text.partition('id="trouble"')[2].partition("</section>")[0]
    rows = [row for row in html.split("<tr>") if f"<strong>{name}</strong>" in row]
    return text_of(httpx.Response(200, text=rows[0])) if rows else ""


def test_a_look_that_finds_nothing_new_heals_nothing(live):
    """After `Sync now` a workspace that fails or is refused still needs attention."""
    user = f"heals-{time.monotonic_ns()}@example.com"
    failing = publish_two(live)
    refused, _, _ = refused_first(live)
    with enter(live, user, is_admin=False) as own:
        for workspace in (failing.workspace, refused):
            path = f"/workspaces/{workspace['id']}"
            live.call("PUT", f"{path}/members/{user}", json={"role": "reader"})
            # no person asks here: the refused commit would be judged again
            live.call("PATCH", path, json={"name": workspace["name"]})
        for _ in range(2):
            sync = live.post(f"/workspaces/{failing.workspace['id']}/sync")["sync_id"]
            path = f"/workspaces/{failing.workspace['id']}/syncs/{sync}"
            assert live.get(path, params={"wait": 20})["outcome"] == "unchanged"
        assert "1 rollout failing" in attention(own, failing.workspace["name"])
        assert "Refused" in attention(own, refused["name"])
        said = text_of(own.get("/workspaces"))
        assert "Needs attention 2 workspaces" in said
        assert said.index(refused["name"]) < said.index(failing.workspace["name"])
        failing.checkout.commit({"rollouts/beta/main.py": GOOD_MAIN}, "Mended")
        failing.checkout.push()
        live.status(failing.workspace, failing.checkout.head())
        assert not attention(own, failing.workspace["name"])


def test_all_that_need_attention_are_counted_and_reached(live, monkeypatch):
    monkeypatch.setattr(workspaces_page, "SHOWN_TROUBLE", 1)
    user = f"counts-{time.monotonic_ns()}@example.com"
    with enter(live, user, is_admin=False) as own:
        names = []
        for _ in range(2):
            workspace, _, _ = refused_first(live)
            path = f"/workspaces/{workspace['id']}/members/{user}"
            live.call("PUT", path, json={"role": "reader"})
            names.append(workspace["name"])
        answer = own.get("/workspaces")
        assert "Needs attention 2 workspaces" in text_of(answer)
        assert 'href="/workspaces?trouble=1#trouble"' in answer.text
        for place, name in enumerate(sorted(names)):
            assert attention(own, name, f"/workspaces?trouble={place}")


def test_a_queue_that_is_cut_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(admin_page, "SHOWN", 2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        live_server(
            tmp_path, allowed_hosts=(f"127.0.0.1:{silent.getsockname()[1]}",), concurrent_syncs=1
        ) as away,
        enter(away) as chief,
    ):
        for n in range(4):
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/acme/r{n}.git"
            body = {"name": f"Wait {n}", "provider": "generic", "connect": {"clone_url": url}}
            away.post("/workspaces", body)
        end = time.monotonic() + 10
        while "Syncing" not in (said := text_of(chief.get("/admin"))):
            assert time.monotonic() < end, said
            time.sleep(0.05)
        queue = said.partition("Next try")[2]
        assert queue.index("Syncing") < queue.index("Queued"), queue
        assert "and 2 more" in queue and "now, when a worker is free" in queue
        silent.close()


def test_many_things_to_mend_are_counted_and_told_once(live, chief, monkeypatch):
    monkeypatch.setattr(trace_page, "MOST_FINDINGS", 5)
    workspace = live.create()
    checkout = live.checkout(workspace)
    mark = "# gitsync: ignore[no-such-code]\n"  # needed by nothing: a hint
    files = workspace_files(**{f"r{n:02d}": NO_GRADER + mark for n in range(12)})
    sha = checkout.commit(files, "No graders")
    checkout.push()
    live.status(workspace, sha)
    told = live.get(f"/workspaces/{workspace['id']}/commits/{sha}")
    inner = [f for rollout in told["rollouts"] for f in rollout["findings"]]
    advice = len(inner) + len(told["findings"])
    blocking = [f for f in inner if f["severity"] in ("error", "unresolved")]
    assert len(blocking) >= 12 and {f["code"] for f in blocking} == {"no-grader"}
    answer = chief.get(f"/workspaces/{workspace['id']}/commits/{sha}")
    said = text_of(answer)
    assert f"{len(blocking)} things to mend" in said, said
    assert f"{advice - len(blocking)} warnings and hints" in said, said
    assert answer.text.count('<article class="finding"') == 3
    assert "and 2 more with no-grader" in said
    assert f"and {len(blocking) - 5} more: gitsync check" in said
    assert said.count("Without a grader no reward") == 1


def test_a_long_name_breaks(live, chief):
    name = f"{time.monotonic_ns()}" + "n" * 120
    workspace = live.create(name=name)
    html = chief.get(f"/workspaces?q={name}").text
    assert re.search(f'<td class="breaks"><a [^>]*><strong>{name}', html)
    assert f'<h1 class="breaks">{name}' in chief.get(f"/workspaces/{workspace['id']}").text
