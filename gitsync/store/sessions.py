"""Sessions of browsers: made by a sign-in, moved on by use, ended by signing out.

Promise: a session works while its person does; its secret is never stored, only a hash of it.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gitsync.errors import NotFound
from gitsync.records import SessionRecord, User
from gitsync.store.login_tables import sessions
from gitsync.store.people import hash_token
from gitsync.store.rows import new_id, record
from gitsync.store.tables import users
from gitsync.text import storable

IDLE = timedelta(days=14)  # unused for so long, it ends
LONGEST = timedelta(days=90)  # after so long, its person signs in again
_MOVE_EVERY = timedelta(minutes=5)


def add_session(
    db: Connection, user_id: str, *, how: str, agent: str, address: str, now: datetime
) -> tuple[SessionRecord, str]:
    """A new session and its secret, which only the browser keeps."""
    secret = secrets.token_urlsafe(32)
    session_id = new_id("se")
    db.execute(
        sessions.insert().values(
            id=session_id,
            secret_hash=hash_token(secret),
            user_id=user_id,
            how=how,
            agent=storable(agent, limit=300),
            address=address[:80],
            created_at=now,
            seen_at=now,
            expires_at=now + IDLE,
        )
    )
    row = db.execute(sa.select(sessions).where(sessions.c.id == session_id)).one()
    return record(SessionRecord, row), secret


def find_session(
    db: Connection, secret: str, *, now: datetime
) -> tuple[SessionRecord, User] | None:
    """The session that has this secret, if it works now, and its person."""
    row = db.execute(
        sa.select(sessions).where(
            sessions.c.secret_hash == hash_token(secret),
            sessions.c.revoked_at.is_(None),
            sessions.c.expires_at > now,
        )
    ).first()
    if row is None:
        return None
    user = db.execute(
        sa.select(users).where(users.c.id == row.user_id, users.c.disabled_at.is_(None))
    ).first()
    return None if user is None else (record(SessionRecord, row), record(User, user))


def is_open(db: Connection, session_id: str, *, now: datetime) -> bool:
    """True while the session works: for answers that go on and on."""
    query = (
        sa.select(sessions.c.id)
        .join(users, users.c.id == sessions.c.user_id)
        .where(
            sessions.c.id == session_id,
            sessions.c.revoked_at.is_(None),
            sessions.c.expires_at > now,
            users.c.disabled_at.is_(None),
        )
    )
    return db.execute(query).first() is not None


def must_move(session: SessionRecord, *, now: datetime) -> bool:
    """True if its last use is noted too long ago: not every page writes."""
    return now - session.seen_at >= _MOVE_EVERY


def move(db: Connection, session: SessionRecord, *, now: datetime) -> None:
    """Note a use; the session lives on from here, but not past its longest life."""
    end = min(now + IDLE, session.created_at + LONGEST)
    db.execute(
        sessions.update()
        .where(sessions.c.id == session.id, sessions.c.revoked_at.is_(None))
        .values(seen_at=now, expires_at=end)
    )


def list_sessions(db: Connection, user_id: str, *, now: datetime) -> list[SessionRecord]:
    """A person's sessions that work now, the last used first."""
    rows = db.execute(
        sa.select(sessions)
        .where(
            sessions.c.user_id == user_id,
            sessions.c.revoked_at.is_(None),
            sessions.c.expires_at > now,
        )
        .order_by(sessions.c.seen_at.desc(), sessions.c.id)
    )
    return [record(SessionRecord, row) for row in rows]


def end_session(db: Connection, user_id: str, session_id: str, *, now: datetime) -> None:
    """End one of a person's sessions; doing it again changes nothing."""
    mine = (sessions.c.id == session_id, sessions.c.user_id == user_id)
    if db.execute(sa.select(sessions.c.id).where(*mine)).first() is None:
        raise NotFound("There is no such session.")
    db.execute(
        sessions.update().where(*mine, sessions.c.revoked_at.is_(None)).values(revoked_at=now)
    )


def end_all(db: Connection, user_id: str, *, now: datetime, but: str | None = None) -> None:
    """End a person's sessions, all or all but one: after a new password."""
    query = sessions.update().where(sessions.c.user_id == user_id, sessions.c.revoked_at.is_(None))
    if but is not None:
        query = query.where(sessions.c.id != but)
    db.execute(query.values(revoked_at=now))


def drop_sessions(db: Connection, *, before: datetime) -> int:
    """Forget sessions that ended before a time."""
    return db.execute(
        sessions.delete().where(
            sa.or_(sessions.c.expires_at < before, sessions.c.revoked_at < before)
        )
    ).rowcount
