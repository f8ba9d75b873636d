"""HTTP requests to a remote that go to the checked address and end at one deadline.

Promise: no redirect is followed, no environment variable is read, the whole exchange (resolving,
connecting, every byte) shares one deadline, and a body is inflated and read up to a bound.
"""

from __future__ import annotations

import email.utils
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import httpcore

from gitsync.git.failures import (
    AuthenticationFailed,
    LimitHit,
    RemoteMalformed,
    RemoteMoved,
    RemoteThrottled,
    RemoteTimeout,
    RemoteUnreachable,
    RepositoryNotFound,
    TlsFailed,
)
from gitsync.git.remote import Network, Remote
from gitsync.text import printable

_PIECE = 64 * 1024
_RETRY_DEFAULT, _RETRY_LEAST, _RETRY_MOST = 60.0, 1.0, 3600.0
_contexts: dict[tuple[str, float], ssl.SSLContext] = {}
_contexts_lock = threading.Lock()


def tls_context(bundle: Path | None) -> ssl.SSLContext:
    """A verifying context; kept, as loading the certificates takes longer than a look."""
    key = (str(bundle or ""), bundle.stat().st_mtime if bundle else 0.0)
    with _contexts_lock:
        if key not in _contexts:
            _contexts[key] = ssl.create_default_context(cafile=str(bundle) if bundle else None)
        return _contexts[key]


class Deadline:
    """A point in time that all steps share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, most: float | None = None) -> float:
        """Seconds left, at most `most`; raises `RemoteTimeout` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise RemoteTimeout(f"The remote did not answer in full within {self.seconds:g} s.")
        return left if most is None else min(left, most)


class _Stream(httpcore.NetworkStream):
    """A connection whose every wait is cut at the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects to the addresses that the policy checked, or to the operator's proxy as it is."""

    def __init__(self, network: Network, deadline: Deadline, *, proxied: bool) -> None:
        self._network, self._deadline, self._proxied = network, deadline, proxied
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        places: tuple[str, ...] = (host,)
        most = self._network.connect_seconds
        if not self._proxied:
            left = self._deadline.left(most)
            places = self._network.policy.resolve(host, port, timeout=left).addresses
        failed: Exception | None = None
        for place in places:
            try:
                left = self._deadline.left(most)
                return _Stream(self._inner.connect_tcp(place, port, left), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as e:
                failed = e
        raise failed or httpcore.ConnectError("no address")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response whose body is still to be read."""

    status: int
    headers: Mapping[str, str]
    body: Iterator[bytes]


class Exchange:
    """Requests to one remote over one connection."""

    def __init__(self, remote: Remote, network: Network, pool: httpcore.ConnectionPool) -> None:
        self._remote, self._network, self._pool = remote, network, pool

    @contextmanager
    def ask(
        self,
        method: str,
        place: str,
        *,
        kind: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Answer]:
        """One request below the clone URL; yields only an answer of 200 and content type `kind`."""
        rows = {
            "Host": self._remote.authority,
            "User-Agent": self._network.user_agent,
            "Accept": kind,
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        if self._remote.credential:
            rows["Authorization"] = self._remote.credential.basic()
        url = httpcore.URL(
            scheme=self._remote.scheme,
            host=self._remote.host,
            port=self._remote.port,
            target=f"{self._remote.path}/{place}",
        )
        left = self._network.look_seconds
        timeouts = {"connect": left, "read": left, "write": left, "pool": left}
        with self._pool.stream(
            method,
            url,
            headers=list(rows.items()),
            content=body or None,
            extensions={"timeout": timeouts},
        ) as response:
            got = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers}
            self._judge(response.status, got, kind)
            yield Answer(response.status, got, self._inflated(response, got))

    def _judge(self, status: int, headers: Mapping[str, str], kind: str) -> None:
        # forges throttle with 403 too, and then say for how long
        if status in (429, 503) or (status == 403 and "retry-after" in headers):
            wait = retry_after(headers.get("retry-after", ""), now=datetime.now(UTC))
            raise RemoteThrottled(
                f"{self._remote.host} answers {status}; next try in {wait:g} s.",
                retry_after=wait,
                status=status,
            )
        if status in (401, 403, 407):
            raise AuthenticationFailed(
                f"{self._remote.host} answers {status}: it wants a credential, or another one.",
                status=status,
            )
        if status in (404, 410):
            raise RepositoryNotFound(
                f"{self._remote.host} has no repository at {printable(self._remote.path)}, or "
                "hides it from this credential.",
                status=status,
            )
        if 300 <= status < 400:
            raise self._moved(headers.get("location", ""))
        if status >= 500:
            raise RemoteUnreachable(f"{self._remote.host} answers {status}.", status=status)
        got = headers.get("content-type", "").partition(";")[0].strip().lower()
        if status != 200 or got != kind:
            raise RemoteMalformed(
                f"{self._remote.host} answers {status} with content type {printable(got)!r}, "
                "which is no Git answer (perhaps a login page).",
                status=status,
            )

    def _moved(self, location: str) -> RemoteMoved:
        try:
            to = urlsplit(urljoin(self._remote.url + "/info/refs", location))
            host, port = to.hostname or "", to.port
        except ValueError:
            return RemoteMoved("The remote redirects to an address that is none.", location="")
        authority = f"{host}:{port}" if port else host
        path = to.path.removesuffix("/info/refs").removesuffix("/git-upload-pack")
        target = printable(f"{to.scheme}://{authority}{path}", limit=500)
        return RemoteMoved(
            f"The remote redirects to {target}. If this is meant, connect that URL.",
            location=target,
            host=printable(host, limit=300),
            same_host=host == self._remote.host and to.scheme in ("http", "https"),
        )

    def _inflated(self, response: httpcore.Response, headers: Mapping[str, str]) -> Iterator[bytes]:
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip", "x-gzip", ""):
            raise RemoteMalformed(f"Unknown content encoding {printable(encoding)!r}.")
        inflater = zlib.decompressobj(31) if "gzip" in encoding else None
        total = 0
        for piece in response.iter_stream():
            rest = piece
            while rest:
                if inflater is None:
                    data, rest = rest, b""
                else:
                    try:
                        data = inflater.decompress(rest, _PIECE)
                    except zlib.error as e:
                        raise RemoteMalformed("The answer is no valid gzip.") from e
                    rest = inflater.unconsumed_tail
                total += len(data)
                if total > self._network.look_bytes:
                    raise LimitHit(
                        f"The ref list is larger than {self._network.look_bytes} bytes.",
                        limit="bytes",
                    )
                yield data


def retry_after(text: str, *, now: datetime) -> float:
    """Seconds to wait, from a number or a date, within reason; a minute if it says nothing."""
    text = text.strip()[:100]
    try:
        seconds = float(text) if text.isascii() and text.isdecimal() else _until(text, now)
    except (ValueError, TypeError, OverflowError):
        return _RETRY_DEFAULT
    return min(max(seconds, _RETRY_LEAST), _RETRY_MOST)


def _until(text: str, now: datetime) -> float:
    at = email.utils.parsedate_to_datetime(text)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()


@contextmanager
def exchange(remote: Remote, network: Network) -> Iterator[Exchange]:
    """Talk to a remote within `network.look_seconds`; every failure comes as one of ours."""
    network.policy.check_scheme(remote.scheme)
    deadline = Deadline(network.look_seconds)
    proxy = network.proxy_for(remote.host)
    if proxy:
        network.policy.check_name(remote.host, remote.port)
    try:
        tls = tls_context(network.ca_bundle)
        with httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=1,
            retries=0,
            network_backend=_Backend(network, deadline, proxied=bool(proxy)),
            proxy=_proxy(proxy, tls) if proxy else None,
        ) as pool:
            yield Exchange(remote, network, pool)
    except httpcore.TimeoutException as e:
        raise RemoteTimeout(f"{remote.host} did not answer in time.", step="http") from e
    except (httpcore.ConnectError, ssl.SSLError) as e:
        raise _unconnected(remote, e) from e
    except httpcore.ProxyError as e:
        raise RemoteUnreachable(f"The proxy refuses: {printable(str(e))}.", step="proxy") from e
    except (httpcore.RemoteProtocolError, httpcore.LocalProtocolError) as e:
        if "disconnected" in str(e):
            raise RemoteUnreachable(f"{remote.host} hung up.", step="http") from e
        raise RemoteMalformed(f"{remote.host}: {printable(str(e), limit=200)}.", step="http") from e
    except (httpcore.NetworkError, OSError) as e:
        raise RemoteUnreachable(
            f"The connection to {remote.host} broke: {printable(str(e), limit=200)}.", step="tcp"
        ) from e


def _unconnected(remote: Remote, error: Exception) -> Exception:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", "") or cause.reason or "handshake failed"
            return TlsFailed(
                f"TLS with {remote.host} failed: {printable(str(why))}. A private certificate "
                "authority belongs into GITSYNC_CA_BUNDLE.",
                step="tls",
            )
        cause = cause.__cause__ or cause.__context__
    return RemoteUnreachable(
        f"No connection to {remote.authority}: {printable(str(error), limit=200)}.", step="tcp"
    )


def _proxy(url: str, tls: ssl.SSLContext) -> httpcore.Proxy:
    split = urlsplit(url)
    auth = (
        (unquote(split.username).encode(), unquote(split.password or "").encode())
        if split.username
        else None
    )
    place = split.netloc.rpartition("@")[2]
    return httpcore.Proxy(
        f"{split.scheme}://{place}", auth=auth, ssl_context=tls if split.scheme == "https" else None
    )
