"""Git's packet lines: read them from any stream of bytes, write them.

Promise: reading keeps at most one packet in memory and refuses lengths that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.git.failures import RemoteMalformed

FLUSH = b"0000"
DELIM = b"0001"
LARGEST = 65520


def packet(data: bytes | str) -> bytes:
    """One packet."""
    raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return b"%04x" % (len(raw) + 4) + raw


class PacketReader:
    """Splits what is fed into packets; None stands for a flush, b"" for other control packets."""

    def __init__(self) -> None:
        self._buffer = b""

    @property
    def rest(self) -> bytes:
        """What was fed and is no whole packet yet."""
        return self._buffer

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The packets that are complete now; `RemoteMalformed` for an impossible length."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= 4:
                size = _size(self._buffer[at : at + 4])
                if size < 4:
                    at += 4
                    yield None if size == 0 else b""
                    continue
                if len(self._buffer) - at < size:
                    break
                start, at = at + 4, at + size
                yield self._buffer[start:at]
        finally:
            self._buffer = self._buffer[at:]


def _size(digits: bytes) -> int:
    # int() alone would take "+0a " and "0x1f" too
    if not all(d in b"0123456789abcdefABCDEF" for d in digits):
        raise RemoteMalformed("The remote sent a packet whose length is no number.")
    size = int(digits, 16)
    if size == 3 or size > LARGEST:
        raise RemoteMalformed("The remote sent a packet of an impossible length.")
    return size
