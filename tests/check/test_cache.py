"""What is kept between checks is bounded, right, and safe to share between threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import gitsync.check.cache as cache
from gitsync.check import inspect
from gitsync.check.cache import Memo, forget
from tests.check.trees import EVAL, MAIN, workspace


def test_results_without_an_id_live_for_one_check_only():
    counts = {"n": 0}

    def compute() -> int:
        counts["n"] += 1
        return counts["n"]

    memo = Memo()
    assert [memo.get("x", None, "a", compute), memo.get("x", None, "a", compute)] == [1, 1]
    assert memo.get("x", None, "b", compute) == 2
    assert Memo().get("x", None, "a", compute) == 3


def test_results_with_an_id_are_shared_and_their_number_is_bounded(monkeypatch):
    forget()
    monkeypatch.setattr(cache, "_LIMIT", 100)
    for n in range(1000):
        assert Memo().get("x", f"{n}", "", lambda n=n: n) == n
    assert len(cache._kept) <= 100
    assert Memo().get("x", "999", "", lambda: -1) == 999
    assert Memo().get("x", "0", "", lambda: -1) == -1
    forget()


def test_false_results_are_kept_too():
    forget()
    memo = Memo()
    assert memo.get("x", "1", "", lambda: None) is None
    assert memo.get("x", "1", "", lambda: 5) is None  # type: ignore[arg-type]
    forget()


def test_checks_in_threads_agree_while_the_cache_overflows(monkeypatch):
    forget()
    monkeypatch.setattr(cache, "_LIMIT", 40)
    trees = [
        {"rollouts/demo/main.py": MAIN + f"# {n}\n", "configs/eval/x.toml": EVAL + f"[s{n}]\n"}
        for n in range(8)
    ]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda n: inspect(workspace(trees[n % 8])), range(64)))
    for n, report in enumerate(reports):
        assert [(f.code, f.subject) for f in report.findings] == [("unknown-section", f"s{n % 8}")]
    forget()
