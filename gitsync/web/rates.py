"""How often somebody may try: sign-ins, device codes, submits.

Counts are kept in this process. The embedded engine is one process, so they are exact; several web
processes on PostgreSQL would each allow as many, and a restart forgets.
"""

from __future__ import annotations

import ipaddress
import math
import time
from typing import Annotated

from fastapi import Depends, Request
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from gitsync.errors import LimitExceeded

SIGN_IN_BY_PERSON = parse("10/15 minute")  # failures for one e-mail address from one place
SIGN_IN_BY_PLACE = parse("100/15 minute")  # failures from one place
SIGN_IN_OF_PERSON = parse("100/hour")  # failures for one e-mail address from anywhere
DEVICE_START = parse("30/minute")  # device logins begun from one place
DEVICE_POLL = parse("600/minute")  # polls from one place
USER_CODE = parse("20/minute")  # user codes tried by one person


class Rates:
    """Sliding windows by name and by who."""

    def __init__(self) -> None:
        self._windows = MovingWindowRateLimiter(MemoryStorage())

    def spend(self, limit: RateLimitItem, *who: str) -> None:
        """Count one try; `LimitExceeded` with `retry_after` if there were too many."""
        if not self._windows.hit(limit, *who):
            raise self._refusal(limit, who)

    def check(self, limit: RateLimitItem, *who: str) -> None:
        """The same without counting: where only failures count."""
        if not self._windows.test(limit, *who):
            raise self._refusal(limit, who)

    def count(self, limit: RateLimitItem, *who: str) -> None:
        """Count one failure."""
        self._windows.hit(limit, *who)

    def _refusal(self, limit: RateLimitItem, who: tuple[str, ...]) -> LimitExceeded:
        wait = max(
            1, math.ceil(self._windows.get_window_stats(limit, *who).reset_time - time.time())
        )
        return LimitExceeded(f"Too many tries. Try again in {wait} s.", retry_after=wait)


def rates_of(request: Request) -> Rates:
    """Those of this application."""
    return request.app.state.rates  # type: ignore[no-any-return]


async def _rates(request: Request) -> Rates:
    return rates_of(request)


RatesDep = Annotated[Rates, Depends(_rates)]


def place_of(request: Request) -> str:
    """Where a request comes from; of IPv6 the network, as one machine has many addresses."""
    host = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 6:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
