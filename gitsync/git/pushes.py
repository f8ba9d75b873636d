"""What a push asks for and what became of it, read from the packets as they pass.

Promise: at most one packet and the bounded list of commands are kept; what cannot be understood is
passed on untouched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from gitsync.git.failures import RemoteMalformed
from gitsync.git.pktline import FLUSH, PacketReader, packet
from gitsync.model import ZERO_SHA, Sha
from gitsync.text import printable

_COMMAND = re.compile(rb"([0-9a-f]{40}) ([0-9a-f]{40}) ([^\0\n]+)")
_LINE = 900


@dataclass(frozen=True, slots=True)
class Command:
    """One ref that a push wants to move; `old` or `new` is None for a creation or a deletion."""

    ref: str
    old: Sha | None
    new: Sha | None


@dataclass(frozen=True, slots=True)
class Pushed:
    """How a push ended: the commands that were carried out, and the refused ones with a reason.

    `complete` is False if git did not say so (it was killed, or the client wanted no report): then
    any of the commands may have been carried out.
    """

    done: tuple[Command, ...]
    refused: tuple[tuple[Command, str], ...]
    complete: bool


@dataclass(slots=True)
class Request:
    """The head of a push request: commands and capabilities, up to the first flush."""

    most: int = 20_000
    commands: list[Command] = field(default_factory=list)
    capabilities: frozenset[str] = frozenset()
    whole: bool = False
    _reader: PacketReader = field(default_factory=PacketReader)
    _first: bool = True

    def feed(self, data: bytes) -> None:
        """Take body bytes until `whole`; `RemoteMalformed` if they are no push."""
        for line in self._reader.feed(data):
            if line is None:
                self.whole = True
                return
            if self._first:
                line, _, words = line.partition(b"\0")
                self.capabilities = frozenset(words.decode("utf-8", "replace").split())
                self._first = False
            found = _COMMAND.match(line)
            if found is None:
                continue
            if len(self.commands) >= self.most:
                raise RemoteMalformed(f"A push moves at most {self.most} refs.")
            old, new = (found[n].decode("ascii") for n in (1, 2))
            self.commands.append(
                Command(
                    ref=found[3].decode("utf-8", "surrogateescape"),
                    old=None if old == ZERO_SHA else Sha(old),
                    new=None if new == ZERO_SHA else Sha(new),
                )
            )

    @property
    def has_band(self) -> bool:
        """True if the client reads messages beside the report."""
        return "side-band-64k" in self.capabilities

    @property
    def wants_report(self) -> bool:
        """True if the client wants to hear what became of each ref."""
        return bool({"report-status", "report-status-v2"} & self.capabilities)

    def refusal(self, reason: str) -> bytes:
        """A whole answer that refuses every command for a reason of ours."""
        why = printable(reason, limit=_LINE)
        rows = [packet("unpack ok\n"), *(packet(f"ng {c.ref} {why}\n") for c in self.commands)]
        report = b"".join([*rows, FLUSH])
        if not self.has_band:
            return report
        cut = [report[at : at + 60_000] for at in range(0, len(report), 60_000)]
        return b"".join([*(packet(b"\x01" + part) for part in cut), FLUSH])


class Report:
    """Reads git's answer to a push and holds its last flush back, so that lines can go before it.

    A client prints messages until that flush; git's own post-receive output comes at the same
    place, after the report, so every client knows how to read it.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._outer = PacketReader()
        self._inner = PacketReader()
        self._told: dict[str, str | None] = {}
        self._broken = not request.has_band
        self.open = False

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the answer, give back the ones to pass on now."""
        if self._broken:
            self._read(data)
            return data
        passed: list[bytes] = []
        try:
            for line in self._outer.feed(data):
                if self.open:
                    # something follows the flush: it was not the last one
                    passed.append(FLUSH)
                    self.open = False
                if line is None:
                    self.open = True
                elif line:
                    passed.append(packet(line))
                    if line[:1] == b"\x01":
                        self._read(line[1:])
        except RemoteMalformed:
            self._broken = True
            passed.append(self._outer.rest)
        return b"".join(passed)

    def _read(self, data: bytes) -> None:
        try:
            for line in self._inner.feed(data):
                words = (line or b"").decode("utf-8", "surrogateescape").rstrip("\n").split(" ", 2)
                if words[0] == "ok" and len(words) > 1:
                    self._told[words[1]] = None
                elif words[0] == "ng" and len(words) > 1:
                    self._told[words[1]] = words[2] if len(words) > 2 else "refused"
        except RemoteMalformed:
            self._told.clear()

    def last(self) -> bytes:
        """What must still be passed on after the lines."""
        return FLUSH if self.open else self._outer.rest

    def pushed(self) -> Pushed:
        """What became of the commands."""
        commands = self._request.commands
        refused = [(c, why) for c in commands if (why := self._told.get(c.ref)) is not None]
        return Pushed(
            done=tuple(c for c in commands if self._told.get(c.ref, "") is None),
            refused=tuple(refused),
            complete=all(c.ref in self._told for c in commands),
        )


def line_packets(lines: Iterable[str]) -> bytes:
    """Lines as messages that a client shows as `remote: gitsync: …`."""
    texts = ("gitsync: " + printable(line, limit=_LINE) + "\n" for line in lines)
    return b"".join(packet(b"\x02" + text.encode("utf-8", "replace")) for text in texts)
