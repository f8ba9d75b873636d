"""A real Chromium, pages that report every breach of their policy, and a server to look at.

Chromium comes from the system (`apt-get install chromium`); without it these tests are skipped,
which CI takes for a failure. Screenshots go to `screenshots/`, which Git ignores.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.live import Live, live_server
from tests.web.conftest import Published, publish_two

playwright_api = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]
AXE = (Path(__file__).parent / "axe/axe-4.14.1.min.js").read_text()
SCREENSHOTS = ROOT / "screenshots"
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
]
# collected before any script of the page runs
NOTE_BREACHES = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy breach: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


@pytest.fixture(scope="session")
def live(tmp_path_factory) -> Iterator[Live]:
    """A server of its own: its pages show what these tests did and nothing else."""
    with live_server(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="session")
def published(live) -> Published:
    """Two versions; in the second one `beta` does not run."""
    return publish_two(live, name="Chess team", identity="chess--local/rollouts")


@pytest.fixture(scope="package")
def chromium() -> Iterator[playwright_api.Browser]:
    """One browser for the tests of this folder; while it runs, `asyncio.run` is not to be had."""
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip("no chromium is installed (apt-get install chromium)")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Visit:
    """One person's browser window."""

    page: playwright_api.Page
    url: str
    problems: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def go(self, path: str) -> None:
        self.page.goto(self.url + path, wait_until="load")

    def sign_in(self, link: str) -> None:
        self.page.goto(link)
        self.page.get_by_role("button", name="Open the dashboard").click()
        self.page.wait_for_url("**/workspaces")

    def shoot(self, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def says(self, text: str, *, seconds: float = 15) -> None:
        """Until the page shows a text, without being loaded anew."""
        self.page.get_by_text(text).first.wait_for(timeout=seconds * 1000)

    def stands(self) -> bool:
        """True as long as the page was not loaded anew since `mark`."""
        return self.page.evaluate("window.marked === true")

    def until(self, expression: str, *, seconds: float = 15) -> None:
        """Until an expression is true; asked from here, since pages forbid `eval`."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, expression
            self.page.wait_for_timeout(20)

    def serious(self) -> list[str]:
        """What axe-core finds on the page, with everything on it open."""
        for details in self.page.locator("details").all():
            details.evaluate("node => { node.open = true }")
        self.page.evaluate(AXE)
        result = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{v['id']} {v['help']} {n['target']} {n.get('failureSummary', '')[:200]}"
            for v in result["violations"]
            if v["impact"] in ("serious", "critical", "moderate")
            for n in v["nodes"][:2]
        ]

    def mark(self) -> None:
        self.page.evaluate("window.marked = true")

    def is_live(self) -> None:
        self.page.locator('.feed[data-state="on"]').first.wait_for(timeout=10_000)


@contextmanager
def window(chromium, live: Live, **options) -> Iterator[Visit]:
    """A fresh browser window; fails if a page broke its policy or a script failed."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.add_init_script(NOTE_BREACHES)
    page = context.new_page()
    visit = Visit(page, live.url)

    def note(kind: str, text: str) -> None:
        if not any(word in text for word in visit.expected):
            visit.problems.append(f"{kind}: {text}")

    page.on("console", lambda m: note(m.type, m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: note("script", str(error)))
    page.set_default_timeout(15_000)
    try:
        yield visit
        assert visit.problems == []
    finally:
        context.close()


def person(live: Live, *, name: str = "Robin", is_admin: bool = False) -> tuple[str, str]:
    """Somebody new: their address and their sign-in link."""
    live._count += 1
    email = f"{name.lower()}-{live._count}@example.com"
    made = live.post("/users", {"email": email, "name": name, "is_admin": is_admin}, status=201)
    return email, made["login_url"]


def program_environment(home: Path, **more: str) -> dict[str, str]:
    """What the command line programs get."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GITSYNC_", "OSMOSIS_"))}
    return {
        **clean,
        "HOME": str(home),
        "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
        "NO_PROXY": "*",
        "no_proxy": "*",
        **more,
    }
