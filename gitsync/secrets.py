"""Secrets that runs get as environment variables: set, list, delete.

Promise: a value goes in and is never given back; only the executor that holds a run is given it.
"""

from __future__ import annotations

import re

from gitsync.data_records import Secret
from gitsync.errors import Conflict, Forbidden, InvalidInput, NotFound
from gitsync.instance import Instance
from gitsync.records import Role, Workspace
from gitsync.store import Connection, events, secrets, workspaces
from gitsync.store.secrets import Scope

MAX_VALUE = 32 * 1024
MOST = 1000  # of the workspace, and of each person in it
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class SecretMissing(NotFound):
    """There is no secret of this name in the scope."""

    code = "SECRET_NOT_FOUND"


def check_name(name: str) -> None:
    """`InvalidInput` if no run could be given a variable of this name."""
    if not _NAME.fullmatch(name) or len(name) > 255:
        raise InvalidInput(
            "The name of a secret has 1 to 255 capital letters, digits and underscores, and "
            "begins with a letter, such as OPENAI_API_KEY.",
            field="name",
        )


def check_role(scope: Scope, role: Role) -> None:
    """`Forbidden` if this role may not change secrets of this scope."""
    needed = Role.ADMIN if scope == "workspace" else Role.MEMBER
    if role.rank < needed.rank:
        raise Forbidden(
            f"Changing {'secrets of the workspace' if scope == 'workspace' else 'secrets'} needs "
            f"the role {needed.value}."
        )


def put(
    instance: Instance,
    workspace: Workspace,
    *,
    user_id: str,
    role: Role,
    scope: Scope,
    name: str,
    value: str,
) -> tuple[Secret, bool]:
    """Add or replace a secret; True if it is new."""
    check_role(scope, role)
    check_name(name)
    if not value or len(value.encode("utf-8", "surrogatepass")) > MAX_VALUE or "\0" in value:
        raise InvalidInput(
            f"The value of a secret has 1 to {MAX_VALUE} bytes, and no NUL.", field="value"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput("The value of a secret is UTF-8 text.", field="value") from None
    now = instance.now()
    with instance.database.write() as db:
        workspaces.lock_workspace(db, workspace.id)
        secret, is_new = secrets.put_secret(
            db,
            instance.sealer,
            workspace.id,
            scope=scope,
            user_id=user_id,
            name=name,
            value=value,
            now=now,
        )
        if is_new and secrets.count_secrets(db, workspace.id, scope, user_id) > MOST:
            raise Conflict(f"There are {MOST} secrets already. Delete those no run needs.")
        _tell(db, instance, workspace, scope)
    return secret, is_new


def delete(
    instance: Instance,
    workspace: Workspace,
    *,
    user_id: str,
    role: Role,
    scope: Scope,
    name: str,
) -> None:
    """Remove a secret; runs that were given it already keep it."""
    check_role(scope, role)
    check_name(name)
    with instance.database.write() as db:
        if not secrets.delete_secret(db, workspace.id, scope=scope, user_id=user_id, name=name):
            raise SecretMissing(f"There is no secret {name} in the scope {scope}.")
        _tell(db, instance, workspace, scope)


def _tell(db: Connection, instance: Instance, workspace: Workspace, scope: Scope) -> None:
    """An event without the name: who follows events need not know a person's secrets."""
    events.add_event(
        db, "secrets.changed", {"scope": scope}, workspace_id=workspace.id, now=instance.now()
    )
