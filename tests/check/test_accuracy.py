"""The table of `docs/check.md` is what the benchmark finds."""

from __future__ import annotations

import re

import pytest

from benchmarks import accuracy


@pytest.mark.slow
def test_the_table_of_accuracy_is_up_to_date() -> None:
    written = accuracy.MARKS.search(accuracy.PAGE.read_text())
    assert written is not None
    rows = set(re.findall(r"^\| .*$", written[0], re.M))
    # griffe may be absent: then its rows cannot be found again
    found = set(re.findall(r"^\| .*$", accuracy.table(accuracy.scores()), re.M))
    assert found <= rows, "run `python -m benchmarks.accuracy`"
    ours = [row.split("|")[4:6] for row in rows if "gitsync check" in row]
    assert [[cell.strip() for cell in row] for row in ours] == [["0", "0"]] * 2


@pytest.mark.slow
def test_every_way_to_ask_tells_a_plain_rollout_from_one_without_grader(tmp_path) -> None:
    cases = {known.root.name: known for known in accuracy.corpus(tmp_path)}
    for way, ask in accuracy.ways().items():
        assert ask(cases["single-file-local"]) == "ok", way
        assert ask(cases["no-grader"]) == "error", way
