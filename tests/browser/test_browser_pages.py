"""Every page in a real browser: accessible, narrow, dark, without script, true to its policy."""

from __future__ import annotations

import pytest

from tests.browser.conftest import AXE, person, window
from tests.web.dashboard import pages_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chief(live):
    """The address and a signed-in state are made once, then reused."""
    return person(live, name="Sam", is_admin=True)[1]


@pytest.fixture(scope="module")
def state(chromium, live, chief):
    """Cookies of a signed-in administrator."""
    with window(chromium, live) as visit:
        visit.sign_in(chief)
        return visit.page.context.storage_state()


def everything(published) -> dict[str, str]:
    here = f"/workspaces/{published.workspace['id']}"
    return {
        **pages_of(published),
        "good": f"{here}/commits/{published.good}",
        "unknown": f"{here}/commits/{'0' * 40}",
    }


OUTSIDE = {"signin": "/signin", "nowhere": "/nowhere"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_axe_finds_nothing_serious(chromium, live, published, state, scheme):
    found = []
    with window(chromium, live, storage_state=state, color_scheme=scheme) as visit:
        visit.expected = ("404",)
        for name, path in {**everything(published), **OUTSIDE}.items():
            visit.go(path)
            visit.shoot(f"{name}-{scheme}")
            found += [f"{name}: {text}" for text in visit.serious()]
    assert not found, "\n".join(found)


def test_browser_signed_out_pages_are_accessible(chromium, live):
    link = person(live, name="Pat")[1]
    with window(chromium, live) as visit:
        visit.expected = ("404",)
        for path in ("/signin", link.removeprefix(live.url)):
            visit.go(path)
            visit.page.evaluate(AXE)
            result = visit.page.evaluate("axe.run(document)")
            assert [v["id"] for v in result["violations"] if v["impact"] != "minor"] == [], path


def test_browser_nothing_is_wider_than_375_pixels(chromium, live, published, state):
    options = {"viewport": {"width": 375, "height": 700}, "storage_state": state}
    with window(chromium, live, **options) as visit:
        visit.expected = ("404",)
        for name, path in {**everything(published), **OUTSIDE}.items():
            visit.go(path)
            wide = visit.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 375, name
            visit.shoot(f"{name}-narrow")


def test_browser_dark_mode_follows_the_system_and_the_switch(chromium, live, published, state):
    def ground(visit) -> str:
        return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    grounds = {}
    for scheme in ("light", "dark"):
        with window(chromium, live, storage_state=state, color_scheme=scheme) as visit:
            visit.go("/workspaces")
            grounds[scheme] = ground(visit)
    assert grounds["light"] != grounds["dark"]
    with window(chromium, live, storage_state=state, color_scheme="light") as visit:
        visit.go("/workspaces")
        visit.page.get_by_role("button", name="Theme: auto").click()
        visit.page.get_by_role("button", name="Theme: dark").wait_for()
        assert ground(visit) == grounds["dark"]
        visit.go(f"/workspaces/{published.workspace['id']}")
        assert ground(visit) == grounds["dark"]
        visit.page.get_by_role("button", name="Theme: dark").click()
        visit.page.get_by_role("button", name="Theme: light").wait_for()
        assert ground(visit) == grounds["light"]


def test_browser_without_script_everything_works(chromium, live, published, chief):
    link = person(live, name="Kit", is_admin=True)[1]
    with window(chromium, live, java_script_enabled=False) as visit:
        visit.sign_in(link)
        for path in pages_of(published).values():
            visit.go(path)
            assert visit.page.locator("h1").count() == 1
            assert visit.page.locator("button[data-copy]:visible").count() == 0
        visit.go(f"/workspaces/{published.workspace['id']}")
        visit.says("Updates off")
        visit.page.get_by_role("button", name="Sync now").click()
        visit.says("A sync was asked for.")
        visit.page.get_by_role("link", name="Settings").click()
        visit.page.locator("#name").fill("Chess team")
        visit.page.get_by_role("button", name="Save").click()
        visit.says("Saved.")
        visit.page.get_by_role("button", name="Theme:").click()
        visit.page.locator("summary").filter(has_text="Kit").click()
        visit.page.get_by_role("button", name="Sign out").click()
        visit.page.wait_for_url("**/signin**")


def test_browser_the_keyboard_reaches_everything(chromium, live, published, state):
    with window(chromium, live, storage_state=state) as visit:
        visit.go(f"/workspaces/{published.workspace['id']}")
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen = set()
        for _ in range(40):
            visit.page.keyboard.press("Tab")
            seen.add(
                visit.page.evaluate(
                    "(document.activeElement.innerText || '').trim().split('\\n')[0]"
                )
            )
            outline = visit.page.evaluate(
                "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
            )
            assert outline or visit.page.evaluate("document.activeElement === document.body")
        assert {"Workspaces", "Sam", "Sync now", "Overview", "Settings", "beta"} <= seen


def test_browser_copies_a_command(chromium, live, published, state):
    with window(chromium, live, storage_state=state) as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visit.go(f"/workspaces/{published.workspace['id']}")
        visit.page.locator('[data-copy="c-clone"]').click()
        visit.says("Copied")
        text = visit.page.evaluate("navigator.clipboard.readText()")
        assert text.startswith("gitsync clone chess--local/rollouts")


def test_browser_live_updates_move_nothing(chromium, live, published, state):
    """A sync that finds nothing new changes times and tags, not the place of anything."""
    with window(chromium, live, storage_state=state) as visit:
        here = f"/workspaces/{published.workspace['id']}"
        visit.go(here)
        visit.is_live()
        visit.page.locator("details.menu summary").click()  # open, and it must stay so
        visit.page.evaluate(
            """() => { window.moved = 0; new PerformanceObserver((list) => {
                for (const entry of list.getEntries()) window.moved += entry.value;
              }).observe({type: "layout-shift", buffered: false}); }"""
        )
        before = visit.page.locator(".stats").bounding_box()
        for number in range(3):
            published.checkout.commit({"calm.md": str(number)}, f"Calm {number}")
            published.checkout.push("-q", "origin", "HEAD:main")
            visit.says(f"Calm {number}")
        assert visit.page.locator(".stats").bounding_box() == before
        assert visit.page.evaluate("window.moved") < 0.1
        assert visit.page.locator("details.menu").get_attribute("open") is not None
