"""Devices that ask for a token: RFC 8628, with the codes stored as hashes.

Promise: a device code gives one token, once; a user code decides once; both end with their time.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.records import DeviceLogin
from gitsync.store.login_tables import device_logins
from gitsync.store.people import hash_token
from gitsync.store.rows import record
from gitsync.text import storable

LIFE = timedelta(minutes=15)
INTERVAL_S = 2
_EARLY = timedelta(milliseconds=500)  # clocks and networks are not exact
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels, no digits: no words, nothing to mix up


def _user_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def clean_user_code(text: str) -> str | None:
    """A user code as it was given out, however it was typed; None if it cannot be one."""
    letters = "".join(c for c in text.upper() if not c.isspace() and c != "-")
    if len(letters) != 8 or any(c not in _LETTERS for c in letters):
        return None
    return f"{letters[:4]}-{letters[4:]}"


def add_device_login(
    db: Connection, *, device_name: str, agent: str, address: str, now: datetime
) -> tuple[str, str]:
    """A new pair of codes: the device's secret one, and the one a person types."""
    device_code, user_code = secrets.token_urlsafe(32), _user_code()
    db.execute(
        device_logins.insert().values(
            device_hash=hash_token(device_code),
            user_code_hash=hash_token(user_code),
            device_name=storable(device_name, limit=200),
            agent=storable(agent, limit=300),
            address=address[:80],
            created_at=now,
            expires_at=now + LIFE,
            interval_s=INTERVAL_S,
            state="pending",
        )
    )
    return device_code, user_code


def find_waiting(db: Connection, user_code: str, *, now: datetime) -> DeviceLogin | None:
    """The device that waits for a decision under this user code."""
    row = db.execute(
        sa.select(device_logins).where(
            device_logins.c.user_code_hash == hash_token(user_code),
            device_logins.c.state == "pending",
            device_logins.c.expires_at > now,
        )
    ).first()
    return None if row is None else record(DeviceLogin, row)


def decide(
    db: Connection, user_code: str, *, user_id: str, is_approved: bool, now: datetime
) -> bool:
    """A person's answer, once; False if nothing waits under this code any more."""
    changed = db.execute(
        device_logins.update()
        .where(
            device_logins.c.user_code_hash == hash_token(user_code),
            device_logins.c.state == "pending",
            device_logins.c.expires_at > now,
        )
        .values(
            state="approved" if is_approved else "denied",
            user_id=user_id,
            decided_at=now,
        )
    )
    return changed.rowcount == 1


def poll(db: Connection, device_code: str, *, now: datetime) -> tuple[str, DeviceLogin | None]:
    """What a device learns: `approved` (once), `pending`, `slow_down`, `denied` or `expired`."""
    mine = device_logins.c.device_hash == hash_token(device_code)
    row = db.execute(sa.select(device_logins).where(mine).with_for_update()).first()
    if row is None or row.expires_at <= now or row.state == "used":
        return "expired", None
    if row.state == "denied":
        return "denied", None
    found = record(DeviceLogin, row)
    if row.state == "approved":
        used = db.execute(
            device_logins.update()
            .where(mine, device_logins.c.state == "approved")
            .values(state="used", polled_at=now)
        )
        return ("approved", found) if used.rowcount == 1 else ("expired", None)
    pause = timedelta(seconds=row.interval_s)
    is_early = row.polled_at is not None and now - row.polled_at < pause - _EARLY
    # a device that does not listen must wait longer and longer (RFC 8628, 3.5)
    interval = min(row.interval_s + 5, 30) if is_early else row.interval_s
    db.execute(device_logins.update().where(mine).values(polled_at=now, interval_s=interval))
    return ("slow_down" if is_early else "pending"), found


def drop_device_logins(db: Connection, *, before: datetime) -> int:
    """Forget those that ended before a time."""
    return db.execute(device_logins.delete().where(device_logins.c.expires_at < before)).rowcount
