"""What proves to a remote who we are, and how a child gets it.

Promise: a secret is in no argument, environment value, URL or file: a child reads it from an
inherited in-memory descriptor, https children only for the one host it belongs to, and it is gone
when the child is.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gitsync.errors import InvalidInput

_LONGEST = 16 * 1024
# any name works with a personal or installation token on GitHub, any non-empty one on GitLab
TOKEN_USER = "x-access-token"  # noqa: S105 (a user name)


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret for one host: a token, a password or the private half of an SSH key.

    `known_hosts` (lines of that file's format) is wanted for SSH only. An empty `host` means the
    host of the remote it is used with.
    """

    kind: Literal["token", "password", "ssh"]
    secret: str = field(repr=False)
    username: str = ""
    known_hosts: str = ""
    host: str = ""

    def __post_init__(self) -> None:
        if len(self.secret) > _LONGEST:
            raise InvalidInput(f"A secret has at most {_LONGEST} characters.", field="secret")
        if self.kind == "ssh":
            if "PRIVATE KEY" not in self.secret:
                raise InvalidInput("The SSH key is no private key in PEM form.", field="secret")
        elif not self.secret.isprintable() or not self.username.isprintable():
            # a line break would add lines to the credential protocol or to a header
            raise InvalidInput("A secret may not hold control characters.", field="secret")
        if self.kind == "password" and (not self.username or ":" in self.username):
            raise InvalidInput("A password needs a user name without ':'.", field="username")

    @property
    def user(self) -> str:
        """The name to present."""
        return self.username or TOKEN_USER

    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.user}:{self.secret}".encode()
        return "Basic " + base64.b64encode(pair).decode("ascii")


@contextmanager
def in_memory(data: bytes) -> Iterator[int]:
    """A descriptor of an unnamed file in memory that holds `data`, readable by us alone."""
    fd = os.memfd_create("gitsync", os.MFD_CLOEXEC)
    try:
        os.fchmod(fd, 0o600)
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def one_shot(user: str, secret: str, *, origin: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """A credential helper for exactly one origin: the descriptor and the git settings for it.

    Git asks a helper configured for a URL only about that scheme, host and port. The pipe holds one
    answer; a second question gets none.
    """
    reader, writer = os.pipe()
    try:
        os.write(writer, f"username={user}\npassword={secret}\n".encode())
        os.close(writer)
        helper = f'!f() {{ test "$1" = get && exec cat /dev/fd/{reader}; }}; f'
        yield reader, [(f"credential.{origin}.helper", helper)]
    finally:
        os.close(reader)


def generate_ssh_key(comment: str = "gitsync") -> tuple[str, str]:
    """A new ed25519 key: the private half in OpenSSH's form, the public half as one line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode("ascii"), f"{public.decode('ascii')} {comment}"
