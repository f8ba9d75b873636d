"""The dashboard as tests visit it: who enters, which pages there are, what a person reads."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from html import unescape

import httpx
import sqlalchemy as sa

from tests.live import Live
from tests.web.browser import Browser

HOSTILE = "<img src=x onerror=alert(1)>\"'\u202e{{7*7}}"


def enter(live: Live, email: str | None = None, **more) -> Browser:
    """A browser in which a person is signed in; an administrator unless told otherwise."""
    live._count += 1
    email = email or f"page-{live._count}@example.com"
    user = live.post("/users", {"email": email, "is_admin": True, **more}, status=201)
    browser = Browser(live.url)
    browser.sign_in(user["login_url"])
    return browser


def pages_of(published) -> dict[str, str]:
    """Every page of a workspace by name."""
    here = f"/workspaces/{published.workspace['id']}"
    return {
        "workspaces": "/workspaces",
        "workspace": here,
        "rollouts": f"{here}/rollouts",
        "rollout": f"{here}/rollouts/beta",
        "versions": f"{here}/versions",
        "version": f"{here}/versions/{published.bad}",
        "diff": f"{here}/versions/{published.bad}/diff?from={published.good}",
        "trace": f"{here}/commits/{published.bad}",
        "syncs": f"{here}/syncs",
        "templates": f"{here}/templates",
        "starter": f"{here}/templates/minimal-local",
        "deliveries": f"{here}/deliveries",
        "settings": f"{here}/settings",
        "account": "/account",
        "admin": "/admin",
    }


def text_of(answer: httpx.Response) -> str:
    """What a person reads, one space between words."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def landed(answer: httpx.Response) -> str:
    """Where the answer to a form leads to."""
    assert answer.status_code == 303, text_of(answer)
    return answer.headers["location"].partition("#")[0]


@contextmanager
def counted():
    """Statements of requests: those in the threads that run endpoints."""
    found: list[str] = []

    def note(conn, cursor, statement, parameters, context, executemany):
        if threading.current_thread().name.startswith("AnyIO"):
            found.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", note)
