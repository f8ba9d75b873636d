"""`osmosis auth login`: a device asks for a token, and asks again until a person decided.

RFC 8628: the errors of `device/token` are 400 with the word of the RFC in `error`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from gitsync.records import DeviceLogin, Token, User
from gitsync.store import devices, people
from gitsync.text import printable
from gitsync.web import rates
from gitsync.web.auth import InstanceDep
from gitsync.web.cli_api.account import token_json, user_json
from gitsync.web.cli_api.answers import CliBody
from gitsync.web.cli_api.scope import OpenCliRoute
from gitsync.web.rates import RatesDep, place_of

router = APIRouter(route_class=OpenCliRoute)
routers = (router,)

_NOT_YET = {
    "pending": ("authorization_pending", "Nobody has approved this device yet."),
    "slow_down": ("slow_down", "This device asks too often; it must wait longer in between."),
    "denied": ("access_denied", "The login was denied in the browser."),
    "expired": ("expired_token", "This code was used, is unknown or too old; log in again."),
}


class StartBody(CliBody):
    """A device that wants to log in."""

    device_name: str = Field("", alias="deviceName")


class PollBody(CliBody):
    """A device that asks for its token."""

    device_code: str = Field(max_length=200)


@router.post("/device/authorize")
def authorize(
    request: Request, body: StartBody, instance: InstanceDep, rates_: RatesDep
) -> dict[str, Any]:
    """Two codes: one for the device, one for its person to type."""
    rates_.spend(rates.DEVICE_START, "device", place_of(request))
    with instance.database.write() as db:
        device_code, user_code = devices.add_device_login(
            db,
            device_name=body.device_name.strip() or "a device without a name",
            agent=request.headers.get("user-agent", ""),
            address=request.client.host if request.client is not None else "",
            now=instance.now(),
        )
    page = f"{instance.settings.url}/device"
    return {
        "device_code": device_code,
        "user_code": user_code,
        "verification_uri": page,
        "verification_uri_complete": f"{page}?code={user_code}",
        "expires_in": round(devices.LIFE.total_seconds()),
        "interval": devices.INTERVAL_S,
    }


@router.post("/device/token", response_model=None)
def token(
    request: Request, body: PollBody, instance: InstanceDep, rates_: RatesDep
) -> dict[str, Any] | JSONResponse:
    """The token, once, after the approval; until then a word that says what to do."""
    rates_.spend(rates.DEVICE_POLL, "poll", place_of(request))
    now, days = instance.now(), instance.settings.cli_token_days
    with instance.database.write() as db:
        state, login = devices.poll(db, body.device_code, now=now)
        if state == "approved" and login is not None and login.user_id is not None:
            user = people.get_user(db, login.user_id)
            if user.disabled_at is None:
                made, secret = people.add_token(
                    db,
                    name=_name(login),
                    user_id=user.id,
                    expires_at=now + timedelta(days=days),
                    now=now,
                )
                return _granted(user, made, secret)
            state = "denied"
    error, message = _NOT_YET[state]
    return JSONResponse(
        {"error": error, "message": message, "code": error.upper()}, status_code=400
    )


def _name(login: DeviceLogin) -> str:
    return f"osmosis on {printable(login.device_name, limit=150)}"


def _granted(user: User, made: Token, secret: str) -> dict[str, Any]:
    return {"token": secret, "user": user_json(user), **token_json(made)}
