"""Signed-in browsers: who looks at a page, and forms that only our own pages can send.

For a page: `session: SessionDep` (whoever is not signed in is sent to `/signin`), `session.caller`
for the functions of `gitsync.web.auth`, and `page(request, …, viewer=session)`. For a change:
`form: FormDep` instead, which is the checked form of a signed-in person.

Promise: the cookie is HttpOnly, SameSite=Lax, and Secure where the public URL is https; it holds a
secret of which only a hash is stored. A form without the token of its session changes nothing.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from hmac import compare_digest
from typing import Annotated, ClassVar
from urllib.parse import parse_qsl, quote

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from markupsafe import Markup
from starlette.datastructures import FormData

from gitsync.errors import Forbidden, InvalidInput, Unauthenticated
from gitsync.instance import Instance
from gitsync.records import Role, SessionRecord, Token, User
from gitsync.store import sessions
from gitsync.web.auth import Caller, instance_of
from gitsync.web.wire import error_body

_MOST_FIELDS = 200
_SEEN = "gitsync.session"


class SignInNeeded(Unauthenticated):
    """The page is for people who are signed in."""

    code = "SIGN_IN_NEEDED"


class FormRefused(Forbidden):
    """The form did not come from a page of this session."""

    code = "FORM_REFUSED"


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in person at a browser."""

    record: SessionRecord
    user: User
    csrf: str

    @property
    def id(self) -> str:
        """Public; events and waits are counted by it."""
        return self.record.id

    @property
    def caller(self) -> Caller:
        """The person as the API knows callers: as with a token of their own."""
        token = Token(
            id=self.record.id,
            user_id=self.user.id,
            name="browser session",
            role=None,
            workspaces=(),
            kinds=(),
            created_at=self.record.created_at,
            expires_at=self.record.expires_at,
            last_used_at=self.record.seen_at,
            revoked_at=None,
        )
        return Caller(token, self.user)


# -- cookies --------------------------------------------------------------------------------------


def _is_https(instance: Instance) -> bool:
    return instance.settings.url.startswith("https://")


def _cookie(instance: Instance, what: str) -> str:
    # `__Host-`: no other host of the domain can set it. Without https the port tells servers on
    # one machine apart, since cookies do not.
    if _is_https(instance):
        return f"__Host-gitsync_{what}"
    return f"gitsync_{what}_{instance.settings.port}"


def keep_cookie(
    response: Response, instance: Instance, what: str, value: str, *, seconds: int | None
) -> None:
    """Set a cookie that only our pages get and no script reads."""
    response.set_cookie(
        _cookie(instance, what),
        value,
        max_age=seconds,
        path="/",
        secure=_is_https(instance),
        httponly=True,
        samesite="lax",
    )


def read_cookie(request: Request, instance: Instance, what: str) -> str:
    """A cookie of `keep_cookie` as the browser sent it, empty without one."""
    return request.cookies.get(_cookie(instance, what), "")


def _forget(response: Response, instance: Instance, what: str) -> None:
    response.delete_cookie(
        _cookie(instance, what),
        path="/",
        secure=_is_https(instance),
        httponly=True,
        samesite="lax",
    )


def _csrf(purpose: str, secret: str) -> str:
    return hashlib.sha256(f"{purpose}\0{secret}".encode()).hexdigest()


# -- sessions -------------------------------------------------------------------------------------


def find_session(request: Request) -> Session | None:
    """The session of a request, None for strangers; notes its use."""
    instance = instance_of(request)
    secret = read_cookie(request, instance, "session")
    if not secret or len(secret) > 200:
        return None
    now = instance.now()
    with instance.database.read() as db:
        found = sessions.find_session(db, secret, now=now)
    if found is None:
        return None
    record, user = found
    if sessions.must_move(record, now=now):
        with instance.database.write(durable=False) as db:
            sessions.move(db, record, now=now)
    return Session(record, user, _csrf("session", secret))


@dataclass
class MadeFor:
    """With whose rights a page was made; whoever wants to know puts one into the scope."""

    KEY: ClassVar[str] = "gitsync.made_for"

    user_id: str | None = None
    is_admin: bool = False
    role: Role | None = None  # in the workspace of the path

    @classmethod
    def of(cls, request: Request) -> MadeFor:
        """The one of this request."""
        found: MadeFor = request.scope.get(cls.KEY) or cls()
        return found


def current_session(request: Request) -> Session:
    """The session of a request; strangers are asked to sign in."""
    found = find_session(request)
    if found is None:
        raise SignInNeeded("Sign in to see this page.")
    request.scope[_SEEN] = found
    made_for = MadeFor.of(request)
    made_for.user_id, made_for.is_admin = found.user.id, found.caller.is_admin
    return found


def seen_session(request: Request) -> Session | None:
    """The session that this request was found to have, without a look at the rows."""
    found: Session | None = request.scope.get(_SEEN)
    return found


SessionDep = Annotated[Session, Depends(current_session)]
MaybeSession = Annotated[Session | None, Depends(find_session)]


def is_still_open(instance: Instance, session: Session) -> bool:
    """False once the session ended: for answers that go on and on."""
    with instance.database.read() as db:
        return sessions.is_open(db, session.id, now=instance.now())


def begin_session(request: Request, response: Response, user: User, *, how: str) -> None:
    """Sign somebody in: a new session, and the end of the one this browser had."""
    instance, now = instance_of(request), instance_of(request).now()
    before = find_session(request)
    with instance.database.write() as db:
        if before is not None:
            sessions.end_session(db, before.user.id, before.id, now=now)
        _, secret = sessions.add_session(
            db,
            user.id,
            how=how,
            agent=request.headers.get("user-agent", ""),
            address=request.client.host if request.client is not None else "",
            now=now,
        )
    seconds = round(sessions.LONGEST.total_seconds())
    keep_cookie(response, instance, "session", secret, seconds=seconds)


def finish_session(request: Request, response: Response, session: Session) -> None:
    """Sign out."""
    instance = instance_of(request)
    with instance.database.write() as db:
        sessions.end_session(db, session.user.id, session.id, now=instance.now())
    _forget(response, instance, "session")


# -- forms ----------------------------------------------------------------------------------------


def csrf_field(csrf: str) -> Markup:
    """The hidden field that each form holds."""
    return Markup('<input type="hidden" name="csrf" value="{}">').format(csrf)


async def read_form(request: Request) -> FormData:
    """The fields of a form as browsers send it; there are no files, so it is no multipart."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/x-www-form-urlencoded":
        raise InvalidInput("A form is sent as application/x-www-form-urlencoded.")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as e:
        raise InvalidInput("This is no form, or it has too many fields.") from e
    if any("\0" in part for pair in pairs for part in pair):
        raise InvalidInput("A form may not hold NUL characters.")
    return FormData([*pairs])


def check_csrf(request: Request, form: FormData, csrf: str) -> None:
    """`FormRefused` unless the form holds this token and comes from a page of ours."""
    given = form.get("csrf", "")
    # browsers say where a form comes from; others say nothing
    is_foreign = request.headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
    if (
        is_foreign
        or not isinstance(given, str)
        or not compare_digest(given.encode(), csrf.encode())
    ):
        raise FormRefused(
            "This form is too old, or it was not sent from a page of this server. Go back, load "
            "the page again and repeat it; nothing was changed."
        )


@dataclass(frozen=True, slots=True)
class CheckedForm:
    """What a signed-in person sent with a form of ours."""

    session: Session
    fields: FormData

    def text(self, name: str, default: str = "") -> str:
        """One field."""
        value = self.fields.get(name, default)
        return value.strip() if isinstance(value, str) else default


async def checked_form(request: Request, session: SessionDep) -> CheckedForm:
    """The form, if its session sent it."""
    fields = await read_form(request)
    check_csrf(request, fields, session.csrf)
    return CheckedForm(session, fields)


FormDep = Annotated[CheckedForm, Depends(checked_form)]


# -- those who are not signed in ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser before its person signed in: its forms are bound to a cookie of their own.

    Without it a stranger's page could sign somebody in under a stranger's name.
    """

    secret: str
    csrf: str

    def keep(self, request: Request, response: Response) -> None:
        """Set the cookie, for as long as the browser is open."""
        keep_cookie(response, instance_of(request), "visitor", self.secret, seconds=None)


def visitor_of(request: Request) -> Visitor:
    """The present one, or a new one that must be kept."""
    secret = read_cookie(request, instance_of(request), "visitor")
    if not 20 <= len(secret) <= 200:
        secret = secrets.token_urlsafe(32)
    return Visitor(secret, _csrf("visitor", secret))


# -- being asked to sign in -----------------------------------------------------------------------


def safe_next(text: str | None) -> str:
    """A path of this server, whatever was asked for."""
    text = text or ""
    is_ours = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_ours and text.isprintable() and len(text) <= 2000 else "/"


def install(app: FastAPI) -> None:
    """Send those who must sign in to the page where they can."""

    @app.exception_handler(SignInNeeded)
    async def ask(request: Request, error: SignInNeeded) -> Response:
        # what was sent with a form is gone by then; the page it came from is not
        here = request.url.path if request.method == "GET" else "/"
        query = f"?{request.url.query}" if request.method == "GET" and request.url.query else ""
        target = f"/signin?next={quote(here + query, safe='')}"
        if "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers:
            return RedirectResponse(target, status_code=303)
        return JSONResponse(
            error_body(error.code, error.message),
            status_code=401,
            headers={"HX-Redirect": target},
        )
