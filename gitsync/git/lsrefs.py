"""One look at the tips of a remote.

Promise: a look over http(s) runs in this process, costs one request once the remote is known to
speak protocol v2, goes to the checked address and ends at one deadline in bounded memory. All names
are full refs, compared whole; names that git would refuse are dropped and counted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gitsync.git import child
from gitsync.git.child import ChildLimits, Guard
from gitsync.git.failure_text import failure
from gitsync.git.failures import (
    AddressRefused,
    AuthenticationFailed,
    GitFailure,
    LimitHit,
    ObjectFormatUnsupported,
    RemoteMalformed,
    RemoteThrottled,
    RemoteUnreachable,
)
from gitsync.git.pinned import Exchange, exchange
from gitsync.git.pktline import DELIM, FLUSH, PacketReader, packet
from gitsync.git.remote import Network, Remote, access, is_ref
from gitsync.model import Sha
from gitsync.text import printable

type Watch = Literal["default", "all"] | Sequence[str]

_ADVERTISED = "application/x-git-upload-pack-advertisement"
_RESULT = "application/x-git-upload-pack-result"
_ASKED = "application/x-git-upload-pack-request"
_V2 = {"Git-Protocol": "version=2"}
_HEX = frozenset("0123456789abcdef")
_REMEMBERED = 4096
_FINAL = (AuthenticationFailed, RemoteThrottled, RemoteUnreachable, AddressRefused, LimitHit)


@dataclass(frozen=True, slots=True)
class Tips:
    """What a remote shows: `heads` holds the watched branches that exist, by full ref.

    `default_branch` is the branch its HEAD names, born or not; `unborn` says that HEAD leads to no
    commit; `detached` is HEAD's commit if it names no branch. `dropped` counts refused ref names.
    """

    default_branch: str | None
    heads: Mapping[str, Sha]
    unborn: bool
    detached: Sha | None = None
    object_format: str = "sha1"
    dropped: int = 0


class _Memory:
    """Which remotes were seen to speak v2, and with what; the oldest are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, url: str) -> frozenset[str] | None:
        with self._lock:
            return self._known.get(url)

    def put(self, url: str, capabilities: frozenset[str]) -> None:
        with self._lock:
            self._known[url] = capabilities
            self._known.move_to_end(url)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, url: str) -> None:
        with self._lock:
            self._known.pop(url, None)


_spoken = _Memory()


def look(
    remote: Remote, network: Network, *, watch: Watch = "default", guard: Guard | None = None
) -> Tips:
    """The remote's HEAD and the tips of the watched branches."""
    if remote.scheme == "ssh":
        return _look_over_ssh(remote, network, watch, guard)
    with exchange(remote, network) as http:
        known = _spoken.get(remote.url)
        if known is not None:
            try:
                return _list(http, network, known, watch)
            except _FINAL:
                raise
            except GitFailure:
                # the server may have changed; the long way decides
                _spoken.forget(remote.url)
        return _discover(http, remote, network, watch)


def _discover(http: Exchange, remote: Remote, network: Network, watch: Watch) -> Tips:
    query = "info/refs?service=git-upload-pack"
    with http.ask("GET", query, kind=_ADVERTISED, headers=_V2) as answer:
        lines = _lines(answer.body)
        first = next(lines, None)
        if first is not None and first.startswith(b"# service="):
            first = next(lines, None)  # the flush after it
            first = next(lines, None) if first is None else first
        if first is None or first.rstrip(b"\n") != b"version 2":
            return _advertised(first, lines, network, watch)
        capabilities = frozenset(line.decode("utf-8", "replace").strip() for line in lines if line)
    if not any(c == "ls-refs" or c.startswith("ls-refs=") for c in capabilities):
        raise RemoteMalformed("The remote speaks protocol v2 without ls-refs.")
    tips = _list(http, network, capabilities, watch)
    _spoken.put(remote.url, capabilities)
    return tips


def _list(http: Exchange, network: Network, capabilities: frozenset[str], watch: Watch) -> Tips:
    """The v2 command `ls-refs`, narrowed to what is watched."""
    formats = {c.partition("=")[2] for c in capabilities if c.startswith("object-format=")}
    _check_format(formats)
    body = [packet("command=ls-refs\n")]
    if formats:
        body.append(packet("object-format=sha1\n"))
    body += [DELIM, packet("symrefs\n")]
    if any(c.startswith("ls-refs=") and "unborn" in c for c in capabilities):
        body.append(packet("unborn\n"))
    prefixes = {"default": (), "all": ("refs/heads/",)}[watch] if isinstance(watch, str) else watch
    body += [packet(f"ref-prefix {prefix}\n") for prefix in ("HEAD", *prefixes)]
    headers = {**_V2, "Content-Type": _ASKED}
    found = _Found(watch, network.look_refs)
    with http.ask(
        "POST", "git-upload-pack", kind=_RESULT, body=b"".join([*body, FLUSH]), headers=headers
    ) as answer:
        ended = False
        for line in _lines(answer.body):
            if line is None:
                ended = True
                break
            oid, _, rest = line.decode("utf-8", "surrogateescape").rstrip("\n").partition(" ")
            name, *attributes = rest.split(" ")
            targets = [a[14:] for a in attributes if a.startswith("symref-target:")]
            if name == "HEAD":
                found.head(None if oid == "unborn" else oid, targets[0] if targets else None)
            elif oid != "unborn":
                found.ref(oid, name)
        if not ended:
            raise RemoteMalformed("The ref list ends in the middle.")
    return found.tips()


def _advertised(
    first: bytes | None, lines: Iterator[bytes | None], network: Network, watch: Watch
) -> Tips:
    """The ref list of protocols v0 and v1; `first` is its first line."""
    if first is not None and first.rstrip(b"\n") == b"version 1":
        first = next(lines, None)
    if first is None:
        raise RemoteMalformed("The remote's ref list has no first line.")
    line, nul, caps = first.partition(b"\0")
    if not nul:
        raise RemoteMalformed("The remote's ref list has no capabilities.")
    words = caps.decode("utf-8", "surrogateescape").split()
    _check_format({w.partition("=")[2] for w in words if w.startswith("object-format=")})
    targets = [w[12:] for w in words if w.startswith("symref=HEAD:")]
    found = _Found(watch, network.look_refs)
    ended = False
    current: bytes | None = line
    while True:
        if current is None:
            ended = True
            break
        oid, _, name = current.decode("utf-8", "surrogateescape").rstrip("\n").partition(" ")
        if name == "HEAD":
            found.head(oid, targets[0] if targets else None)
        elif name != "capabilities^{}" and not name.endswith("^{}") and oid != "shallow":
            found.ref(oid, name)
        try:
            current = next(lines)
        except StopIteration:
            break
    if not ended:
        raise RemoteMalformed("The ref list ends in the middle.")
    return found.tips()


def _look_over_ssh(remote: Remote, network: Network, watch: Watch, guard: Guard | None) -> Tips:
    patterns = {"default": (), "all": ("refs/heads/*",)}[watch] if isinstance(watch, str) else watch
    limits = ChildLimits(seconds=network.look_seconds, output_bytes=network.look_bytes)
    with access(remote, network) as way:
        ended = child.run(
            ["ls-remote", "--symref", "--quiet", "--", remote.url, "HEAD", *patterns],
            limits=limits,
            config=way.config,
            env=way.env,
            guard=guard,
            pass_fds=way.fds,
        )
    if not ended.ok:
        raise failure(ended, limits=limits, action="look")
    found = _Found(watch, network.look_refs)
    target: str | None = None
    for line in ended.stdout.decode("utf-8", "surrogateescape").split("\n"):
        oid, _, name = line.partition("\t")
        if oid.startswith("ref: ") and name == "HEAD":
            target = oid.removeprefix("ref: ")
        elif name == "HEAD":
            found.head(oid, target)
        elif name:
            found.ref(oid, name)
    return found.tips()


class _Found:
    """Collects what is watched while the list is read."""

    def __init__(self, watch: Watch, most: int) -> None:
        self._watch, self._most = watch, most
        self._wanted = frozenset(() if isinstance(watch, str) else watch)
        self._heads: dict[str, Sha] = {}
        self._seen = self._dropped = 0
        self._target: str | None = None
        self._head: Sha | None = None

    def head(self, oid: str | None, target: str | None) -> None:
        """HEAD itself."""
        self._count()
        self._head = _sha(oid) if oid else None
        self._target = target if target and is_ref(target) else None

    def ref(self, oid: str, name: str) -> None:
        """Any other ref."""
        self._count()
        sha = _sha(oid)
        if not name.startswith("refs/heads/"):
            return
        if not is_ref(name):
            self._dropped += 1
        elif self._watch == "all" or name in self._wanted:
            self._heads[name] = sha

    def _count(self) -> None:
        self._seen += 1
        if self._seen > self._most:
            raise LimitHit(f"The remote lists more than {self._most} refs.", limit="refs")

    def tips(self) -> Tips:
        """The whole picture."""
        heads = dict(self._heads)
        wanted = self._watch in ("default", "all") or self._target in self._wanted
        if self._target and self._head and wanted:
            heads.setdefault(self._target, self._head)
        return Tips(
            default_branch=self._target,
            heads=heads,
            unborn=self._head is None,
            detached=self._head if self._target is None else None,
            dropped=self._dropped,
        )


def _sha(text: str) -> Sha:
    if len(text) == 64:
        raise ObjectFormatUnsupported("The repository uses SHA-256 object names.")
    if len(text) != 40 or not _HEX.issuperset(text):
        raise RemoteMalformed(f"The remote lists an object name that is none: {text[:80]!r}.")
    return Sha(text)


def _check_format(formats: set[str]) -> None:
    if formats and "sha1" not in formats:
        raise ObjectFormatUnsupported(
            f"The repository uses object format {printable(', '.join(sorted(formats)), limit=40)}; "
            "only sha1 is supported."
        )


def _lines(body: Iterable[bytes]) -> Iterator[bytes | None]:
    reader = PacketReader()
    for piece in body:
        for line in reader.feed(piece):
            if line is not None and line.startswith(b"ERR "):
                words = printable(line[4:].decode("utf-8", "replace").strip(), limit=200)
                raise RemoteMalformed(f"The remote says: {words}")
            yield line
    if reader.rest:
        raise RemoteMalformed("The remote's answer is cut off.")
