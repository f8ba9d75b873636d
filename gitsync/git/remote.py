"""A remote's URL, and the ground rules for talking to it.

Promise: a `Remote` is checked once: an allowed form, no secret, no option in disguise. `Network`
holds everything the operator decided about outgoing connections.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Self, cast
from urllib.parse import quote, unquote, urlsplit

from gitsync.errors import InvalidInput
from gitsync.git.address import AddressPolicy
from gitsync.git.credentials import Credential, in_memory, one_shot
from gitsync.git.failures import HostKeyUnknown

type Scheme = Literal["http", "https", "ssh"]

_PORTS = {"http": 80, "https": 443, "ssh": 22}
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)@)?(?P<host>[^@/:]+|\[[0-9A-Fa-f:.]+\]):(?P<path>[^:].*)")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f:.]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]*")
_REF_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|\.$|/$")
_REF_BYTES = 1024


def is_ref(name: str) -> bool:
    """True for a full branch ref that git itself would accept as a name, if it is UTF-8.

    Other names have no text that a row, an answer or a person could hold.
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    return (
        name.startswith("refs/heads/")
        and not name.startswith("refs/heads/.")
        and len(name) > len("refs/heads/")
        and not _REF_BAD.search(name)
        and size <= _REF_BYTES
    )


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a repository lives and the credential for it; compare remotes by `key`."""

    scheme: Scheme
    host: str
    port: int
    path: str
    user: str = ""
    credential: Credential | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, url: str, *, credential: Credential | None = None) -> Self:
        """Accept `https://host/path`, `http://…`, `ssh://user@host/path` and `user@host:path`."""
        shown = re.sub(r"//[^/@]*@", "//…@", url)[:200]
        if not url.isprintable() or " " in url or len(url) > 2000:
            raise InvalidInput(
                "The clone URL holds spaces or control characters.", field="clone_url"
            )
        if "://" not in url and (scp := _SCP.fullmatch(url)):
            path = scp["path"] if scp["path"].startswith("/") else "/" + scp["path"]
            parts = (scp["user"] or "", scp["host"].strip("[]"), None, path)
            return cls._checked("ssh", *parts, credential, shown)
        try:
            split = urlsplit(url)
            port, host = split.port, split.hostname or ""
        except ValueError as e:
            raise InvalidInput(f"{shown!r} is no clone URL.", field="clone_url") from e
        if split.password:
            raise InvalidInput(
                "The clone URL holds a password. Give the URL without it and the secret as a "
                "credential.",
                field="clone_url",
            )
        if split.query or split.fragment:
            raise InvalidInput("A clone URL has no '?' and no '#'.", field="clone_url")
        return cls._checked(
            split.scheme, unquote(split.username or ""), host, port, split.path, credential, shown
        )

    @classmethod
    def _checked(
        cls,
        scheme: str,
        user: str,
        host: str,
        port: int | None,
        path: str,
        credential: Credential | None,
        shown: str,
    ) -> Self:
        if scheme not in _PORTS:
            raise InvalidInput(
                f"{shown!r} is no clone URL of a scheme that is supported: https, http, ssh.",
                field="clone_url",
            )
        if not host.isascii():
            try:
                host = host.encode("idna").decode("ascii")
            except UnicodeError as e:
                raise InvalidInput(f"{shown!r} names no valid host.", field="clone_url") from e
        host = host.lower().rstrip(".")
        if not _HOST.fullmatch(host):
            raise InvalidInput(f"{shown!r} names no valid host.", field="clone_url")
        if (user and not _USER.fullmatch(user)) or not path.strip("/") or path.startswith("/-"):
            raise InvalidInput(f"{shown!r} is no clone URL.", field="clone_url")
        if (
            credential
            and credential.host
            and credential.host.lower()
            not in {
                host,
                f"{host}:{port or _PORTS[scheme]}",
            }
        ):
            raise InvalidInput(
                f"The credential belongs to {credential.host}, not to {host}.", field="credential"
            )
        if credential and (credential.kind == "ssh") != (scheme == "ssh"):
            raise InvalidInput(
                f"A credential of kind {credential.kind} does not fit a {scheme} URL.",
                field="credential",
            )
        if credential and user and not credential.username:
            credential = replace(credential, username=user)
        path = path.rstrip("/")
        return cls(cast(Scheme, scheme), host, port or _PORTS[scheme], path, user, credential)

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The clone URL, without any secret."""
        if self.scheme == "ssh":
            user = quote(self.user or (self.credential and self.credential.username) or "git")
            return f"ssh://{user}@{self.authority}{self.path}"
        return self.origin + self.path

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True)
class Network:
    """What the operator decided about outgoing connections.

    `proxy` is `http://[user:password@]host:port`; hosts in `no_proxy` (names, or `.suffix`) are
    reached directly. `ca_bundle` replaces the system's certificates. `seconds` bounds one look.
    """

    policy: AddressPolicy = field(default_factory=AddressPolicy)
    ca_bundle: Path | None = None
    proxy: str = field(default="", repr=False)
    no_proxy: tuple[str, ...] = ()
    user_agent: str = "git/gitsync"
    connect_seconds: float = 10.0
    look_seconds: float = 20.0
    look_bytes: int = 32 * 1024 * 1024
    look_refs: int = 200_000

    def proxy_for(self, host: str) -> str:
        """The proxy to use for a host; empty for a direct connection."""
        names = [n.lower() for n in self.no_proxy]
        direct = "*" in names or any(
            host == n.lstrip(".") or host.endswith("." + n.lstrip(".")) for n in names
        )
        return "" if direct else self.proxy


@dataclass(frozen=True, slots=True)
class Access:
    """What a git child needs to reach one remote: settings, environment, descriptors."""

    config: tuple[tuple[str, str], ...]
    env: dict[str, str]
    fds: tuple[int, ...]


@contextmanager
def access(remote: Remote, network: Network) -> Iterator[Access]:
    """Check the remote's address and open what a child needs; secrets live until the exit."""
    network.policy.check_scheme(remote.scheme)
    with ExitStack() as stack:
        if remote.scheme == "ssh":
            yield _over_ssh(remote, network, stack)
        else:
            yield _over_http(remote, network, stack)


def _over_http(remote: Remote, network: Network, stack: ExitStack) -> Access:
    config = [
        ("protocol.http.allow", "always"),
        ("protocol.https.allow", "always"),
        ("protocol.version", "2"),
        ("http.followRedirects", "false"),
        ("http.sslVerify", "true"),
        ("http.lowSpeedLimit", "1"),
        ("http.lowSpeedTime", "30"),
        ("http.userAgent", network.user_agent),
    ]
    fds: list[int] = []
    if network.ca_bundle:
        config.append(("http.sslCAInfo", str(network.ca_bundle)))
    proxy = network.proxy_for(remote.host)
    if proxy:
        network.policy.check_name(remote.host, remote.port)
        split = urlsplit(proxy)
        user = unquote(split.username or "")
        place = split.netloc.rpartition("@")[2]
        config.append(("http.proxy", f"{split.scheme}://{quote(user)}@{place}" if user else proxy))
        if user:
            origin = f"{split.scheme}://{place}"
            fd, helper = stack.enter_context(
                one_shot(user, unquote(split.password or ""), origin=origin)
            )
            fds.append(fd)
            config.extend(helper)
    else:
        checked = network.policy.resolve(remote.host, remote.port, timeout=network.connect_seconds)
        places = ",".join(f"[{a}]" if ":" in a else a for a in checked.addresses)
        config.append(("http.proxy", ""))
        if ":" not in remote.host:  # an IPv6 address needs no pin, and curl takes none for it
            config.append(("http.curloptResolve", f"{remote.host}:{remote.port}:{places}"))
    if remote.credential:
        fd, helper = stack.enter_context(
            one_shot(remote.credential.user, remote.credential.secret, origin=remote.origin)
        )
        fds.append(fd)
        config.extend(helper)
    return Access(tuple(config), {}, tuple(fds))


def _over_ssh(remote: Remote, network: Network, stack: ExitStack) -> Access:
    known = remote.credential.known_hosts if remote.credential else ""
    if not known.strip():
        raise HostKeyUnknown(
            f"No known host key for {remote.host}: give the lines of a known_hosts file with the "
            "credential."
        )
    checked = network.policy.resolve(remote.host, remote.port, timeout=network.connect_seconds)
    hosts = stack.enter_context(in_memory(known.encode() + b"\n"))
    # ssh closes inherited descriptors at its start, so it opens ours by our process's own path
    place = f"/proc/{os.getpid()}/fd"
    alias = remote.host if remote.port == 22 else f"[{remote.host}]:{remote.port}"
    options = [
        f"HostName={checked.addresses[0]}",
        f"HostKeyAlias={alias}",
        "ProxyCommand=none",
        "ProxyJump=none",
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={place}/{hosts}",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        f"ConnectTimeout={max(1, int(network.connect_seconds))}",
        "ServerAliveInterval=10",
        "ServerAliveCountMax=3",
        "ForwardAgent=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "ControlMaster=no",
        "ControlPath=none",
        "CanonicalizeHostname=no",
        "PreferredAuthentications=publickey",
    ]
    if remote.credential:
        key = remote.credential.secret.strip().encode() + b"\n"
        options.append(f"IdentityFile={place}/{stack.enter_context(in_memory(key))}")
    ssh = "ssh -F none " + " ".join(f"-o '{o}'" for o in options)
    config = (("protocol.ssh.allow", "always"), ("protocol.version", "2"))
    return Access(config, {"GIT_SSH_COMMAND": ssh, "GIT_SSH_VARIANT": "ssh"}, ())
