"""Limits, hostile sources, links and locations of the entrypoint check."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gitsync.check.codes_entrypoint import ENTRYPOINT_CODES
from gitsync.check.python import NamedAt, check_entrypoint
from gitsync.check.python.check import Check
from gitsync.model import CheckOptions, EntrypointReport
from tests.check.cases import all_cases
from tests.check.folder import Link, Memory

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


OPTIONS = CheckOptions()
GOOD = """\
from osmosis_ai.rollout import AgentWorkflow, Grader, LocalBackend
from osmosis_ai.rollout.server import create_rollout_server
class Flow(AgentWorkflow):
    async def run(self, ctx):
        return []
class Score(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)
def main():
    create_rollout_server(backend=LocalBackend(workflow=Flow, grader=Score))
"""
TOML = '[project]\nname = "demo"\ndependencies = ["osmosis-ai[server]"]\n'


def check(
    files: dict[str, str | bytes | Link],
    entrypoint: str = "main.py",
    *,
    rollout: str = "demo",
    options: CheckOptions = OPTIONS,
    named_at: NamedAt | None = None,
) -> EntrypointReport:
    files = {"rollouts/demo/pyproject.toml": TOML, **files}
    return check_entrypoint(Memory(files), rollout, entrypoint, options=options, named_at=named_at)


def main(text: str | bytes, **more: str | bytes | Link) -> EntrypointReport:
    files: dict[str, str | bytes | Link] = {"rollouts/demo/main.py": text}
    files |= {f"rollouts/demo/{name}.py": value for name, value in more.items()}
    return check(files)


def codes(report: EntrypointReport) -> list[str]:
    return sorted({f.code for f in report.findings})


def test_the_plain_case_is_ok() -> None:
    report = main(GOOD)
    assert (report.verdict, report.workflow, report.grader) == ("ok", "main:Flow", "main:Score")
    assert report.findings == ()


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"max_file_bytes": 100}, "main.py"),
        ({"max_modules": 1}, "other.py"),
        ({"max_entrypoint_bytes": 600}, "other.py"),
        ({"max_file_tokens": 40}, "main.py"),
        ({"max_entrypoint_tokens": 200}, "other.py"),
    ],
)
def test_each_limit_is_a_finding_at_the_file_over_it(changed: dict, where: str) -> None:
    other = "VALUES = [" + ", ".join(str(n) for n in range(200)) + "]\n"
    report = check(
        {"rollouts/demo/main.py": "import other\n" + GOOD, "rollouts/demo/other.py": other},
        options=replace(OPTIONS, **changed),
    )
    assert report.verdict == "unresolvable"
    assert [(f.code, f.path) for f in report.findings] == [
        ("source-limit", f"rollouts/demo/{where}")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "while True:\n    pass\n",
        "def f(n):\n    return f(n) + f(n)\nf(1)\n",
        "x = 0\nwhile x < 10**12:\n    x += 1\n",
        "a = [1]\nfor i in a:\n    a.append(i)\n",
        "x = 'a'\nfor i in range(1000):\n    x = x + x\n",
        "def f(n):\n    for i in range(100):\n        f(n + 1)\nf(0)\n",
        "x = 9 ** 9 ** 9 ** 9\n",
        "x = 'ab' * 10 ** 12\n",
        "x = [0] * 10 ** 12\n",
        "x = '%1000000000000d' % 1\n",
        "x = '%500000000s' % 'a'\n",
        "x = (0,)\nwhile len(x) < 10**8:\n    x = x + x\n",
        "x = [1]\nwhile True:\n    x += x\n",
        "x = 1 << 10 ** 12\n",
        "x = f'{1:{10**9}}'\n",
        "x = '{:>999999999}'.format(1)\n",
        "x = '' .join(str(n) for n in range(10 ** 9))\n",
        "x = list(range(10 ** 10))\n",
        "x = 'a'.replace('', 'b' * 4000).replace('', 'c' * 4000).replace('', 'd' * 4000)\n",
        "x = 'a'.ljust(10 ** 11)\n",
        "x = (1,) * 10 ** 10\n",
    ],
)
def test_code_that_would_run_for_ever_or_fill_the_memory_ends_in_time(text: str) -> None:
    begun = time.process_time()
    report = main(GOOD + text)
    assert time.process_time() - begun < 6
    assert not any("The checker failed" in f.message for f in report.findings)


def test_values_nested_without_end_are_not_followed_to_the_end() -> None:
    deep = "x = ()\nfor a in range(190):\n    for b in range(100):\n        x = (x,)\ny = x == x\n"
    assert main(GOOD + deep).verdict in ("ok", "unresolvable")


def nested(depth: int) -> dict[str, str]:
    return {
        "sum": "x = " + " + ".join(["1"] * depth),
        "attributes": "import os\nx = os" + ".y" * depth,
        "calls": "import acme\nx = acme" + "()" * depth,
        "elif": "import os\nif os.name == '1': pass\n" + "elif os.name == '2': pass\n" * depth,
        "ternary": "x = " + "1 if None else " * depth + "2",
        "not": "x = " + "not " * depth + "1",
        "items": "import os\nx = os.y" + "[0]" * depth,
        "lambda": "x = " + "lambda: " * min(depth, 900) + "1",
    }


@pytest.mark.parametrize("kind", nested(1))
@pytest.mark.parametrize("depth", [60, 900, 2500, 4000, 20_000])
def test_deep_nesting_gives_an_answer(kind: str, depth: int) -> None:
    report = main(GOOD + nested(depth)[kind] + "\n")
    assert not any("The checker failed" in f.message for f in report.findings), report.findings
    if depth >= 4000 and kind != "lambda":
        assert codes(report) in (["too-complex"], ["source-limit"])
    elif depth <= 900:
        assert report.verdict in ("ok", "error")
        assert "too-complex" not in codes(report)


@pytest.mark.parametrize("size", [2_000, 9_000])
def test_a_hostile_number_of_tokens_is_refused_cheaply(size: int) -> None:
    begun = time.process_time()
    report = main("a\n" * size * 50)
    assert time.process_time() - begun < 5
    if size * 100 > OPTIONS.max_file_tokens:
        assert codes(report) == ["source-limit"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), "ok"),
        (GOOD.replace("\n", "\r\n").encode(), "ok"),
        (GOOD.replace("\n", "\r").encode(), "ok"),
        (b"# -*- coding: latin-1 -*-\nNAME = '\xe9'\n" + GOOD.encode(), "ok"),
        (
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nX = '\x80'\n" + GOOD.encode(),
            "ok",
        ),
        (b"# coding: utf-8\nNAME = '\xe9'\n" + GOOD.encode(), "error"),
        (b"NAME = '\xff\xfe'\n" + GOOD.encode(), "error"),
        (b"# caf\xe9\n" + GOOD.encode() + b"# \xff\n", "ok"),  # Python does not read comments
        (b"# coding: no-such-codec\n" + GOOD.encode(), "error"),
        (b"# coding: rot13\n" + GOOD.encode(), "error"),
        (b"# coding: punycode\n" + GOOD.encode(), "unresolvable"),
        (GOOD.encode("utf-16"), "error"),
        (GOOD.encode() + b"\0", "error"),
        (b"\x0c\n" + GOOD.encode(), "ok"),
        (GOOD.encode() + "größe = 1\nℌ = 2\n".encode(), "ok"),
    ],
)
def test_sources_are_decoded_as_python_does(data: bytes, expected: str) -> None:
    assert main(data).verdict == expected


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("def f(a, a): pass", 10),
        ("def f[T, T](a): pass", 10),
        ("print(end='', end='')", 15),
        ("def f(): from os import *", 25),
        ("def f(): nonlocal gone", 10),
        ("X = '\xe9'", 5),
    ],
)
def test_a_syntax_error_stands_where_python_puts_it(line: str, column: int) -> None:
    data = (GOOD + line + "\n").encode("latin-1")
    with pytest.raises(SyntaxError) as raised:
        compile(data, "main.py", "exec")
    assert (raised.value.lineno, raised.value.offset) == (11, column)
    assert [(f.code, f.line, f.column) for f in main(data).findings] == [
        ("syntax-error", 11, column)
    ]


def test_columns_count_characters() -> None:
    report = main(GOOD + "größe = 'ä'; missing_name\n")
    assert [(f.code, f.line, f.column) for f in report.findings] == [("import-error", 11, 14)]


@pytest.mark.parametrize(
    ("files", "entrypoint", "code"),
    [
        ({}, "main.py", "entrypoint-missing"),
        ({"rollouts/demo/main.py/x": ""}, "main.py", "entrypoint-missing"),
        ({"rollouts/demo/main.txt": ""}, "main.txt", "entrypoint-not-python"),
        ({}, "/rollouts/demo/main.py", "entrypoint-outside-rollout"),
        ({"rollouts/other/main.py": ""}, "../other/main.py", "entrypoint-outside-rollout"),
        ({}, "../../../main.py", "entrypoint-outside-rollout"),
        ({"rollouts/demo/flows.py": ""}, "../demo/main.py", "entrypoint-missing"),
        (
            {"rollouts/demo/main.py": Link("../../x.py"), "x.py": ""},
            "main.py",
            "entrypoint-outside-rollout",
        ),
        ({"rollouts/demo/main.py": Link("/etc/passwd")}, "main.py", "entrypoint-missing"),
        ({"rollouts/demo/main.py": Link("../../../x.py")}, "main.py", "entrypoint-missing"),
        ({"rollouts/demo/main.py": Link("main.py")}, "main.py", "entrypoint-missing"),
        ({"rollouts/demo/main.py": Link("gone.py")}, "main.py", "entrypoint-missing"),
    ],
)
def test_where_the_entrypoint_is(files: dict, entrypoint: str, code: str) -> None:
    named = NamedAt("configs/eval/demo.toml", 2, 11, 3, 14)
    report = check(files, entrypoint, named_at=named)
    assert [(f.code, f.path, f.line, f.column) for f in report.findings] == [
        (code, "configs/eval/demo.toml", 3, 14)
    ]


@pytest.mark.parametrize("entrypoint", ["../demo/main.py", "kit/../main.py", "..kit/main.py"])
def test_dots_may_lead_back_into_the_rollout(entrypoint: str) -> None:
    files = {"rollouts/demo/main.py": GOOD, "rollouts/demo/kit/x.py": ""}
    report = check(files | {"rollouts/demo/..kit/main.py": GOOD}, entrypoint)
    assert report.verdict == "ok"


def test_a_missing_rollout_is_reported_where_the_config_names_it() -> None:
    named = NamedAt("configs/eval/demo.toml", 2, 11, 3, 14)
    for where, expected in ((named, (named.path, 2, 11)), (None, ("rollouts", 1, 1))):
        report = check({}, rollout="gone", named_at=where)
        assert [(f.code, f.path, f.line, f.column) for f in report.findings] == [
            ("rollout-missing", *expected)
        ]


@pytest.mark.parametrize("name", ["../demo", "a/b", "", "..", ".", "a\\b", "a\0b"])
def test_a_rollout_name_with_a_separator_is_refused(name: str) -> None:
    assert codes(check({"rollouts/demo/main.py": GOOD}, rollout=name)) == [
        "entrypoint-outside-rollout"
    ]


def test_links_inside_the_commit_are_followed() -> None:
    files: dict[str, str | bytes | Link] = {
        "common/flows.py": "from osmosis_ai.rollout import AgentWorkflow\n"
        "class Shared(AgentWorkflow):\n    async def run(self, ctx): ...\n",
        "rollouts/demo/flows.py": Link("../../common/flows.py"),
        "rollouts/demo/kit": Link("../../common"),
        "rollouts/demo/main.py": "from flows import Shared\n"
        + GOOD.replace("class Flow", "class _F"),
    }
    assert codes(check(files)) == ["multiple-workflows"]
    files["rollouts/demo/main.py"] = "import kit.flows\n" + GOOD
    assert check(files).verdict == "ok"


def test_a_broken_pyproject_does_not_hide_the_classes() -> None:
    files = {"rollouts/demo/pyproject.toml": "x = " + "[" * 400, "rollouts/demo/main.py": GOOD}
    report = check(files)
    assert codes(report) == ["bad-pyproject"]
    assert report.workflow == "main:Flow"


def test_messages_are_safe_to_print() -> None:
    report = main(GOOD + "raise RuntimeError('\x1b[31m\u202e')\n")
    assert all(f.message.isprintable() for f in report.findings)
    report = check({"rollouts/demo/a\x1b.txt": ""}, "a\x1b.txt")
    assert all(f.message.isprintable() and "\x1b" not in f.subject for f in report.findings)


def test_an_internal_failure_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (KeyError("x"), RecursionError(), MemoryError()):

        def fail(self: Check, error: Exception = error) -> EntrypointReport:
            raise error

        monkeypatch.setattr(Check, "run", fail)
        report = main(GOOD)
        assert report.verdict == "unresolvable"
        assert [f.code for f in report.findings] == ["unresolvable"]
        assert type(error).__name__ in report.findings[0].message


def test_every_code_is_explained_and_no_other_is_used() -> None:
    explained = {c.code for c in ENTRYPOINT_CODES}
    assert len(explained) == len(ENTRYPOINT_CODES) == 34
    used = {code for case in all_cases() for code in case.codes}
    assert used <= explained


NOISE = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(NOISE, st.integers(0, len(GOOD)), st.integers(0, 40))
@example(b"# coding: utf_7\n", 0, 0)
@example(b"\x00", 10, 0)
def test_any_bytes_get_an_answer(noise: bytes, at: int, cut: int) -> None:
    data = GOOD.encode()
    report = main(data[:at] + noise + data[at + cut :])
    assert not any("The checker failed" in f.message for f in report.findings), report.findings


TOKENS = [
    *"()[]{}:,.=+-*/%@&|^~<>\\\"'#;!",
    "\n",
    "\n    ",
    "\n        ",
    " ",
    "class ",
    "def ",
    "async ",
    "await ",
    "yield ",
    "return ",
    "if ",
    "else:",
    "elif ",
    "try:",
    "except ",
    "finally:",
    "with ",
    "for ",
    "while ",
    "in ",
    "is ",
    "not ",
    "lambda ",
    "global ",
    "nonlocal ",
    "del ",
    "import ",
    "from ",
    "match ",
    "case ",
    "type ",
    "None",
    "True",
    "Flow",
    "Score",
    "AgentWorkflow",
    "Grader",
    "self",
    "ctx",
    "super()",
    "type(",
    "globals()",
    "exec(",
    "getattr(",
    "__all__",
    "*",
    "**",
    "->",
    ":=",
    "1",
    "0",
    "'a'",
    "f'{x}'",
    "b''",
    "...",
    "_",
    "x",
    "os",
    "import os\n",
    "raise ",
    "assert ",
]


@pytest.mark.parametrize("seed", range(4))
def test_shuffled_tokens_get_an_answer(seed: int) -> None:
    rng = Random(seed)
    lines = GOOD.split("\n")
    for _ in range(150):
        mutated = list(lines)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated))
            kind = rng.randint(0, 3)
            if kind == 0:
                mutated.insert(at, "".join(rng.choices(TOKENS, k=rng.randint(1, 12))))
            elif kind == 1:
                mutated[at] += rng.choice(TOKENS)
            elif kind == 2:
                del mutated[at]
            else:
                mutated.insert(at, rng.choice(lines))
        report = main("\n".join(mutated))
        assert not any("The checker failed" in f.message for f in report.findings), mutated
