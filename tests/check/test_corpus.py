"""Every workspace case of the corpus: as a working copy and as the commit made from it."""

from __future__ import annotations

import pytest

from gitsync.check import WorkingCopy, inspect
from gitsync.git.objects import open_commit
from gitsync.model import Report
from tests.check.corpus import Case, cases, differences, git, materialise

CASES = cases()


def test_the_corpus_is_there():
    assert len(CASES) >= 84


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_case(case: Case, tmp_path):
    root = materialise(case, tmp_path / "w")
    on_disk = inspect(WorkingCopy(root))
    assert differences(case, [f.to_json() for f in on_disk.findings]) == []
    assert on_disk.verdict == case.expected["verdict"], on_disk.rollouts
    committed = inspect(open_commit(root / ".git", git(root, "rev-parse", "HEAD")))
    assert committed.findings == on_disk.findings
    assert committed.rollouts == on_disk.rollouts
    assert Report.from_json(committed.to_json()) == committed
