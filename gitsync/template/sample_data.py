"""The rows of `data/multiply.jsonl`: products of decimal factors, the same on every machine.

Promise: `multiply_jsonl()` is a pure function of its arguments. Numbers come from SHA-256 and
labels from exact decimal arithmetic, so neither a Python version nor a float can change a byte.
"""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal

ROWS = 240
SYSTEM_PROMPT = (
    "Multiply all the factors that the user lists. If you have a tool for multiplication, use it "
    "for every single step instead of calculating yourself. Finish with the product, rounded to "
    "four decimal places, on a line of its own after four hash signs:\n"
    "#### -12.3450\n"
    "Write it in plain decimal notation: digits and one point, no thousands separators, no "
    "exponent, no unit, and nothing after it."
)
FACTOR_NAMES = ("width", "height", "depth", "scale")
_PLACES = Decimal("0.0001")


def _number(seed: str, low: int, high: int) -> int:
    """An integer in [low, high] that depends on `seed` alone."""
    digest = hashlib.sha256(seed.encode()).digest()
    return low + int.from_bytes(digest[:8], "big") % (high - low + 1)


def _factors(row: int) -> tuple[Decimal, ...]:
    """Three or four factors between 0.1 and 20 in size, with one or two decimals."""
    count = 3 + row % 2
    factors = []
    for place in range(count):
        seed = f"multiply/{row}/{place}"
        decimals = _number(f"{seed}/decimals", 1, 2)
        size = _number(f"{seed}/size", 1, 20) * 10**decimals
        digits = size - _number(f"{seed}/digits", 0, 9 * 10 ** (decimals - 1))
        sign = -1 if _number(f"{seed}/sign", 0, 3) == 0 else 1
        factors.append(Decimal(sign * digits).scaleb(-decimals))
    return tuple(factors)


def multiply_jsonl(rows: int = ROWS) -> bytes:
    """The data file: `system_prompt`, `user_prompt`, `ground_truth` per line, no row twice."""
    lines: list[str] = []
    seen: set[tuple[Decimal, ...]] = set()
    number = 0
    while len(lines) < rows:
        factors = _factors(number)
        number += 1
        if factors in seen:
            continue
        seen.add(factors)
        product = Decimal(1)
        for factor in factors:
            product *= factor
        listed = (f"{name} = {value}" for name, value in zip(FACTOR_NAMES, factors, strict=False))
        row = {
            "system_prompt": SYSTEM_PROMPT,
            "user_prompt": "\n".join(("What is the product of these factors?", *listed)),
            "ground_truth": str(product.quantize(_PLACES)),
        }
        lines.append(json.dumps(row, ensure_ascii=True))
    return ("\n".join(lines) + "\n").encode()
