"""A secret that a form made, on the page after it: sealed in a cookie of the browser that asked.

Promise: in clear it stands in no address, no row and no log. It opens for one session and one page,
for five minutes: loading the page again neither loses it nor makes another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import Request
from fastapi.responses import RedirectResponse

from gitsync.errors import ConfigError
from gitsync.instance import Instance
from gitsync.web.session import Session, keep_cookie, read_cookie

SHOWN_FOR = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Handed:
    """A secret and what it is: `token` or `webhook`."""

    kind: str
    secret: str


def hand_over(
    request: Request, instance: Instance, viewer: Session, given: Handed, *, at: str, anchor: str
) -> RedirectResponse:
    """To the page at this path, which finds the secret by `handed`."""
    until = instance.now() + SHOWN_FOR
    text = json.dumps([given.kind, given.secret, until.isoformat()])
    answer = RedirectResponse(f"{at}#{anchor}", status_code=303)
    sealed = instance.sealer.seal(text, _place(viewer, at))
    keep_cookie(answer, instance, "handed", sealed, seconds=round(SHOWN_FOR.total_seconds()))
    return answer


def handed(request: Request, instance: Instance, viewer: Session, *, at: str) -> Handed | None:
    """What was handed over to the page at this path, None if nothing was or its time is up."""
    sealed = read_cookie(request, instance, "handed")
    if not sealed or len(sealed) > 4000:
        return None
    try:
        kind, secret, until = json.loads(instance.sealer.open(sealed, _place(viewer, at)))
    except (ValueError, ConfigError):  # of another page or session, or not ours at all
        return None
    return Handed(kind, secret) if datetime.fromisoformat(until) > instance.now() else None


def _place(viewer: Session, at: str) -> str:
    return f"handed/{viewer.id}/{at}"
