"""Signing in and out: by the one-time link of an administrator, or by e-mail address and password.

The page of a link asks before it uses the link up, since chat programs and mail scanners follow
links. It then gives a session for this browser, or a token for the command line, shown once.
"""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import FormData

from gitsync.errors import LimitExceeded
from gitsync.instance import Instance
from gitsync.records import User
from gitsync.store import people
from gitsync.web import rates
from gitsync.web.auth import InstanceDep
from gitsync.web.pages.access import PageRoute
from gitsync.web.pages.render import page
from gitsync.web.rates import Rates, RatesDep, place_of
from gitsync.web.session import (
    FormDep,
    MaybeSession,
    Session,
    Visitor,
    begin_session,
    check_csrf,
    csrf_field,
    finish_session,
    read_form,
    safe_next,
    visitor_of,
)

log = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False, route_class=PageRoute)
Code = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]
OpenForm = Annotated[FormData, Depends(read_form)]
Next = Annotated[str, Query(alias="next", max_length=2000)]

# the address of a sign-in link is a secret: it must not travel on as a referrer
_NO_REFERRER = {"Referrer-Policy": "no-referrer"}


# -- by password ----------------------------------------------------------------------------------


@router.get("/signin")
def ask(request: Request, session: MaybeSession, wanted: Next = "/") -> Response:
    """The form, or straight on for those who are signed in."""
    if session is not None:
        return RedirectResponse(safe_next(wanted), status_code=303)
    return _form(request, wanted)


def _form(
    request: Request, wanted: str, *, email: str = "", problem: str = "", status: int = 200
) -> Response:
    visitor = visitor_of(request)
    answer = page(
        request,
        "signin.html",
        status=status,
        csrf_field=csrf_field(visitor.csrf),
        wanted=safe_next(wanted),
        email=email,
        problem=problem,
    )
    visitor.keep(request, answer)
    return answer


@router.post("/signin")
def sign_in(request: Request, form: OpenForm, instance: InstanceDep, counted: RatesDep) -> Response:
    """Check address and password; each failure counts."""
    check_csrf(request, form, visitor_of(request).csrf)
    email, password, wanted = (_text(form, name) for name in ("email", "password", "next"))
    try:
        user = authenticate(request, instance, counted, email, password)
    except LimitExceeded as e:
        answer = _form(request, wanted, email=email, problem=e.message, status=429)
        answer.headers["Retry-After"] = str(e.details["retry_after"])
        return answer
    if user is None:
        text = "The e-mail address or the password is wrong, or this person has no password yet."
        return _form(request, wanted, email=email, problem=text, status=403)
    answer = RedirectResponse(safe_next(wanted), status_code=303)
    begin_session(request, answer, user, how="password")
    return answer


def _text(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value[:2000] if isinstance(value, str) else ""


def authenticate(
    request: Request, instance: Instance, counted: Rates, email: str, password: str
) -> User | None:
    """The person, if the password fits; `LimitExceeded` after too many failures."""
    address, place = email.strip().lower()[:320], place_of(request)
    limits = (
        (rates.SIGN_IN_BY_PERSON, ("sign-in", place, address)),
        (rates.SIGN_IN_BY_PLACE, ("sign-in", place)),
        (rates.SIGN_IN_OF_PERSON, ("sign-in of", address)),
    )
    for limit, who in limits:
        counted.check(limit, *who)
    with instance.database.read() as db:
        stored = people.password_of(db, email)
    user = people.verify_password(stored, password)  # slow on purpose: outside of a connection
    if user is None:
        log.warning("sign-in failed place=%s", place)
        for limit, who in limits:
            counted.count(limit, *who)
        return None
    for limit, who in limits:  # others may have failed meanwhile: a burst learns no more
        counted.check(limit, *who)
    return user


@router.post("/signout")
def sign_out(request: Request, form: FormDep) -> Response:
    """End this browser's session."""
    answer = RedirectResponse("/signin", status_code=303)
    finish_session(request, answer, form.session)
    return answer


# -- by a one-time link ---------------------------------------------------------------------------


@router.get("/login/{code}")
def ask_link(request: Request, code: Code, session: MaybeSession) -> Response:
    """Ask before the link is used up."""
    return _link_page(request, visitor_of(request), session)


def _link_page(request: Request, visitor: Visitor, session: Session | None) -> Response:
    answer = page(
        request, "link.html", viewer=session, csrf_field=csrf_field(visitor.csrf), given=None
    )
    answer.headers.update(_NO_REFERRER)
    visitor.keep(request, answer)
    return answer


@router.post("/login/{code}")
def use_link(request: Request, code: Code, form: OpenForm, instance: InstanceDep) -> Response:
    """Use the link up: for a session of this browser, or for a token that is shown this once."""
    wants_session = form.get("then") == "dashboard"
    if wants_session:  # else a stranger's page could sign this browser in as the stranger
        check_csrf(request, form, visitor_of(request).csrf)
    now = instance.now()
    with instance.database.write() as db:
        user = people.use_login_link(db, code, now=now)
        secret = ""
        if user is not None and not wants_session:
            _, secret = people.add_token(db, name="sign-in link", user_id=user.id, now=now)
    if user is None:
        answer: Response = page(request, "link_used.html", status=410)
    elif wants_session:
        answer = RedirectResponse("/", status_code=303)
        begin_session(request, answer, user, how="link")
    else:
        answer = page(
            request,
            "link.html",
            given=user,
            secret=secret,
            once=True,  # nothing on the page leads away from it by accident
            server=instance.settings.url,
        )
    answer.headers.update(_NO_REFERRER)
    return answer
