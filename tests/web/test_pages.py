"""The dashboard without a browser: what pages say, that they escape it, what forms change."""

from __future__ import annotations

import re
import socket
import time
from datetime import timedelta

import pytest

from gitsync.cli import app as cli
from gitsync.web.pages import admin as admin_page
from gitsync.web.pages import workspaces as workspaces_page
from gitsync.web.pages.render import ago, milliseconds, size
from tests.live import GOOD_MAIN, NO_GRADER, live_server, workspace_files
from tests.runs.kit import make_team
from tests.web.browser import Browser
from tests.web.conftest import publish_two
from tests.web.dashboard import HOSTILE, counted, enter, landed, pages_of, text_of


def test_every_page_is_there_and_strict(chief, published):
    for name, path in pages_of(published).items():
        answer = chief.get(path)
        assert answer.status_code == 200, name
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<style|style=|<script(?! defer src=)|\son[a-z]+=", answer.text), name
        assert len(re.findall(r"<h1[ >]", answer.text)) == 1, name
        ids = re.findall(r'\sid="([^"]+)"', answer.text)
        assert len(ids) == len(set(ids)), name


def test_a_stranger_is_sent_to_sign_in_and_comes_back(live, published):
    with Browser(live.url) as stranger:
        for name, path in pages_of(published).items():
            answer = stranger.get(path)
            assert answer.status_code == 303, name
            assert answer.headers["location"].startswith("/signin?next=%2F")
        asked = stranger.http.get("/workspaces", headers={"HX-Request": "true"})
        assert asked.status_code == 401 and asked.headers["hx-redirect"].startswith("/signin")


def test_the_workspace_page_tells_its_health(live, chief):
    published = publish_two(live)
    said = text_of(chief.get(pages_of(published)["workspace"]))
    assert "1 of 2 runnable" in said and "1 failing" in said
    assert said.index("beta") < said.index("alpha")  # what is broken comes first
    assert "Second" in said and "With errors" in said
    assert f"gitsync clone {published.workspace['identity']}" in said


def test_the_list_shows_what_needs_attention(chief, published):
    name = published.workspace["name"]
    said = text_of(chief.get(f"/workspaces?q={name.upper()}"))
    assert "1 rollout failing" in said and "1 / 2" in said
    assert "No workspace is called" in text_of(chief.get("/workspaces?q=%25_nothing"))


def test_the_trace_says_why_and_what_to_mend(chief, published):
    answer = chief.get(pages_of(published)["trace"])
    said = text_of(answer)
    assert "Live on main." in said and "A rollout of this commit cannot run" in said
    for word in ("Delivery", "Turn", "Look", "Check", "Store", "Publish", "Finished"):
        assert word in said
    assert "no-grader" in said and "Why, and how to mend it" in said
    assert "from osmosis_ai.rollout import AgentWorkflow" in said  # the source itself
    older = text_of(chief.get(pages_of(published)["trace"].replace(published.bad, published.good)))
    assert "Not live: replaced by a newer commit." in older


def test_an_unknown_commit_says_what_to_do(chief, published):
    said = text_of(chief.get(pages_of(published)["trace"].replace(published.bad, "0" * 40)))
    assert "Not known here." in said and "Was it pushed?" in said and "git push" in said


def test_a_refused_commit_shows_its_findings(live, chief):
    workspace = live.create()
    checkout = live.checkout(workspace)
    checkout.commit(workspace_files())
    (checkout.path / "rollouts/demo/out").symlink_to("../../../../etc/passwd")
    sha = checkout.commit({"note.md": "x"}, "A link that leaves")
    checkout.push()
    assert live.status(workspace, sha)["state"] == "refused"
    here = f"/workspaces/{workspace['id']}"
    said = text_of(chief.get(f"{here}/commits/{sha}"))
    assert "Not live: refused." in said and "rollouts/demo/out" in said
    assert "A link that leaves" in text_of(chief.get(here))  # the list names it too


def test_version_and_diff_show_what_changed(chief, published):
    said = text_of(chief.get(pages_of(published)["version"]))
    assert published.bad in said and "main:EchoFlow" in said and "no grader" in said
    changed = text_of(chief.get(pages_of(published)["diff"]))
    assert "rollouts/beta/main.py" in changed and "grader main:EchoScore → none" in changed


def test_downloads_are_those_of_the_api(live, chief, published):
    here = f"/workspaces/{published.workspace['id']}"
    for path in (
        f"{here}/versions/{published.good}/archive.tar.gz",
        f"{here}/artifacts/{published.digest}.tar",
    ):
        answer = chief.get(path)
        assert answer.status_code == 200
        assert answer.content == live.call("GET", path).content


def test_hostile_names_and_texts_are_escaped(live, chief):
    workspace = live.create(name="<b>x</b> & \"'{{1}}")
    checkout = live.checkout(workspace)
    files = workspace_files(alpha=GOOD_MAIN)
    markdown = (
        "# Hi <script>alert(1)</script>\n\n[a](javascript:alert(1)) [b](data:text/html,x) "
        "![c](https://example.com/x.png)\n\n<iframe src=//example.com></iframe>\n\n"
        '[d](https://example.com "\u202eon<x>")\n'
    )
    files |= {
        "rollouts/alpha/README.md": markdown,
        "rollouts/<i>b</i>/main.py": NO_GRADER + f"# {HOSTILE}\n",
        "configs/eval/<u>.toml": f"[experiment]\nrollout = '<i>c</i>'\n# {HOSTILE}\n",
    }
    sha = checkout.commit(files, f"{HOSTILE}\n\n<script>alert(2)</script>")
    checkout.push()
    live.status(workspace, sha)
    here = f"/workspaces/{workspace['id']}"
    seen = ""
    for path in (
        "/workspaces",
        here,
        f"{here}/commits/{sha}",
        f"{here}/versions",
        f"{here}/versions/{sha}",
        f"{here}/rollouts",
        f"{here}/rollouts/alpha",
        f"{here}/syncs",
        f"{here}/deliveries",
        f"{here}/settings",
    ):
        answer = chief.get(path)
        assert answer.status_code == 200, path
        for bad in ("<img src=x", "<script>alert", "<b>x", "<i>b", "<u>", "<iframe", "\u202e"):
            assert bad not in answer.text, (path, bad)
        assert not re.search(r'href="(?!/|https?://|#|\?)', answer.text), path
        assert "49" not in re.findall(r"onerror=alert\(1\)\S*", answer.text), path
        seen += answer.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in seen and "\\u202e" in seen
    assert "[a](javascript:alert(1))" in seen and 'rel="nofollow noopener noreferrer"' in seen


def test_a_form_without_its_token_changes_nothing(live, chief, published):
    here = f"/workspaces/{published.workspace['id']}"
    before = live.get(f"{here}/syncs")["total_count"]
    for data in ({}, {"csrf": "x" * 64}):
        answer = chief.http.post(f"{here}/sync", data=data)
        assert answer.status_code == 403 and "too old" in answer.text
    with enter(live) as other:  # the token of another session
        csrf = re.search(r'name="csrf" value="(\w+)"', other.get(here).text)[1]
    assert chief.http.post(f"{here}/sync", data={"csrf": csrf}).status_code == 403
    assert live.get(f"{here}/syncs")["total_count"] == before


def test_sync_now_begins_a_sync(live, chief, published):
    here = f"/workspaces/{published.workspace['id']}"
    answer = chief.send(f"{here}/sync", form_of=here)
    assert answer.status_code == 303 and answer.headers["location"] == f"{here}?done=sync"
    assert "A sync was asked for." in text_of(chief.get(answer.headers["location"]))
    assert live.get(f"{here}/syncs")["items"][0]["trigger"] == "manual"


def test_pins_come_and_go(live, chief, published):
    here = f"/workspaces/{published.workspace['id']}/versions/{published.good}"
    assert chief.send(f"{here}/pin", form_of=here, name="a b").status_code == 400
    given = {"name": "paper", "reason": "<b>", "days": "30"}
    assert chief.send(f"{here}/pin", form_of=here, **given).status_code == 303
    assert "paper" in [p["name"] for p in live.get(here)["pins"]]
    assert "paper &lt;b&gt;" in " ".join(chief.get(here).text.replace("</strong>", "").split()) or (
        "&lt;b&gt;" in chief.get(here).text
    )
    assert chief.send(f"{here}/unpin", form_of=here, name="paper").status_code == 303
    assert "paper" not in [p["name"] for p in live.get(here)["pins"]]
    assert chief.send(f"{here}/recheck", form_of=here).status_code == 303


def test_a_delivery_is_taken_again(live, chief, published):
    here = f"/workspaces/{published.workspace['id']}/deliveries"
    first = live.get(here)["items"][-1]["id"]
    assert chief.send(f"{here}/{first}/redeliver", form_of=here).status_code == 303
    assert live.get(here)["items"][0]["redelivery_of"] == first


def test_settings_change_a_workspace(live, chief):
    published = publish_two(live)
    here = f"/workspaces/{published.workspace['id']}"
    form = f"{here}/settings"
    general = {
        "name": "Renamed",
        "identity": f"renamed-{live._count}--local/rollouts",
        "watch": "all",
        "default_branch": "main",
        "accept_harbor_native": "no",
    }
    assert chief.send(form, **general).status_code == 303
    changed = live.get(here)
    assert (changed["name"], changed["watch"]) == ("Renamed", "all")
    refused = chief.send(form, **{**general, "identity": "no identity"})
    assert refused.status_code == 400 and "Nothing was changed." in text_of(refused)

    live.user(f"new-{live._count}@example.com")
    email = f"new-{live._count}@example.com"
    answer = chief.send(f"{form}/members", form_of=form, email=email, role="member")
    assert answer.status_code == 303
    assert email in [m["email"] for m in live.get(f"{here}/members")["items"]]
    unknown = chief.send(f"{form}/members", form_of=form, email="no@example.com", role="member")
    assert unknown.status_code == 404 and "no user with this address" in text_of(unknown)
    chief.send(f"{form}/members/remove", form_of=form, email=email)
    assert email not in [m["email"] for m in live.get(f"{here}/members")["items"]]

    made = chief.send(f"{form}/tokens", form_of=form, name="cluster", role="read", days="9")
    secret = re.search(r"gs_[\w-]{43}", chief.get(landed(made)).text)[0]
    assert live.call("GET", here, token=secret).status_code == 200
    token = live.get(f"{here}/tokens")["items"][0]["id"]
    chief.send(f"{form}/tokens/revoke", form_of=form, token=token)
    assert live.call("GET", here, token=secret).status_code == 401

    assert chief.send(f"{form}/suspend", form_of=form).status_code == 303
    assert live.get(here)["state"] == "suspended"
    assert "Suspended" in text_of(chief.get(here))
    assert chief.send(f"{here}/sync", form_of=form).status_code == 409
    assert chief.send(f"{form}/resume", form_of=form).status_code == 303
    wrong = chief.send(f"{form}/disconnect", form_of=form, identity="x")
    assert wrong.status_code == 400 and live.get(here)["state"] == "active"
    right = {"identity": general["identity"].upper()}
    assert chief.send(f"{form}/disconnect", form_of=form, **right).status_code == 303
    assert live.get(here)["state"] == "disconnected"
    assert chief.get(f"{here}/versions/{published.good}").status_code == 200
    assert chief.send(f"{form}/delete", form_of=form, **right).status_code == 303
    assert live.call("GET", here).status_code == 404


def test_a_connected_workspace_explains_its_webhook(live, chief):
    connect = {"clone_url": "http://127.0.0.1:9/acme/rollouts.git"}
    made = live.post(
        "/workspaces", {"name": f"GitHub {live._count}", "provider": "github", "connect": connect}
    )
    here = f"/workspaces/{made['id']}"
    form = f"{here}/settings"
    said = text_of(chief.get(form))
    assert made["webhook"]["url"] in said and "application/json" in said
    assert made["webhook"]["secret"] not in said
    rotated = chief.send(f"{form}/rotate", form_of=form, overlap="0")
    shown = chief.get(landed(rotated)).text
    secret = re.search(r'id="new-secret"[^>]*>([0-9a-f]{64})<', shown)[1]
    assert secret != made["webhook"]["secret"]
    tried = text_of(chief.send(f"{form}/test", form_of=form))
    assert "Failed" in tried and "GITSYNC_ALLOWED_HOSTS" in tried
    given = {"kind": "token", "secret": "hush-hush-123", "username": "", "known_hosts": ""}
    assert chief.send(f"{form}/credential", form_of=form, **given).status_code == 303
    assert "hush-hush" not in chief.get(form).text
    newest = live.get(f"{here}/syncs")["items"][0]["id"]
    live.get(f"{here}/syncs/{newest}?wait=30")
    assert "The last look failed." in text_of(chief.get(here))


def test_own_tokens_are_made_and_revoked(live):
    with enter(live) as browser:
        made = browser.send("/account/tokens", form_of="/account", name="laptop", days="30")
        secret = re.search(r"gs_[\w-]{43}", browser.get(landed(made)).text)[0]
        token = live.get("/whoami", token=secret)["token"]
        assert token["name"] == "laptop"
        browser.send("/account/tokens/revoke", form_of="/account", token=token["id"])
        assert live.call("GET", "/whoami", token=secret).status_code == 401
        bad = browser.send("/account/tokens", form_of="/account", name="x", days="-1")
        assert bad.status_code == 400


def test_the_theme_is_remembered(live, chief):
    answer = chief.http.post("/theme", data={"theme": "dark", "next": "/account"})
    assert answer.status_code == 303 and answer.headers["location"] == "/account"
    assert 'data-theme="dark"' in chief.get("/account").text
    assert chief.http.post("/theme", data={"next": "//evil.example"}).headers["location"] == "/"
    chief.http.post("/theme", data={"theme": "auto", "next": "/"})
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert chief.http.post("/theme", headers=foreign).status_code == 403


def test_what_is_not_there_is_a_page_too(chief, published):
    for path in ("/nowhere", "/workspaces/ws_nothing", "/theme"):
        answer = chief.get(path)
        assert answer.status_code == 404 and "text/html" in answer.headers["content-type"], path
        assert "To the workspaces" in text_of(answer)
    malformed = chief.get(f"/workspaces/{published.workspace['id']}/commits/zz")
    assert malformed.status_code == 404 and "<h1>" in malformed.text
    assert chief.http.get("/nowhere", headers={"Accept": "*/*"}).json()["code"] == "NOT_FOUND"


def test_a_database_that_is_away_is_told_in_a_page(live, chief, published, monkeypatch):
    from gitsync.store import DatabaseFailed, glance

    def fail(*args, **more):
        raise DatabaseFailed("SELECT 1", None, Exception("gone"))

    monkeypatch.setattr(glance, "search_workspaces", fail)
    answer = chief.get("/workspaces")
    assert answer.status_code == 503 and "Load the page again" in text_of(answer)
    assert "SELECT" not in answer.text


def test_what_nobody_expected_is_told_in_a_page(live, chief, monkeypatch, caplog):
    from gitsync.store import glance

    def fail(*args, **more):
        raise RuntimeError("of no concern to readers")

    monkeypatch.setattr(glance, "search_workspaces", fail)
    answer = chief.get("/workspaces")
    assert answer.status_code == 500 and "This page could not be made" in text_of(answer)
    assert "Load the page again" not in answer.text and "Sign out" in answer.text
    assert "no concern" not in answer.text and "no concern" in caplog.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    program = chief.http.get("/workspaces", headers={"Accept": "application/json"})
    assert program.status_code == 500 and program.json()["code"] == "INTERNAL"


def test_a_remote_that_is_away_needs_attention(tmp_path):
    port = 9  # nobody listens: the look is tried again and again
    with (
        live_server(tmp_path, allowed_hosts=(f"127.0.0.1:{port}",)) as away,
        enter(away) as chief,
    ):
        connect = {"clone_url": f"http://127.0.0.1:{port}/acme/rollouts.git"}
        made = away.post("/workspaces", {"name": "Away", "provider": "generic", "connect": connect})
        end = time.monotonic() + 10
        while "Cannot sync" not in (said := text_of(chief.get("/workspaces"))):
            assert time.monotonic() < end, said
            time.sleep(0.05)
        assert "Needs attention" in said
        assert "next try" in text_of(chief.get(f"/workspaces/{made['id']}"))
        assert "1 failure" in text_of(chief.get("/admin"))


def test_what_is_stuck_is_told(tmp_path, monkeypatch):
    """A remote that never answers holds the only worker; the next workspace waits behind it."""
    for module in (workspaces_page, admin_page):
        monkeypatch.setattr(module, "STUCK_AFTER", timedelta(seconds=0.3))
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        live_server(
            tmp_path, allowed_hosts=(f"127.0.0.1:{silent.getsockname()[1]}",), concurrent_syncs=1
        ) as away,
        enter(away) as chief,
    ):
        for name in ("Silent", "Behind it"):
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/acme/{name[:3]}.git"
            body = {"name": name, "provider": "generic", "connect": {"clone_url": url}}
            away.post("/workspaces", body)
        end = time.monotonic() + 10
        while "waits for a worker" not in (said := text_of(chief.get("/admin"))):
            assert time.monotonic() < end, said
            time.sleep(0.05)
        assert "1 workspace waits for a worker" in said and "nothing is lost" in said
        assert re.search(r"Silent Syncing .* Behind it Stuck ", said), said
        assert "Needs attention" in (said := text_of(chief.get("/workspaces")))
        assert re.search(r"Behind it \S+ Stuck since ", said), said
        silent.close()  # or the server would wait for it when it stops


def test_empty_states_teach_the_next_step(live):
    live._count += 1
    with enter(live, f"alone-{live._count}@example.com", is_admin=False) as alone:
        said = text_of(alone.get("/workspaces"))
        assert "Make your first workspace" in said
        assert f"gitsync login --server {live.url}" in said
    workspace = live.create()
    with enter(live) as chief:
        here = f"/workspaces/{workspace['id']}"
        assert f"gitsync clone {workspace['identity']}" in text_of(chief.get(here))
        for page in ("", "/rollouts"):
            empty = chief.get(here + page).text
            assert f'<a class="button primary" href="{here}/templates">Choose a template' in empty
            assert "<span>Updates off</span>" in empty and "Not live" not in empty
        for page in ("rollouts", "versions", "syncs", "deliveries"):
            assert chief.get(f"{here}/{page}").status_code == 200


def test_commands_on_pages_exist():
    """Each `gitsync …` that a page names is a command of the program."""
    from pathlib import Path

    from typer.main import get_command

    from gitsync.web.pages import render

    text = "".join(
        path.read_text()
        for path in Path(render.__file__).parent.rglob("*")
        if path.suffix in (".html", ".py")
    )
    named = set(re.findall(r'["`]gitsync ((?:[a-z-]+ ?)+)', text))
    assert len(named) > 8
    for words in named:
        command = get_command(cli)
        for word in words.split():
            if not hasattr(command, "get_command"):
                break
            command = command.get_command(None, word)
            assert command is not None, words


def test_a_version_names_the_runs_that_use_it(live, chief):
    team = make_team(live)
    run = team.submit()
    said = text_of(chief.get(f"{team.path}/versions/{team.sha}"))
    assert "Used by" in said and run["name"] in said
    team.stop_all()


# -- how many statements a page costs ---------------------------------------------------------


@pytest.mark.slow
def test_the_number_of_statements_does_not_grow(live, chief):
    small, large = publish_two(live), publish_two(live)
    names = [f"r{n}" for n in range(15)]
    for n in range(8):
        files = workspace_files(**{name: GOOD_MAIN for name in names}) if not n else {}
        sha = large.checkout.commit({**files, "n.md": str(n)}, f"More {n}")
        large.checkout.push("-q", "origin", "main")
        live.status(large.workspace, sha)
    for _ in range(6):
        live.create()
    costs = []
    for one in (small, large):
        here = {**pages_of(one)}
        cost = {}
        for name, path in here.items():
            chief.get(path)  # the first look may note that the session was used
            with counted() as statements:
                assert chief.get(path).status_code == 200
            selects = [s for s in statements if s.lstrip().upper().startswith("SELECT")]
            cost[name] = len(selects)
        costs.append(cost)
    assert costs[0] == costs[1]
    assert max(costs[0].values()) <= 24, costs[0]


# -- small things -----------------------------------------------------------------------------


def test_times_and_sizes_read_well():
    from datetime import UTC, datetime, timedelta

    now = datetime(2026, 8, 1, tzinfo=UTC)
    said = [ago(now - timedelta(seconds=s), now) for s in (0, 59, 60, 7200, 86400 * 3, 86400 * 400)]
    assert said == ["just now", "59 s ago", "1 min ago", "2 h ago", "3 d ago", "1 y ago"]
    assert ago(now + timedelta(seconds=90), now) == "in 1 min"
    assert [milliseconds(v) for v in (None, 0.31, 9.99, 1400, 61_000)] == [
        "–", "0.3 ms", "10 ms", "1.4 s", "1 min",
    ]  # fmt: skip
    assert [size(v) for v in (None, 0, 999, 1500, 2_000_000)] == [
        "–", "0 B", "999 B", "1.5 kB", "2.0 MB",
    ]  # fmt: skip
