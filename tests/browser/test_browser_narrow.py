"""What long names, wide READMEs and buttons in tables do to a narrow window."""

from __future__ import annotations

import pytest

from tests.browser.conftest import person, window
from tests.live import GOOD_MAIN, git, workspace_files

NARROW = {"viewport": {"width": 375, "height": 700}}
README = (
    "# Alpha\n\n| model | reward | " + "w" * 90 + " |\n|---|--:|---|\n| small | 0.5 | x |\n\n"
    "```python\n" + "x = 1  # " * 40 + "\n```\n"
)


@pytest.fixture(scope="module")
def wide(live) -> tuple[str, str]:
    """A workspace where nothing is short."""
    workspace = live.create("<b>Wide</b> " + "W" * 120)
    checkout = live.checkout(workspace)
    files = {**workspace_files(alpha=GOOD_MAIN), "rollouts/alpha/README.md": README}
    checkout.commit(files, "First")
    checkout.commit({"n.md": "1"}, "A subject that goes on " * 9)
    git(checkout.path, "commit", "-q", "--amend", "--no-edit", f"--author={'N' * 90} <n@e.com>")
    sha = checkout.head()
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, sha)["state"] == "published"
    return f"/workspaces/{workspace['id']}", sha


def seen(visit, what: str, least: int) -> None:
    """All of these lie within the window's width, not in a part that is scrolled to."""
    found = visit.page.locator(what)
    assert found.count() >= least, what
    for place in found.all():
        box = place.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 375, (what, box)


@pytest.mark.slow
def test_browser_long_names_and_buttons_fit_375_pixels(chromium, live, wide):
    here, sha = wide
    email, link = person(live, name="Robin-With-A-Long-Name", is_admin=True)
    with window(chromium, live, **NARROW) as visit:
        visit.sign_in(link)
        visit.go("/account")
        visit.page.get_by_label("Name").fill("laptop " * 20)
        visit.page.get_by_role("button", name="Make a token").click()
        pages = {
            "account": "/account",
            "overview": here,
            "deliveries": f"{here}/deliveries",
            "settings": f"{here}/settings",
            "version": f"{here}/versions/{sha}",
            "rollout": f"{here}/rollouts/alpha",
            "admin": "/admin",
            "trace": f"{here}/commits/{sha}",
        }
        for name, path in pages.items():
            visit.go(path)
            width = visit.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 375, (name, width)
            if name == "deliveries":
                seen(visit, "td button", 1)
            elif name == "version":
                seen(visit, "td a[download]", 1)
            elif name == "account":
                seen(visit, "td button", 1)
            visit.shoot(f"wide-{name}-narrow")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_browser_a_readme_with_tables_and_code_is_accessible(chromium, live, wide, scheme):
    link = person(live, name="Vic", is_admin=True)[1]
    with window(chromium, live, color_scheme=scheme, **NARROW) as visit:
        visit.sign_in(link)
        visit.go(f"{wide[0]}/rollouts/alpha")
        assert visit.page.locator(".readme table").count() == 1
        assert visit.serious() == []
        visit.go("/account")
        muted, shown = visit.page.evaluate(
            """() => [getComputedStyle(document.querySelector(".muted")).color,
                      getComputedStyle(document.querySelector("#name"), "::placeholder").color]"""
        )
        assert muted == shown
