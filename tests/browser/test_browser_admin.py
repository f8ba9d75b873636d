"""The administrator's story, and a device that is signed in by a browser."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.browser.conftest import person, program_environment, window
from tests.live import workspace_files

pytestmark = pytest.mark.slow


def test_browser_admin_story(chromium, live):
    """See what is stuck, connect, rotate, add a member, pause, resume, end."""
    email, _ = person(live, name="Mika")
    _, link = person(live, name="Ada", is_admin=True)
    connect = {"clone_url": "http://127.0.0.1:9/acme/rollouts.git"}
    made = live.post("/workspaces", {"name": "Acme", "provider": "github", "connect": connect})
    with window(chromium, live) as ada:
        ada.expected = ("400",)
        ada.sign_in(link)
        ada.says("Cannot sync")
        ada.page.get_by_role("link", name="Admin", exact=True).click()
        for title in ("Queue", "Limits", "Mean time by step"):
            ada.page.get_by_role("heading", name=title).wait_for()
        ada.shoot("admin")

        ada.go(f"/workspaces/{made['id']}")
        ada.says("The last look failed.")
        ada.page.get_by_role("link", name="Test the connection").click()
        ada.page.get_by_role("button", name="Test the connection").click()
        ada.says("GITSYNC_ALLOWED_HOSTS")
        ada.page.get_by_role("button", name="Make a new secret").click()
        secret = ada.page.locator("#new-secret").inner_text().strip()
        assert re.fullmatch("[0-9a-f]{64}", secret)
        ada.shoot("settings-secret")

        ada.go(f"/workspaces/{made['id']}/settings")
        ada.page.get_by_label("E-mail of a person").fill(email)
        ada.page.get_by_label("Role").select_option("admin")
        ada.page.get_by_role("button", name="Set the role").click()
        ada.says("The member's role is set.")
        ada.says(email)

        ada.page.get_by_role("button", name="Suspend").click()
        ada.says("The workspace is suspended.")
        ada.page.get_by_role("button", name="Resume").click()
        ada.says("The workspace is followed again.")
        ada.page.get_by_label(f"Type {made['identity']}").fill("something else")
        ada.page.get_by_role("button", name="Disconnect").click()
        ada.says("nothing was changed")
        ada.page.get_by_label(f"Type {made['identity']}").fill(made["identity"])
        ada.page.get_by_role("button", name="Disconnect").click()
        ada.says("The workspace is disconnected.")
        ada.page.get_by_label(f"Type {made['identity']}").fill(made["identity"])
        ada.page.get_by_role("button", name="Delete for good").click()
        ada.says("The workspace and its versions were deleted.")


def test_browser_redelivers(chromium, live):
    workspace = live.create()
    checkout = live.checkout(workspace)
    sha = checkout.commit(workspace_files())
    checkout.push("-q", "origin", "main")
    live.status(workspace, sha)
    _, link = person(live, name="Ray", is_admin=True)
    with window(chromium, live) as ray:
        ray.sign_in(link)
        ray.go(f"/workspaces/{workspace['id']}/deliveries")
        ray.page.get_by_role("button", name="Redeliver").first.click()
        ray.says("The delivery was taken again.")
        ray.says("again of")


def test_browser_approves_the_login_of_the_real_client(chromium, live, tmp_path):
    _, link = person(live, name="Dee", is_admin=True)
    environment = program_environment(
        tmp_path, OSMOSIS_PLATFORM_URL=live.url, XDG_CONFIG_HOME=str(tmp_path / "config")
    )
    asking = subprocess.Popen(
        ["osmosis", "auth", "login"],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = ""
        while "/device" not in said:
            line = asking.stdout.readline()
            assert line, said
            said += line
        with window(chromium, live) as dee:
            dee.sign_in(link)
            dee.page.goto(re.search(r"http://\S+/device\S*", said)[0])
            code = re.search(r"\b[A-Z0-9]{4}-[A-Z0-9]{4}\b", said)
            field = dee.page.locator('input[name="code"]:visible')
            if field.count():
                field.fill(code[0])
                dee.page.locator("main button").first.click()
            dee.shoot("device")
            dee.page.get_by_role("button", name="Approve").click()
            dee.page.wait_for_load_state()
            dee.shoot("device-done")
        rest, _ = asking.communicate(timeout=60)
        assert asking.returncode == 0, said + rest
    finally:
        if asking.poll() is None:
            asking.kill()
            asking.communicate()
