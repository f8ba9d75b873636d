"""`/login/{code}`: what the one-time link of an administrator leads to.

The page asks before it uses the code up, since chat programs and mail scanners follow links; the
answer shows a fresh token once, and the command that stores it.
"""

from __future__ import annotations

from html import escape
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse

from gitsync.instance import Instance
from gitsync.records import User
from gitsync.store import people
from gitsync.web.auth import InstanceDep

router = APIRouter(include_in_schema=False)
Code = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · gitsync</title></head>
<body><main><h1>{title}</h1>{body}</main></body>
</html>
"""


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    text = _PAGE.format(title=escape(title), body=body)
    return HTMLResponse(text, status_code=status, headers=_HEADERS)


@router.get("/login/{code}")
def ask(code: Code) -> HTMLResponse:
    """Ask before the link is used up."""
    return _page(
        "Sign in",
        "<p>This link works once. Press the button to make a token for the command line.</p>"
        '<form method="post"><button type="submit">Make my token</button></form>',
    )


@router.post("/login/{code}")
def use(code: Code, instance: InstanceDep) -> HTMLResponse:
    """Use the link up; show the token this once."""
    found = _use(instance, code)
    if found is None:
        return _page(
            "This link cannot be used",
            "<p>It was used before, or it is older than 24 hours. An administrator makes a new one "
            "with <code>gitsync user link EMAIL</code>, the operator with "
            "<code>gitsync user reset EMAIL</code>.</p>",
            status=410,
        )
    user, secret = found
    return _page(
        f"Signed in as {user.name}",
        "<p>Your token, shown this once:</p>"
        f"<pre>{escape(secret)}</pre>"
        f"<p>Store it: <code>gitsync login --server {escape(instance.settings.url)}</code> and "
        "paste the token when it asks.</p>",
    )


def _use(instance: Instance, code: str) -> tuple[User, str] | None:
    now = instance.now()
    with instance.database.write() as db:
        user = people.use_login_link(db, code, now=now)
        if user is None:
            return None
        _, secret = people.add_token(db, name="sign-in link", user_id=user.id, now=now)
    return user, secret
