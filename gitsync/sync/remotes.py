"""From a workspace's rows to a remote that can be reached, its secret opened just in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gitsync.errors import ConfigError
from gitsync.git.credentials import Credential
from gitsync.git.remote import Remote
from gitsync.instance import Instance
from gitsync.records import Workspace
from gitsync.store.workspaces import get_credential, sealed_place

_SECRET_BYTES = 64 * 1024


class CredentialUnreadable(ConfigError):
    """A credential reference names a file that cannot be read."""

    code = "CREDENTIAL_UNREADABLE"


def remote_of(instance: Instance, workspace: Workspace) -> Remote:
    """The remote of an external workspace with its credential."""
    with instance.database.read() as db:
        row = get_credential(db, workspace.id)
    credential = None if row is None else open_credential(instance, workspace.id, row)
    return Remote.parse(workspace.clone_url or "", credential=credential)


def open_credential(instance: Instance, workspace_id: str, row: dict[str, Any]) -> Credential:
    """The secret itself: unsealed, or read from its file at each use."""
    if row["path"] is not None:
        secret = read_reference(instance, row["path"])
    else:
        place = sealed_place("credentials", workspace_id)
        secret = instance.sealer.open(row["sealed"], place).decode()
    return Credential(
        kind=row["kind"],
        secret=secret,
        username=row["username"] or "",
        known_hosts=row["known_hosts"] or "",
    )


def check_reference(instance: Instance, path: str) -> Path:
    """A file a credential may refer to: inside one of GITSYNC_CREDENTIAL_DIRS."""
    resolved = Path(path).resolve()
    for folder in instance.settings.credential_dirs:
        if resolved.is_relative_to(Path(folder).resolve()):
            return resolved
    raise CredentialUnreadable(
        f"{path} lies in no folder of GITSYNC_CREDENTIAL_DIRS; ask the operator to add it."
    )


def read_reference(instance: Instance, path: str) -> str:
    """The secret in a file, without the final line break."""
    resolved = check_reference(instance, path)
    try:
        with resolved.open("rb") as file:
            return file.read(_SECRET_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as e:
        raise CredentialUnreadable(
            f"The credential file {path} cannot be read: {type(e).__name__}."
        ) from e
