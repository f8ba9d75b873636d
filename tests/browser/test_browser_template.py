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


def test_browser_commits_what_was_typed_last(chromium, live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Tara", is_admin=True)
    with window(chromium, live) as tara:
        page = tara.page
        tara.sign_in(link)
        tara.go(f"/workspaces/{workspace['id']}/templates/minimal-local")
        tara.says("rollouts/minimal-local/main.py")
        # a value that cannot be: told by the server, beside the plan and below the field
        number = page.get_by_label("Concurrent rollouts")
        for wrong in ("99999", ""):
            number.fill(wrong)
            tara.says("This cannot be done.")
            page.locator("#p-max_concurrent[aria-invalid=true]").wait_for()
            assert "max_concurrent" in number.get_attribute("aria-describedby")
            assert page.locator("#wrong-p-max_concurrent").inner_text()
            number.fill("5")
            tara.says("max_concurrent = 5")
            assert number.get_attribute("aria-invalid") is None
            assert page.locator("#wrong-p-max_concurrent").inner_text() == ""
        assert tara.serious() == []
        # while a newer plan is on its way the older one cannot be committed
        page.get_by_label("Commit message").fill("As typed")
        page.get_by_label("Rollout's name").press_sequentially("typed-last")
        commit = page.get_by_role("button", name="Commit this")
        assert commit.is_disabled()
        commit.click()  # waits until it can be pressed
        tara.says("As typed")
        tara.says("Live on main.")
        tara.page.get_by_role("link", name="Rollouts", exact=True).click()
        tara.says("typed-last")


def test_browser_without_script_goes_on_from_a_refused_form(chromium, live):
    workspace = live.create()
    _, link = person(live, name="Nora", is_admin=True)
    options = {"java_script_enabled": False, "viewport": {"width": 375, "height": 700}}
    with window(chromium, live, **options) as nora:
        page, nora.expected = nora.page, ("status of 400",)
        nora.sign_in(link)
        nora.go(f"/workspaces/{workspace['id']}/templates/minimal-local")
        page.get_by_label("Concurrent rollouts").fill("7")
        page.get_by_label("Rollout's name").fill("No Name")
        page.get_by_role("button", name="Preview").click()
        nora.says("This cannot be done.")
        assert page.get_by_text("This cannot be done.").bounding_box()["y"] < 700
        page.get_by_label("Rollout's name").fill("good-name")
        page.get_by_role("button", name="Preview").click()
        nora.says("max_concurrent = 7")
        page.get_by_role("button", name="Theme:").click()
        assert page.url.endswith("/templates/minimal-local")


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
