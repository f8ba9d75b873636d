"""Try a remote step by step, for a person who wants to know where it stops.

Promise: each step is reported on its own with what would help; the first that fails is the last.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from gitsync.git.failures import GitFailure, RefMissing, RemoteUnreachable, TlsFailed
from gitsync.git.lsrefs import Tips, look
from gitsync.git.pinned import tls_context
from gitsync.git.remote import Network, Remote
from gitsync.text import printable


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a probe: `policy`, `dns`, `tcp`, `tls`, `authentication` or `ref`.

    `branch` is the default branch (full ref), in the step `ref` of a remote that has one.
    """

    name: str
    ok: bool
    milliseconds: float
    message: str
    code: str = ""
    branch: str | None = None


def probe(remote: Remote, network: Network, *, ref: str = "") -> tuple[Step, ...]:
    """Try a remote and, if `ref` is given, whether that branch (full ref) is there."""
    steps: list[Step] = []
    proxy = network.proxy_for(remote.host) if remote.scheme != "ssh" else ""
    addresses: tuple[str, ...] = ()
    port = remote.port

    def resolved() -> str:
        nonlocal addresses, port
        if proxy:
            split = urlsplit(proxy)
            addresses, port = (split.hostname or "",), split.port or 3128
            return f"the proxy resolves {remote.host}"
        addresses = network.policy.resolve(remote.host, remote.port).addresses
        return ", ".join(addresses)

    def policy() -> str:
        network.policy.check_scheme(remote.scheme)
        network.policy.check_name(remote.host, remote.port)
        return f"{remote.scheme} is allowed"

    tips: list[Tips] = []

    def authenticated() -> str:
        tips.append(look(remote, network, watch=[ref] if ref else "default"))
        return "accepted" if remote.credential else "accepted without a credential"

    plan: list[tuple[str, Callable[[], str]]] = [
        ("policy", policy),
        ("dns", resolved),
        ("tcp", lambda: _connected(addresses, port, network)),
    ]
    if remote.scheme == "https" and not proxy:
        plan.append(("tls", lambda: _shaken(remote, addresses, network)))
    plan += [("authentication", authenticated), ("ref", lambda: _ref(tips[0], ref))]
    for name, what in plan:
        begun = time.monotonic()
        try:
            message, ok, code = what(), True, ""
        except GitFailure as e:
            message, ok, code = e.message, False, e.code
        is_born = name == "ref" and tips and not tips[0].unborn
        branch = tips[0].default_branch if is_born else None
        took = round((time.monotonic() - begun) * 1000, 1)
        steps.append(Step(name, ok, took, message, code, branch))
        if not ok:
            break
    return tuple(steps)


def _connected(addresses: tuple[str, ...], port: int, network: Network) -> str:
    why = "no address"
    for address in addresses:
        try:
            with socket.create_connection((address, port), timeout=network.connect_seconds):
                return f"{address} port {port}"
        except OSError as e:
            why = e.strerror or type(e).__name__
    raise RemoteUnreachable(f"No connection to port {port} of {', '.join(addresses)}: {why}.")


def _shaken(remote: Remote, addresses: tuple[str, ...], network: Network) -> str:
    context = tls_context(network.ca_bundle)
    try:
        place = (addresses[0], remote.port)
        with (
            socket.create_connection(place, timeout=network.connect_seconds) as plain,
            context.wrap_socket(plain, server_hostname=remote.host) as wrapped,
        ):
            return str(wrapped.version())
    except ssl.SSLError as e:
        why = getattr(e, "verify_message", "") or e.reason or "handshake failed"
        raise TlsFailed(
            f"{printable(str(why))}. A private certificate authority belongs into "
            "GITSYNC_CA_BUNDLE."
        ) from e
    except OSError as e:
        raise RemoteUnreachable(f"The TLS handshake broke: {e.strerror or e}.") from e


def _ref(tips: Tips, ref: str) -> str:
    if ref and ref not in tips.heads:
        raise RefMissing(f"There is no branch {printable(ref, limit=200)} at the remote.")
    if ref:
        return f"{printable(ref, limit=200)} is {tips.heads[ref]}"
    if tips.default_branch is None:
        return "no default branch" + (" yet: the repository is empty" if tips.unborn else "")
    state = "has no commit yet" if tips.unborn else f"is {tips.heads[tips.default_branch]}"
    return f"the default branch {printable(tips.default_branch, limit=200)} {state}"
