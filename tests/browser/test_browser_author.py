"""The author's story: sign in, clone, push what is broken, read why, push the fix, see it live."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import person, program_environment, window
from tests.live import GOOD_MAIN, NO_GRADER, workspace_files

pytestmark = pytest.mark.slow


def test_browser_author_story(chromium, live, tmp_path):
    _, link = person(live)
    with window(chromium, live) as author:
        author.sign_in(link)
        author.says("Make your first workspace")
        author.shoot("first-steps")

        author.go("/account")
        author.page.get_by_label("Name").fill("laptop")
        author.page.get_by_role("button", name="Make a token").click()
        token = author.page.locator("#new-token").inner_text().strip()
        environment = program_environment(
            tmp_path, GITSYNC_SERVER=live.url, GITSYNC_TOKEN=token, **live_git()
        )

        def run(*args: str, cwd: Path = tmp_path) -> str:
            done = subprocess.run(
                args, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
            return done.stdout + done.stderr

        author.go("/workspaces")
        author.is_live()
        author.mark()
        run("gitsync", "workspace", "create", "Story", "--identity", "story--local/rollouts")
        author.says("story--local/rollouts")
        assert author.stands()

        author.page.get_by_role("link", name="Story").first.click()
        author.says("Nothing is published yet")
        command = author.page.locator("#c-clone").inner_text().strip()
        run(*command.split())
        clone = tmp_path / "rollouts"

        def push(files: dict[str, str], message: str) -> str:
            for name, content in files.items():
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                (clone / name).write_text(content)
            run("git", "add", "--all", cwd=clone)
            run("git", "commit", "-q", "-m", message, cwd=clone)
            return run("git", "push", "-u", "origin", "HEAD:main", cwd=clone)

        author.is_live()
        author.mark()
        said = push(workspace_files(chess=NO_GRADER), "Add chess")
        assert "published-with-errors" in said
        author.says("0 of 1 runnable", seconds=5)
        author.says("Add chess")
        assert author.stands()
        author.shoot("broken")

        author.page.locator("#h-syncs").locator("xpath=../..").get_by_role("link").filter(
            has_text=run("git", "rev-parse", "--short=7", "HEAD", cwd=clone).strip()
        ).first.click()
        author.says("1 thing to mend")
        author.says("no-grader")
        author.says("Define one Grader class or import it by name.")
        author.says("from osmosis_ai.rollout import AgentWorkflow")
        author.shoot("finding")

        author.is_live()
        author.mark()
        push({"rollouts/chess/main.py": GOOD_MAIN}, "Give chess its grader")
        author.says("Not live: replaced by a newer commit.", seconds=5)
        assert author.stands()
        author.page.get_by_role("link", name="Overview").click()
        author.says("1 of 1 runnable")
        author.says("Give chess its grader")
        author.is_live()
        author.shoot("mended")


def live_git() -> dict[str, str]:
    """Who commits."""
    return {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Robin"), ("EMAIL", "robin@example.com"))
    }


def test_browser_twenty_pushes_while_the_connection_is_cut(chromium, live):
    """Every push arrives, in order, however often the network goes away."""
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Kim", is_admin=True)
    with window(chromium, live) as kim:
        kim.expected = ("net::ERR", "Failed to fetch")
        kim.sign_in(link)
        kim.go(f"/workspaces/{workspace['id']}/versions")
        kim.is_live()
        kim.mark()
        kim.page.evaluate(
            """() => { window.heard = []; document.addEventListener("gitsync:event", (event) => {
                if (event.detail.type === "version.published")
                  window.heard.push(event.detail.data.commit_sha);
            }); }"""
        )
        shas = []
        for number in range(20):
            shas.append(checkout.commit({"n.md": str(number)}, f"Number {number}"))
            if number % 5 == 2:
                kim.page.context.set_offline(True)
            checkout.push("-q", "origin", "main")
            if number % 5 == 3:
                kim.page.context.set_offline(False)
        kim.page.context.set_offline(False)
        kim.until("window.heard.length >= 20", seconds=20)
        assert kim.page.evaluate("window.heard") == shas
        kim.until("document.querySelectorAll('tbody tr').length === 21")
        shown = kim.page.locator("tbody tr td:first-child a").all_inner_texts()
        assert shown == [s[:7] for s in [*reversed(shas), sha]]
        assert kim.stands()


def test_browser_reset_reloads_once(chromium, live, published):
    _, link = person(live, name="Lou", is_admin=True)
    with window(chromium, live) as lou:
        lou.sign_in(link)
        loads: list[str] = []
        lou.page.on("load", lambda page: loads.append(page.url))
        # a page that knows an id from the future, as after a restored backup
        lou.page.route(
            "**/workspaces/ws_*/versions",
            lambda route: route.fulfill(
                body=route.fetch().text().replace('data-last="', 'data-last="9999'),
                content_type="text/html",
            ),
            times=1,
        )
        lou.go(f"/workspaces/{published.workspace['id']}/versions")
        for _ in range(100):
            if len(loads) == 2:
                break
            lou.page.wait_for_timeout(100)
        lou.is_live()
        lou.page.wait_for_timeout(1000)
        assert len(loads) == 2


def test_browser_a_push_shows_within_half_a_second(chromium, live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Noa", is_admin=True)
    with window(chromium, live) as noa:
        noa.sign_in(link)
        noa.go(f"/workspaces/{workspace['id']}")
        noa.is_live()
        noa.page.evaluate(
            """() => { new MutationObserver(() => {
                const found = document.querySelector(".stat .sha")?.textContent;
                if (found && found !== window.shown) {
                  window.shown = found; window.at = Date.now();
                }
              }).observe(document.body, {subtree: true, childList: true, characterData: true});
            }"""
        )
        took = [1.0]
        while min(took) >= 0.5 and len(took) < 8:  # the machine may be busy with other things
            sha = checkout.commit({"n.md": str(len(took))})
            checkout.push("-q", "origin", "main")
            noa.until(f"window.shown === '{sha[:7]}'", seconds=5)
            shown = noa.page.evaluate("window.at") / 1000
            found = live.get(f"/workspaces/{workspace['id']}/versions/{sha}")["published_at"]
            took.append(shown - _seconds(found))
        assert min(took) < 0.5, took


def _seconds(moment: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(moment).timestamp()
