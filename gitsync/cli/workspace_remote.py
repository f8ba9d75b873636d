"""`gitsync workspace credential`, `rotate-secret`: the secrets between a server and a forge."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.credential import (
    GenerateOption,
    HostsOption,
    KeyOption,
    PasswordOption,
    ReferenceOption,
    SecretOption,
    UserOption,
    credential_of,
)
from gitsync.cli.target import Target, about_workspace
from gitsync.errors import InvalidInput


@about_workspace
def rotate_secret(
    target: Target,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="S", min=0, help="Seconds the old one still works")
    ] = 86_400,
) -> None:
    """Make a new webhook secret; the old one works until the overlap ends."""
    found = target.post("webhook-secret/rotate", {"overlap_s": overlap})
    shown = [("webhook URL", found["url"]), ("secret, shown only now", found["secret"])]
    output.answer(found, lambda: output.fields(shown))


@about_workspace
def credential(
    target: Target,
    git_token_file: SecretOption = None,
    git_password_file: PasswordOption = None,
    git_username: UserOption = None,
    ssh_key_file: KeyOption = None,
    generate_key: GenerateOption = False,
    credential_path: ReferenceOption = None,
    known_hosts_file: HostsOption = None,
) -> None:
    """Replace the credential with which the server reads the repository."""
    given = credential_of(
        token=git_token_file,
        password=git_password_file,
        username=git_username,
        key=ssh_key_file,
        generate=generate_key,
        reference=credential_path,
        known_hosts=known_hosts_file,
    )
    if given is None:
        raise InvalidInput("Give a credential: --git-token-file, --ssh-key-file, …")
    found = target.send("PUT", "credential", given)
    output.answer(
        found,
        "The credential is replaced; the remote is looked at now.",
        lambda: output.fields([("public key", found.get("public_key"))]),
    )
