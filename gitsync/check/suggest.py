"""Did-you-mean: the nearest known name, by the rule of the workspace checks."""

from __future__ import annotations

from collections.abc import Iterable


def fold(name: str) -> str:
    """A name without what does not count: case, and `-` against `_`."""
    return name.lower().replace("_", "-")


def edits(left: str, right: str, *, most: int = 2) -> int:
    """Insertions, deletions, replacements and swaps of neighbours; `most + 1` if there are more."""
    if abs(len(left) - len(right)) > most or max(len(left), len(right)) > 200:
        return most + 1
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name at most two edits away, fewer than half its length; ties by alphabet."""
    best: tuple[int, str] | None = None
    for candidate in known:
        count = edits(fold(name), fold(candidate))
        if count <= 2 and count * 2 < len(name) and (best is None or (count, candidate) < best):
            best = (count, candidate)
    return best[1] if best else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence to append to a message, or nothing."""
    found = nearest(name, known)
    return f" Did you mean `{found}`?" if found else ""
