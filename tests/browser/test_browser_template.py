"""The template story: choose a starter, see the plan change while typing, commit, see it live."""

from __future__ import annotations

import pytest

from tests.browser.conftest import person, window
from tests.live import workspace_files

pytestmark = pytest.mark.slow


def test_browser_template_story(chromium, live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Tess", is_admin=True)
    with window(chromium, live) as tess:
        tess.sign_in(link)
        tess.go(f"/workspaces/{workspace['id']}/templates")
        tess.page.get_by_role("link", name="minimal-local").click()
        tess.says("rollouts/minimal-local/main.py")  # the preview comes by itself
        tess.mark()
        tess.page.get_by_label("Rollout's name").fill("sums-two")
        tess.page.get_by_label("Concurrent rollouts").fill("7")
        tess.page.get_by_label("Concurrent rollouts").press("Tab")
        tess.says("rollouts/sums-two/main.py")
        tess.says("max_concurrent = 7")
        tess.says("The check passes")
        assert tess.stands()
        assert tess.page.get_by_label("Rollout's name").input_value() == "sums-two"
        tess.shoot("template-plan")
        tess.page.get_by_label("Commit message").fill("Add a second rollout")
        tess.page.get_by_role("button", name="Commit this").click()
        tess.says("Add a second rollout")
        tess.says("Live on main.")
        tess.page.get_by_role("link", name="Overview").click()
        tess.says("2 of 2 runnable")


def test_browser_skill_is_installed(chromium, live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Uma", is_admin=True)
    with window(chromium, live, java_script_enabled=False) as uma:
        uma.sign_in(link)
        uma.go(f"/workspaces/{workspace['id']}/templates")
        uma.page.get_by_role("button", name="Install plan-eval").click()
        uma.says(".agents/skills/plan-eval/SKILL.md")
        uma.page.get_by_role("button", name="Commit this").click()
        uma.page.wait_for_url("**/commits/*")
        live.status(workspace, uma.page.url.rpartition("/")[2])
        uma.page.get_by_role("link", name="Templates").click()
        uma.says("Installed")
