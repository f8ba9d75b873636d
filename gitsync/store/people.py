"""Users, tokens, memberships: who may do what."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.engine import Connection

from gitsync.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from gitsync.records import Role, Token, User
from gitsync.store.rows import Page, new_id, page_by_key, record
from gitsync.store.secrets import drop_personal
from gitsync.store.tables import login_links, memberships, token_workspaces, tokens, users

TOKEN_PREFIX = "gs_"  # noqa: S105 - a prefix, not a secret
LOGIN_LINK_LIFE = timedelta(hours=24)
MACHINE_ROLES = ("read", "push", "executor")
_hasher = PasswordHasher()


def hash_token(secret: str) -> str:
    """What is stored of a token: it has 256 random bits, so a plain hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def add_user(
    db: Connection,
    *,
    email: str,
    name: str,
    is_admin: bool,
    now: datetime,
    password: str | None = None,
) -> User:
    """Create a person; `Conflict` if the e-mail address is taken."""
    email = email.strip()
    if not 3 <= len(email) <= 320 or "@" not in email or not email.isprintable():
        raise InvalidInput("An e-mail address looks like robin@example.com.", field="email")
    if find_user(db, email) is not None:
        raise Conflict(f"There is a user with the address {email} already.", field="email")
    user_id = new_id("us")
    db.execute(
        users.insert().values(
            id=user_id,
            email=email,
            email_key=email.lower(),
            name=name.strip()[:200] or email,
            is_admin=is_admin,
            created_at=now,
            password_hash=_hasher.hash(password) if password else None,
        )
    )
    return get_user(db, user_id)


def get_user(db: Connection, user_id: str) -> User:
    """By id; `NotFound` otherwise."""
    row = db.execute(sa.select(users).where(users.c.id == user_id)).first()
    if row is None:
        raise NotFound("There is no such user.")
    return record(User, row)


def find_user(db: Connection, email: str) -> User | None:
    """By e-mail address, whatever its case."""
    row = db.execute(sa.select(users).where(users.c.email_key == email.strip().lower())).first()
    return None if row is None else record(User, row)


def list_users(db: Connection, *, limit: int, after: str | None) -> Page[User]:
    """All people by id."""
    return page_by_key(
        db,
        sa.select(users),
        users.c.id,
        limit=limit,
        after=after,
        build=lambda row: record(User, row),
    )


_few = threading.BoundedSemaphore(4)  # each takes 64 MiB and a core
_PATIENCE_S = 5.0


@contextmanager
def _one_of_few() -> Iterator[None]:
    """Passwords are slow on purpose: a crowd of tries must not take the server's memory."""
    if not _few.acquire(timeout=_PATIENCE_S):
        raise LimitExceeded("Too many people sign in at this moment; try again.", retry_after=5)
    try:
        yield
    finally:
        _few.release()


def hash_password(password: str) -> str:
    """What is stored of a password of 12 to 1000 characters; slow on purpose."""
    if not 12 <= len(password) <= 1000:
        raise InvalidInput("A password has 12 to 1000 characters.", field="password")
    with _one_of_few():
        return _hasher.hash(password.encode("utf-8", "surrogatepass"))


def set_password(db: Connection, user_id: str, hashed: str) -> None:
    """Replace the password by another, as `hash_password` made it."""
    db.execute(users.update().where(users.c.id == user_id).values(password_hash=hashed))


@dataclass(frozen=True, slots=True)
class StoredPassword:
    """What a password is compared with; for nobody it takes as long, and never fits."""

    user: User | None
    hash: str


def password_of(db: Connection, email: str) -> StoredPassword:
    """The stored password of an address, known or not."""
    key = email.strip().lower()
    row = db.execute(
        sa.select(users).where(users.c.email_key == key, users.c.disabled_at.is_(None))
    ).first()
    if row is None or row.password_hash is None:
        return StoredPassword(None, _DUMMY_HASH)
    return StoredPassword(record(User, row), row.password_hash)


def verify_password(stored: StoredPassword, password: str) -> User | None:
    """The person if the password fits; needs no connection, and takes a while on purpose."""
    try:
        with _one_of_few():
            _hasher.verify(stored.hash, password.encode("utf-8", "surrogatepass"))
    except (VerificationError, InvalidHashError):
        return None
    return stored.user


def has_password(db: Connection, user_id: str) -> bool:
    """True if this person can sign in by password."""
    query = sa.select(users.c.id).where(users.c.id == user_id, users.c.password_hash.is_not(None))
    return db.execute(query).first() is not None


_DUMMY_HASH = _hasher.hash(secrets.token_hex(8))


def disable_user(db: Connection, user_id: str, *, now: datetime) -> None:
    """Lock a person out: tokens stop working at once; `Conflict` for the last administrator."""
    if get_user(db, user_id).is_admin and _active_admins(db) == [user_id]:
        raise Conflict("This is the last administrator. Make somebody else one first.")
    db.execute(users.update().where(users.c.id == user_id).values(disabled_at=now))
    db.execute(
        tokens.update()
        .where(tokens.c.user_id == user_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    drop_personal(db, user_id)


def _active_admins(db: Connection) -> list[str]:
    query = sa.select(users.c.id).where(users.c.is_admin.is_(True), users.c.disabled_at.is_(None))
    return list(db.execute(query.with_for_update()).scalars())  # two may go at once


def count_users(db: Connection) -> int:
    """How many people there are."""
    return db.execute(sa.select(sa.func.count()).select_from(users)).scalar_one()


def add_login_link(db: Connection, user_id: str, *, now: datetime) -> str:
    """A one-time code that signs this person in within 24 hours."""
    if get_user(db, user_id).disabled_at is not None:
        raise Conflict("This person is locked out.")
    code = secrets.token_urlsafe(32)
    db.execute(
        login_links.insert().values(
            code_hash=hash_token(code), user_id=user_id, expires_at=now + LOGIN_LINK_LIFE
        )
    )
    return code


def use_login_link(db: Connection, code: str, *, now: datetime) -> User | None:
    """The person, once; None if the code is unknown, used or too old."""
    changed = db.execute(
        login_links.update()
        .where(
            login_links.c.code_hash == hash_token(code),
            login_links.c.used_at.is_(None),
            login_links.c.expires_at > now,
        )
        .values(used_at=now)
    )
    if changed.rowcount != 1:
        return None
    row = db.execute(
        sa.select(users)
        .join(login_links, login_links.c.user_id == users.c.id)
        .where(login_links.c.code_hash == hash_token(code), users.c.disabled_at.is_(None))
    ).first()
    return None if row is None else record(User, row)


def add_token(
    db: Connection,
    *,
    name: str,
    user_id: str | None,
    now: datetime,
    role: str | None = None,
    workspaces: Sequence[str] = (),
    kinds: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    created_by: str | None = None,
) -> tuple[Token, str]:
    """Create a token; the secret is returned this one time."""
    if role is not None and role not in MACHINE_ROLES:
        raise InvalidInput(f"role must be one of {', '.join(MACHINE_ROLES)}.", field="role")
    if role is not None and not workspaces:
        raise InvalidInput("A machine token names its workspaces.", field="workspaces")
    if kinds is not None and role != "executor":
        raise InvalidInput("Only an executor is for some kinds of runs.", field="kinds")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token_id = new_id("tk")
    db.execute(
        tokens.insert().values(
            id=token_id,
            token_hash=hash_token(secret),
            user_id=user_id,
            name=name[:200],
            role=role,
            kinds=None if kinds is None else sorted(set(kinds)),
            created_by=created_by,
            created_at=now,
            expires_at=expires_at,
        )
    )
    for workspace_id in dict.fromkeys(workspaces):
        db.execute(token_workspaces.insert().values(token_id=token_id, workspace_id=workspace_id))
    return get_token(db, token_id), secret


def _tokens(db: Connection, query: sa.Select[tuple[object, ...]]) -> list[Token]:
    rows = db.execute(query).all()
    found: dict[str, list[str]] = {row.id: [] for row in rows}
    for link in db.execute(
        sa.select(token_workspaces).where(token_workspaces.c.token_id.in_(list(found)))
    ):
        found[link.token_id].append(link.workspace_id)
    return [record(Token, row, workspaces=tuple(sorted(found[row.id]))) for row in rows]


def get_token(db: Connection, token_id: str) -> Token:
    """By public id."""
    found = _tokens(db, sa.select(tokens).where(tokens.c.id == token_id))
    if not found:
        raise NotFound("There is no such token.")
    return found[0]


def find_token(db: Connection, secret: str) -> Token | None:
    """By its secret, whatever its state."""
    found = _tokens(db, sa.select(tokens).where(tokens.c.token_hash == hash_token(secret)))
    return found[0] if found else None


def list_tokens(db: Connection, user_id: str) -> list[Token]:
    """A person's own tokens and the machine tokens they made, newest first."""
    return _tokens(
        db,
        sa.select(tokens)
        .where(sa.or_(tokens.c.user_id == user_id, tokens.c.created_by == user_id))
        .order_by(tokens.c.created_at.desc(), tokens.c.id),
    )


def list_machine_tokens(db: Connection, workspace_id: str) -> list[Token]:
    """Machine tokens that reach a workspace."""
    return _tokens(
        db,
        sa.select(tokens)
        .join(token_workspaces, token_workspaces.c.token_id == tokens.c.id)
        .where(token_workspaces.c.workspace_id == workspace_id, tokens.c.role.is_not(None))
        .order_by(tokens.c.created_at.desc(), tokens.c.id),
    )


def touch_token(db: Connection, token_id: str, *, now: datetime) -> None:
    """Note the last use."""
    db.execute(tokens.update().where(tokens.c.id == token_id).values(last_used_at=now))


def revoke_token(db: Connection, token_id: str, *, now: datetime) -> None:
    """Make a token useless; doing it again changes nothing."""
    db.execute(
        tokens.update()
        .where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )


def set_member(
    db: Connection, workspace_id: str, user_id: str, role: Role, *, now: datetime
) -> None:
    """Add a member or change the role; `Conflict` if the last owner would go."""
    if role is not Role.OWNER:
        _keep_an_owner(db, workspace_id, user_id)
    changed = db.execute(
        memberships.update()
        .where(memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id)
        .values(role=role.value)
    )
    if changed.rowcount == 0:
        db.execute(
            memberships.insert().values(
                workspace_id=workspace_id, user_id=user_id, role=role.value, created_at=now
            )
        )


def remove_member(db: Connection, workspace_id: str, user_id: str) -> None:
    """Take a member away; `Conflict` for the last owner."""
    _keep_an_owner(db, workspace_id, user_id)
    changed = db.execute(
        memberships.delete().where(
            memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id
        )
    )
    if changed.rowcount == 0:
        raise NotFound("There is no such member.")
    drop_personal(db, user_id, workspace_id)


def _keep_an_owner(db: Connection, workspace_id: str, user_id: str) -> None:
    owners = db.execute(
        sa.select(memberships.c.user_id)
        .where(memberships.c.workspace_id == workspace_id, memberships.c.role == Role.OWNER.value)
        .with_for_update()  # two may leave at once
    ).scalars()
    if list(owners) == [user_id]:
        raise Conflict("This is the last owner. Make somebody else an owner first.")


def role_of(db: Connection, workspace_id: str, user_id: str) -> Role | None:
    """The role of a person in a workspace, None if not a member."""
    found = db.execute(
        sa.select(memberships.c.role).where(
            memberships.c.workspace_id == workspace_id, memberships.c.user_id == user_id
        )
    ).scalar_one_or_none()
    return None if found is None else Role(found)


def list_members(db: Connection, workspace_id: str) -> list[tuple[User, Role]]:
    """People and their roles, by e-mail address."""
    rows = db.execute(
        sa.select(users, memberships.c.role)
        .join(memberships, memberships.c.user_id == users.c.id)
        .where(memberships.c.workspace_id == workspace_id)
        .order_by(users.c.email_key)
    ).all()
    return [(record(User, row), Role(row.role)) for row in rows]
