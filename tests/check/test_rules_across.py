"""Each rule that needs several files in at least two spellings."""

from __future__ import annotations

import time

import pytest

from gitsync.check.source import read_source
from tests.check.trees import EVAL, GOOD, MAIN, TRAINING, Content, link, outer

EV, TR = "configs/eval/demo.toml", "configs/training/demo.toml"


def head(*lines: str, rollout: str = "demo") -> str:
    """An evaluation config with these lines after the first four keys."""
    return "\n".join(
        [
            "[experiment]",
            f'rollout = "{rollout}"',
            'entrypoint = "main.py"',
            'model_path = "openai/gpt-5-mini"',
            'dataset = "sums"',
            *lines,
            "[secrets]",
            'required = ["OPENAI_API_KEY"]',
            "",
        ]
    )


def read_secret(code: str) -> dict[str, Content]:
    """The good workspace whose code has these lines too, and no need for OPENAI_API_KEY."""
    return {"rollouts/demo/main.py": MAIN + "\n\n" + code + "\n"}


ACROSS: dict[str, tuple[dict[str, Content], list[str]]] = {
    "twins-in-folders": (
        {
            "configs/eval/a/x.toml": head(),
            "configs/training/a/x.toml": TRAINING.replace('"main.py"', '"other.py"'),
        },
        ["twin-entrypoint-differs configs/training/a/x.toml:3"],
    ),
    "twins-normalised": ({TR: TRAINING.replace('"main.py"', '"./x/../main.py"')}, []),
    "twins-rollout": (
        {
            TR: TRAINING.replace('"demo"', '"two"'),
            "rollouts/two/main.py": MAIN,
        },
        [f"twin-rollout-differs {TR}:2"],
    ),
    "twins-timeouts": (
        {
            TR: TRAINING + "grader_timeout_s = 10\nagent_workflow_timeout_s = 5.0\n",
            EV: head("[evaluation]", "grader_timeout_s = 11", "agent_workflow_timeout_s = 5"),
        },
        [f"twin-timeouts-differ {TR}:9"],
    ),
    "twins-timeouts-of-other-types": (
        {
            TR: TRAINING + "grader_timeout_s = true\nagent_workflow_timeout_s = nan\n",
            EV: head("[evaluation]", "grader_timeout_s = 1", "agent_workflow_timeout_s = nan"),
        },
        [
            f"invalid-value {EV}:8",
            f"questionable-value {TR}:10",
            f"questionable-value {TR}:9",
            f"twin-timeouts-differ {TR}:9",
        ],
    ),
    "near-case": ({EV: head().replace('"sums"', '"Sums"')}, [f"dataset-near-miss {EV}:5"]),
    "near-swap": (
        {
            "data/letters.csv": "user_prompt,label\n" + "a,b\n" * 4,
            EV: head().replace("sums", "lettesr"),
        },
        [f"dataset-near-miss {EV}:5"],
    ),
    "near-short": ({EV: head().replace('"sums"', '"sum"')}, []),
    "near-digits": (
        {
            "data/letters-2023.jsonl": GOOD["data/sums.jsonl"],
            EV: head().replace("sums", "letters-2024"),
        },
        [],
    ),
    "near-placeholder": ({EV: head().replace('"sums"', '"<sums>"')}, [f"placeholder-left {EV}:5"]),
    "reads-alias": (
        read_secret('import os as o\nKEY = o.environ["SEARCH_TOKEN"]'),
        [f"secret-not-required {EV}:11", f"secret-not-required {TR}:1"],
    ),
    "reads-from-import": (
        read_secret('from os import environ as env\n\ndef key():\n    return env["DB_PASSWORD"]'),
        [f"secret-not-required {EV}:11", f"secret-not-required {TR}:1"],
    ),
    "reads-variable": (
        read_secret("import os\nE = os.environ\nX = f\"{E['A_SECRET']}\""),
        [f"secret-not-required {EV}:11", f"secret-not-required {TR}:1"],
    ),
    "reads-beside-try": (
        read_secret(
            'import os\ntry:\n    pass\nexcept KeyError:\n    os.environ["A_TOKEN"]\n'
            'try:\n    os.environ["B_TOKEN"]\nexcept (ValueError, KeyError):\n    pass\n'
            'try:\n    os.environ["C_TOKEN"]\nexcept ValueError:\n    pass'
        ),
        [f"secret-not-required {EV}:11"] * 2 + [f"secret-not-required {TR}:1"] * 2,
    ),
    "reads-guarded": (
        read_secret(
            'import os\nA = os.environ["A_TOKEN"] if "A_TOKEN" in os.environ else None\n'
            'if os.getenv("B_TOKEN"):\n    if True:\n        os.environ["B_TOKEN"]\n'
            'del os.environ["C_TOKEN"]\nos.environ["D_TOKEN"] += "x"\nos.environ.get("E_TOKEN")'
        ),
        [],
    ),
    "reads-in-tests": (
        {
            "rollouts/demo/tests/x.py": 'import os\nos.environ["A_TOKEN"]\n',
            "rollouts/demo/conftest.py": 'import os\nos.environ["A_TOKEN"]\n',
            "rollouts/demo/pkg/test_it.py": 'import os\nos.environ["A_TOKEN"]\n',
        },
        [],
    ),
    "reads-given": (
        {
            **read_secret('import os\nos.environ["A_TOKEN"]\nos.environ["B_TOKEN"]'),
            EV: EVAL.replace("]\n", "]\n", 1).replace('KEY"]', 'KEY", "A_TOKEN", "B_TOKEN"]'),
            TR: TRAINING + '[env]\nA_TOKEN = "x"\n[secrets]\nrequired = ["B_TOKEN"]\n',
        },
        [],
    ),
    "unused": (
        {EV: EVAL.replace('KEY"]', 'KEY",\n"MAPS_KEY",\n"GROQ_API_KEY"]')},
        [f"unused-secret {EV}:12"],
    ),
    "used-in-text": (
        {
            EV: EVAL.replace('KEY"]', 'KEY", "MAPS_KEY"]'),
            "rollouts/demo/notes.txt": "set MAPS_KEY first\n",
        },
        [],
    ),
    "unused-training": (
        {TR: TRAINING + '[secrets]\nrequired = ["WANDB"]\n'},
        [f"unused-secret {TR}:10"],
    ),
    "used-in-linked-module": (
        {
            EV: EVAL.replace('KEY"]', 'KEY", "MAPS_KEY"]'),
            "rollouts/demo/tools": link("../../common/tools"),
            "common/tools/maps.py": "NAME = 'MAPS_KEY'\n",
        },
        [],
    ),
    "reads-in-linked-module": (
        {
            "rollouts/demo/pkg/keys.py": link("../../../common/keys.py"),
            "rollouts/demo/pkg/test_it.py": link("../../../common/other.py"),
            "rollouts/demo/pkg/up": link("../.."),
            "common/keys.py": 'import os\nos.environ["A_TOKEN"]\n',
            "common/other.py": 'import os\nos.environ["B_TOKEN"]\n',
        },
        [f"secret-not-required {EV}:11", f"secret-not-required {TR}:1"],
    ),
    "limit-known-through-link": (
        {
            **read_secret("CONFIG = dict(max_concurrent=2)"),
            "rollouts/demo/pkg/again.py": link("../main.py"),
            TR: TRAINING + "n_samples_per_prompt = 8\nrollout_batch_size = 17\n",
        },
        [f"too-many-policy-calls {TR}:10"],
    ),
    "no-config": (
        {"rollouts/two/pyproject.toml": GOOD["rollouts/demo/pyproject.toml"]},
        [
            "rollout-without-config rollouts/two:1",
            "project-name-differs rollouts/two/pyproject.toml:2",
        ],
    ),
    "no-config-while-broken": (
        {"rollouts/two/main.py": MAIN, "configs/training/x.toml": "["},
        ["toml-syntax configs/training/x.toml:1"],
    ),
    "limit-known": (
        {
            **read_secret("CONFIG = dict(max_concurrent=2)"),
            TR: TRAINING + "n_samples_per_prompt = 8\nrollout_batch_size = 17\n",
        },
        [f"too-many-policy-calls {TR}:10"],
    ),
    "limits-unclear": (
        {
            **read_secret("A = dict(max_concurrent=1)\nB = dict(max_concurrent=2)"),
            TR: TRAINING + "n_samples_per_prompt = 8\nrollout_batch_size = 17\n",
        },
        [],
    ),
}


@pytest.mark.parametrize("name", ACROSS)
def test_across(name):
    files, expected = ACROSS[name]
    assert sorted(outer(files)) == sorted(expected)


READS = [
    "def f(env=os.environ):\n return env['X']",
    "def f(env=None):\n env = env or os.environ\n return env['X']",
    "def f(env):\n return env['X']\nf(os.environ)",
    "def f(*, env):\n return env['X']\nf(env=os.environ)",
    "E = F = os.environ\nF['X']",
    "(a, b), c = (os.environ, 1), 2\na['X']",
    "if x:\n E = os.environ\nelse:\n E = {}\nE['X']",
    "[e['X'] for _ in (1,) if (e := os.environ)]",
    "class S:\n def __init__(self):\n  self.env = os.environ\n def k(self): return self.env['X']",
    "class S:\n def __init__(self, env):\n  self._env = env\n @property\n"
    " def env(self): return self._env\nS(os.environ).env['X']",
    "class B:\n env = os.environ\nclass S(B):\n def k(self): return self.env['X']",
    "class S:\n env: dict = os.environ\ns = S()\ns.env['X']",
    "E = None\ndef f():\n global E\n E = os.environ\ndef g(): return E['X']",
    "def f():\n e = None\n def g():\n  nonlocal e\n  e = os.environ\n g()\n return e['X']",
    "def f():\n from os import environ as e\n def g():\n  return e['X']\n return g",
    "def env(): return os.environ\nenv()['X']",
    "from typing import cast\nE = cast(dict, os.environ)\nE['X']",
    "get = lambda e=os.environ: e['X']",
]
OTHERS = [
    "from os import environ\ndef app(environ, start):\n return environ['X']",
    "def a():\n env = os.environ\ndef b(rows):\n env = rows[0]\n return env['X']",
    "class A:\n env = os.environ\nclass B:\n def k(self): return self.env['X']",
    "from .os import environ\nenviron['X']",
    "dict(os.environ)['X']",
    "from os import environ\n[environ['X'] for environ in rows]",
    "from os import environ\nclass C:\n environ = {}\n k = environ['X']",
    "E = os.environ\ndef f():\n with open('x') as E:\n  E['X']",
    "def f(env):\n return env['X']\nf({})",
    "async def g(): return os.environ\ng()['X']",
]


@pytest.mark.parametrize("code", READS)
def test_the_environment_is_read_under_whatever_name(code):
    assert read_source(f"import os\n{code}\n".encode()).environment == ("X",)


@pytest.mark.parametrize("code", OTHERS)
def test_another_thing_of_the_same_name_is_not_the_environment(code):
    assert read_source(f"import os\n{code}\n".encode()).environment == ()


def test_names_that_stand_for_each_other_take_no_time():
    start = time.process_time()
    aliases = "".join(f"a{n} = a{n + 1} or a{n + 1}\n" for n in range(800))
    calls = "".join(
        f"def f{n}(e):\n return f{(n + 1) % 50}(e) or f{(n + 7) % 50}(e)\n" for n in range(50)
    )
    read_source(f"import os\n{aliases}{calls}a0['X']\nf0(os.environ)['X']\n".encode())
    assert time.process_time() - start < 5


def test_thousands_of_guards_take_no_time():
    chain = "".join(f'elif x == "T{n}":\n    pass\n' for n in range(8000))
    many = "x = " + " or ".join(f'"T{n}"' for n in range(20_000)) + "\n"
    code = f'import os\nif x == "A":\n    pass\n{chain}{many}os.environ["A_TOKEN"]\n'
    start = time.process_time()
    facts = read_source(code.encode())
    assert time.process_time() - start < 5
    assert facts.environment in ((), ("A_TOKEN",))  # the parser may give up on such a chain


def test_a_comprehension_guards_what_it_yields():
    code = 'import os\nA = [os.environ["A_TOKEN"] for _ in "x" if "A_TOKEN" in os.environ]\n'
    assert read_source(code.encode()).environment == ()
    other = code.replace('if "A_TOKEN"', 'if "B_TOKEN"')
    assert read_source(other.encode()).environment == ("A_TOKEN",)


@pytest.mark.slow
def test_configs_have_a_limit_together():
    text = f"# {'x' * 3_997}\n" * 60
    files: dict[str, Content] = {f"configs/eval/c{n:03}.toml": text for n in range(80)}
    found = outer(files)
    limited = [f for f in found if f.startswith("toml-limit")]
    assert 5 < len(limited) < 30
    assert len([f for f in found if f.startswith("missing-section")]) == 2 * (81 - len(limited))
