"""Thousands of generated files, judged by us and by the SDK or the reference validator.

The SDK refuses a file exactly if we give it a code that the workspace checks mark as the SDK's.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from gitsync.check import inspect
from gitsync.check.configs import kind_of, read_config
from gitsync.check.data import check_rows
from tests.check.corpus import CASES, cases
from tests.check.fuzz import guided_fuzz
from tests.check.oracles import (
    SDK_CODES,
    UPLOAD_CODES,
    config_loads,
    data_uploads,
    skill_is_valid,
)
from tests.check.trees import BENCHMARK, EVAL, TRAINING, workspace

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


VALUES = [
    '"x"',
    '""',
    '"',
    '"',
    "5",
    "0",
    "-1",
    "1.5",
    "true",
    "[]",
    '["A"]',
    '["A","A"]',
    '["a_b"]',
    "[1]",
    "{}",
    '{a="b"}',
    '{A="b"}',
    "nan",
    "inf",
    "1979-05-27",
    '"main"',
    '"my\\tbranch"',
    '"abc1234"',
    '"ABCDEF1"',
    '"zzzzzzz"',
    '"parity"',
    '"provider"',
    '"endpoint"',
    '"hosted"',
    '"cursor-cli"',
    '"mini-swe-agent"',
    '"CURSOR_API_KEY"',
    '"OPENAI_API_KEY"',
    '["OPENAI_API_KEY"]',
    '"DAYTONA_API_KEY"',
    '["","',
    '"]',
    '{Authorization="x"}',
    '{X="1"}',
    '"<x>"',
    '["B_1","_X"]',
    '"hle"',
    "[{}]",
    '"a/b"',
    "[[]]",
] + [f"[{','.join(f'"S{n}"' for n in range(17))}]"]
KEYS = [
    "rollout",
    "entrypoint",
    "model_path",
    "dataset",
    "branch",
    "commit_sha",
    "limit",
    "n",
    "required",
    "OPENAI_API_KEY",
    "A",
    "_OSMOSIS_X",
    "lower",
    "CURSOR_API_KEY",
    "MSWEA_API_KEY",
    "env",
    "model",
    "type",
    "api_key_secret",
    "harness",
    "harness_api_key_secret",
    "base_url",
    "extra_headers",
    "base_model",
    "lora_model_name",
    "benchmark",
    "task_set",
    "task_names",
    "categories",
    "judge_api_key_secret",
    "judge_model",
    "attempts_per_task",
    "lr",
    "rollout_top_p",
    "unknown",
    '"quoted"',
    '"A\\n"',
    "a.b",
]
SECTIONS = [
    "experiment",
    "evaluation",
    "secrets",
    "env",
    "advanced",
    "training",
    "sampling",
    "checkpoints",
    "tasks",
    "execution",
    "verifier",
    "eval",
    "grader",
    "other",
]
FULL_BENCHMARK = (
    BENCHMARK
    + """
[agents.env]
A = "1"
[[agents]]
harness = "cursor-cli"
harness_api_key_secret = "CURSOR_API_KEY"
[agents.model]
type = "endpoint"
base_url = "https://x.example"
model = "m"
api_key_secret = "MY_KEY"
[agents.model.extra_headers]
X = "1"
[[agents]]
[agents.model]
type = "hosted"
base_model = "b"
lora_model_name = "l"
[tasks]
task_set = "parity"
categories = ["a"]
[execution]
judge_api_key_secret = "JUDGE"
[verifier]
required = ["V1"]
[secrets]
required = ["V1"]
[env]
B = "2"
"""
)
BASES = [
    ("eval", EVAL),
    ("eval", EVAL + '[env]\nA = "1"\n[advanced]\nx = 1\n'),
    ("training", TRAINING),
    ("training", TRAINING + "[sampling]\nrollout_top_p = 1.0\n[secrets]\nrequired = []\n"),
    ("benchmark", BENCHMARK),
    ("benchmark", FULL_BENCHMARK),
]


def edited(text: str, chance: random.Random) -> str:
    """A config with a few lines removed, added, doubled or changed."""
    lines = text.split("\n")
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        kind, at = chance.randrange(7), chance.randrange(len(lines))
        if kind == 0 and len(lines) > 1:
            lines.pop(at)
        elif kind == 1:
            lines.insert(at, f"{chance.choice(KEYS)} = {chance.choice(VALUES)}")
        elif kind == 2 and "=" in lines[at]:
            lines[at] = f"{lines[at].split('=')[0]}= {chance.choice(VALUES)}"
        elif kind == 3 and "=" in lines[at]:
            lines[at] = f"{chance.choice(KEYS)} ={lines[at].split('=', 1)[1]}"
        elif kind == 4:
            shape = chance.choice(["[%s]", "[[%s]]", "[%s.x]", "[agents.%s]"])
            lines.insert(at, shape % chance.choice(SECTIONS))
        elif kind == 5:
            lines.insert(at, chance.choice(lines))
        elif kind == 6 and lines[at].startswith("["):
            names = [*SECTIONS, "agents", "agents.model"]
            lines[at] = chance.choice(["[%s]", "[[%s]]"]) % chance.choice(names)
    return "\n".join(lines)


def compare_configs(count: int, seed: int, folder: Path) -> tuple[int, int]:
    """How many generated configs the SDK accepts and refuses; fails at a disagreement."""
    chance = random.Random(seed)
    accepted = 0
    for _ in range(count):
        kind, base = chance.choice(BASES)
        data = edited(base, chance).encode()
        config = read_config(f"configs/{kind}/x.toml", kind, data)
        refused = any(f.code in SDK_CODES for f in config.found)
        loads = config_loads(kind, data, folder)
        assert loads is not refused, (data.decode(), config.found)
        accepted += loads
    return accepted, count - accepted


CELLS = [
    '"x"',
    '""',
    "null",
    "1",
    "true",
    "[]",
    "{}",
    '{"a":1}',
    '{"a":{"b":[1,2]}}',
    '{"a":{}}',
    '{"a":1.5}',
    '{"a":"s"}',
    '"{\\"a\\":1}"',
    "99999999999999999999",
    '{"a":99999999999999999999}',
    '{"a":[{}]}',
    '{"a":null}',
    '"[1]"',
    "NaN",
    '{"a":[1,"x"]}',
    '"nope"',
]
COLUMNS = ["user_prompt", "ground_truth", "label", "system_prompt", "metadata", "extra", " label"]


def columns(chance: random.Random) -> list[str]:
    return chance.choice(
        [
            ["user_prompt", "ground_truth"],
            ["user_prompt", "label"],
            ["metadata"],
            ["metadata", "user_prompt"],
            chance.sample(COLUMNS, chance.randrange(1, 4)),
        ]
    )


def jsonl(chance: random.Random) -> bytes:
    def cell(name: str) -> str:
        if chance.random() < 0.25:
            return chance.choice(CELLS)
        return '{"a":1}' if name == "metadata" else chance.choice(["1", '"x"'])

    def row(names: list[str]) -> str:
        return "{" + ", ".join(f'"{n}": {cell(n)}' for n in names) + "}"

    names = columns(chance)
    odd = ["", "[1]", "{oops", "\t \u00a0", '{"a": \r 1}', row(chance.sample(COLUMNS, 2))]
    rows = [
        row(names) if chance.random() < 0.93 else chance.choice(odd)
        for _ in range(chance.choice([3, 4, 5, 6, 7]))
    ]
    return damaged(chance.choice(["\n", "\r\n", "\r", "\n\n"]).join(rows).encode(), chance)


def csv_file(chance: random.Random) -> bytes:
    def cell(name: str) -> str:
        if name == "metadata":
            odd = ['"{}"', "x", "", '"{""a"": ""s""}"', '"[1]"']
            return chance.choice(['"{""a"": 1}"'] * 8 + odd)
        return chance.choice(["x", "", '"a,b"', '"a\nb"', '"a""b"', "1", " "])

    names = columns(chance)
    lines = [",".join(names)]
    for _ in range(chance.choice([3, 4, 5, 6])):
        lines.append(",".join(map(cell, names)) + ",more" * (chance.random() < 0.04))
        if chance.random() < 0.05:
            lines.append(chance.choice(["", '"open', '"' + "y" * 140_000]))
    data = chance.choice(["\n", "\r\n", "\r"]).join(lines).encode()
    return damaged(data + b"\n" * (chance.random() < 0.5), chance)


def damaged(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.03:
        data = data[:20] + b"\xff" + data[20:]
    return data


def compare_data(count: int, seed: int, folder: Path) -> int:
    """How many generated files could be uploaded; fails at a disagreement."""
    chance = random.Random(seed)
    good = 0
    for _ in range(count):
        name, make = chance.choice([("x.jsonl", jsonl), ("x.csv", csv_file)])
        data = make(chance)
        size = chance.choice([1, 3, 50, 65536]) if len(data) < 5000 else 4099
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        found = check_rows(f"data/{name}", pieces, name[2:])
        assert found == check_rows(f"data/{name}", [data], name[2:])
        refused = any(f.code in UPLOAD_CODES for f in found)
        uploads = data_uploads(name, data, folder)
        assert uploads is not refused, (data, found)
        good += uploads
    return good


LINES = """\
name: plan-work|name: "plan-work"|name: Plan|name: a--b|name:|name: x|description: Does it.
description: a: b|description: "a: b"|description:|description: [a]|description: {a: b}
license: MIT|metadata: {a: 1}|metadata: x|allowed-tools: Bash Read|compatibility: any|author: me
- a|# comment||description: &a x|license: *a|description: !!str x|tags: yes
description: "unclosed|description: 'it''s'|  indented: x|name : plan-work|"name": plan-work
description: #x|description: "é ü"|? name|metadata:~  version: "1.0"|allowed-tools:~  - Bash
description: >-~  folded~  text|description: |~  many~  lines|compatibility:~  - x"""


def compare_skills(count: int, seed: int, folder: Path) -> int:
    """How many generated skills are valid; fails at a disagreement."""
    chance = random.Random(seed)
    lines = [x.replace("~", "\n") for x in re.split(r"\||\n", LINES)]
    target = folder / "plan-work"
    target.mkdir()
    good = 0
    for _ in range(count):
        body = [
            *chance.sample(lines, chance.randrange(3)),
            "name: plan-work",
            "description: Plans.",
        ]
        if chance.random() < 0.4:
            body.pop(chance.randrange(len(body)))
        chance.shuffle(body)
        start = chance.choice(["---"] * 9 + ["--- ", "", "\ufeff---"])
        text = "\n".join([start, *body, chance.choice(["---"] * 9 + ["--- ", ""]), "", "# Plan"])
        if chance.random() < 0.3:
            text = text.replace("\n", "\r\n")
        (target / "SKILL.md").write_bytes(text.encode())
        [fact] = inspect(workspace({".agents/skills/plan-work/SKILL.md": text}, oids=False)).skills
        valid = skill_is_valid(target)
        assert fact["valid"] is valid, text
        good += valid
    return good


def test_configs_agree_with_the_loaders_of_the_sdk(tmp_path):
    accepted, refused = compare_configs(1500, 1, tmp_path)
    assert accepted > 200 and refused > 200


def test_data_agrees_with_the_validation_of_the_sdk(tmp_path):
    assert compare_data(1500, 1, tmp_path) > 200


@pytest.mark.slow
def test_skills_agree_with_the_reference_validator(tmp_path):
    assert compare_skills(300, 1, tmp_path) > 30


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_the_corpus_agrees_with_the_sdk(case, tmp_path):
    """Every config and data file of the corpus, loaded by the SDK itself."""
    for file in sorted(case.folder.rglob("*")):
        path = file.relative_to(case.folder).as_posix()
        kind = kind_of(path)
        if kind:
            config = read_config(path, kind, file.read_bytes())
            refused = any(f.code in SDK_CODES for f in config.found)
            assert config_loads(kind, file.read_bytes(), tmp_path) is not refused, path
        elif path.startswith("data/") and path.lower().endswith((".jsonl", ".csv")):
            data = file.read_bytes()
            if data.startswith(b"version https://git-lfs"):
                continue
            found = check_rows(path, [data], path.lower().rpartition(".")[2])
            refused = any(f.code in UPLOAD_CODES for f in found)
            assert data_uploads(file.name, data, tmp_path) is not refused, path


def test_skills_of_the_corpus_agree_with_the_reference_validator():
    compared = 0
    for folder in sorted(CASES.glob("*/.agents/skills/*")):
        if folder.is_dir() and not any(p.is_symlink() for p in folder.rglob("*")):
            files = {
                f".agents/skills/{folder.name}/{p.name}": p.read_bytes()
                for p in folder.iterdir()
                if p.is_file()
            }
            [fact] = inspect(workspace(files, oids=False)).skills
            assert fact["valid"] is skill_is_valid(folder), folder
            compared += 1
    assert compared > 15


@pytest.mark.slow
def test_fuzzed_bytes_neither_crash_nor_hang():
    found = guided_fuzz(1900, 7)
    assert len(found.executions) == 19 and min(found.executions.values()) >= 100
    seen, there = found.watched.share()
    assert seen > 0.6 * there, "the inputs do not reach into the checker any more"
