"""Which hosts may be connected to, and at which address.

Promise: a name is resolved once, every address of it is checked, and the checked addresses are the
ones connected to (decision 27). What is neither public nor listed is refused; the refusal names the
setting that would allow it.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gitsync.errors import ConfigError
from gitsync.git.failures import AddressRefused, RemoteTimeout, RemoteUnreachable

SETTING = "GITSYNC_ALLOWED_HOSTS"
SCHEMES_SETTING = "GITSYNC_ALLOWED_SCHEMES"

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Range = ipaddress.IPv4Network | ipaddress.IPv6Network
type Lookup = Callable[[str, int], list[str]]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
# answers for every virtual machine of one cloud, though the address looks public
_PLATFORM = ipaddress.IPv4Address("168.63.129.16")


def system_lookup(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system's resolver gives them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))


@dataclass(frozen=True, slots=True)
class Opening:
    """One entry of the allow-list: a host name, an address or a CIDR range, perhaps with a port."""

    host: str
    network: Range | None
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Opening:
        """`git.corp`, `git.corp:8443`, `.corp` (all below), `10.0.0.0/8`, `[fd00::1]:22`."""
        host, port = text.strip().lower(), ""
        if host.startswith("["):
            host, _, port = host[1:].partition("]")
            port = port.removeprefix(":")
        elif host.count(":") == 1:
            host, _, port = host.partition(":")
        if not host or (port and not port.isdecimal()):
            raise ConfigError(f"{SETTING}: {text!r} is no host, address or CIDR range.")
        try:
            network: Range | None = ipaddress.ip_network(host, strict=False)
        except ValueError as e:
            if "/" in host:
                raise ConfigError(f"{SETTING}: {text!r} is no CIDR range.") from e
            network = None
        return cls(host.rstrip("."), network, int(port) if port else None)

    def covers(self, host: str, address: Address, port: int) -> bool:
        """True if this entry allows the address, or the name it was found under."""
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return any(a in self.network for a in _meanings(address))
        if self.host.startswith("."):
            return host.endswith(self.host)
        return host == self.host


@dataclass(frozen=True, slots=True)
class Checked:
    """A host whose addresses were all allowed; connect to these and to no others."""

    host: str
    port: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which schemes and hosts are allowed; public addresses always are, others must be listed."""

    openings: tuple[Opening, ...] = ()
    schemes: tuple[str, ...] = ("https", "http", "ssh")
    lookup: Lookup = field(default=system_lookup)

    @classmethod
    def of(
        cls,
        allowed: tuple[str, ...] | list[str] = (),
        *,
        schemes: tuple[str, ...] = ("https", "http", "ssh"),
        lookup: Lookup = system_lookup,
    ) -> AddressPolicy:
        """A policy from the texts of the settings; `ConfigError` names a malformed one."""
        return cls(tuple(Opening.parse(text) for text in allowed), schemes, lookup)

    def check_scheme(self, scheme: str) -> None:
        """Refuse a scheme that is not listed."""
        if scheme not in self.schemes:
            raise AddressRefused(
                f"The scheme {scheme!r} is not allowed; allowed are {', '.join(self.schemes)} "
                f"(setting {SCHEMES_SETTING})."
            )

    def resolve(self, host: str, port: int, *, timeout: float = 10.0) -> Checked:
        """Look a host up and check every address it has."""
        host = host.lower().rstrip(".")
        addresses = self._addresses(host, port, timeout)
        for text in addresses:
            self._check(host, port, ipaddress.ip_address(text.partition("%")[0]))
        return Checked(host, port, tuple(addresses))

    def check_name(self, host: str, port: int) -> None:
        """What can be checked without resolving, when a proxy will resolve: literal addresses."""
        try:
            address = ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            if host != "localhost" and not host.endswith(".localhost"):
                return
            address = ipaddress.IPv4Address("127.0.0.1")
        self._check(host.lower(), port, address)

    def _addresses(self, host: str, port: int, timeout: float) -> list[str]:
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(self.lookup(host, port))
            except (OSError, UnicodeError) as e:
                answers.put(e)

        # the resolver has no deadline of its own, so it is asked in a thread we can leave behind
        threading.Thread(target=ask, name="gitsync-dns", daemon=True).start()
        try:
            answer = answers.get(timeout=max(0.01, timeout))
        except queue.Empty:
            raise RemoteTimeout(f"The name {host} was not resolved in time.", step="dns") from None
        if isinstance(answer, Exception) or not answer:
            raise RemoteUnreachable(f"The name {host} does not resolve.", step="dns")
        return answer

    def _check(self, host: str, port: int, address: Address) -> None:
        if is_public(address) or any(o.covers(host, address, port) for o in self.openings):
            return
        raise AddressRefused(
            f"{host} is {address}, which is not a public address. If this is meant, list "
            f"{host} or {address} in {SETTING}.",
            host=host,
            address=str(address),
        )


def is_public(address: Address) -> bool:
    """True only if the address, and every address wrapped in it, is a public unicast one."""
    return all(
        a.is_global
        and not (a.is_multicast or a.is_reserved or a.is_unspecified or a.is_loopback)
        and a != _PLATFORM
        for a in _meanings(address)
    )


def _meanings(address: Address) -> list[Address]:
    """The address and what may be reached through it: mapped, translated, tunnelled."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 0xFFFF):
        return [last]
    inner: list[Address] = [address]
    if address.sixtofour:
        inner.append(address.sixtofour)
    if address.teredo:
        inner.extend(address.teredo)
    return inner
