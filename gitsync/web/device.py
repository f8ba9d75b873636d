"""`/device`: a person looks at the code of a device, and lets it act as them, or not."""

from __future__ import annotations

import logging
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gitsync.errors import InvalidInput
from gitsync.records import DeviceLogin
from gitsync.store import devices
from gitsync.web import rates
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute
from gitsync.web.pages.render import page
from gitsync.web.rates import RatesDep
from gitsync.web.session import FormDep, Session, SessionDep

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)
_GONE = (
    "No device waits for this code. Codes work once and for 15 minutes; run `osmosis auth login` "
    "again, and compare the letters."
)


@router.get("/device")
def ask(
    request: Request, session: SessionDep, instance: InstanceDep, counted: RatesDep, code: str = ""
) -> Response:
    """Ask for the code, or show which device waits for an answer."""
    if not code.strip():
        return _page(request, session)
    counted.spend(rates.USER_CODE, "user code", session.user.id)
    user_code = devices.clean_user_code(code)
    login = None
    if user_code is not None:
        with instance.database.read() as db:
            login = devices.find_waiting(db, user_code, now=instance.now())
    if login is None:
        return _page(request, session, problem=_GONE, status=404)
    until = instance.now() + timedelta(days=instance.settings.cli_token_days)
    return _page(request, session, login=login, user_code=user_code, until=until)


def _page(
    request: Request,
    session: Session,
    *,
    login: DeviceLogin | None = None,
    status: int = 200,
    **values: object,
) -> Response:
    given = {"problem": "", "answer": "", "user_code": "", "until": None, **values}
    return page(request, "device.html", viewer=session, status=status, login=login, **given)


@router.post("/device")
def decide(request: Request, form: FormDep, instance: InstanceDep, counted: RatesDep) -> Response:
    """Approve or deny, once."""
    session, answer = form.session, form.text("answer")
    if answer not in ("approve", "deny"):
        raise InvalidInput("Approve the device, or deny it.", field="answer")
    counted.spend(rates.USER_CODE, "user code", session.user.id)
    user_code = devices.clean_user_code(form.text("code"))
    is_done = False
    if user_code is not None:
        with instance.database.write() as db:
            is_done = devices.decide(
                db,
                user_code,
                user_id=session.user.id,
                is_approved=answer == "approve",
                now=instance.now(),
            )
    if not is_done:
        return _page(request, session, problem=_GONE, status=404)
    log.info("device login user=%s answer=%s", session.user.id, answer)
    return _page(request, session, answer=answer)
