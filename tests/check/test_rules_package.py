"""Each rule for the package of a rollout in at least two spellings."""

from __future__ import annotations

import pytest

from gitsync.check import inspect
from tests.check.trees import (
    PYPROJECT,
    Content,
    link,
    outer,
    workspace,
)

PY = "rollouts/demo/pyproject.toml"
HARBOR = "from osmosis_ai.rollout.backend.harbor import HarborBackend\n"
LOCK = """\
version = 1
requires-python = ">=3.12"

[[package]]
name = "demo"
version = "0.1.0"

[package.metadata]
requires-dist = [{ name = "osmosis-ai", extras = ["server"], specifier = ">=0.3.8,<0.4" }]
"""


def depends(*more: str) -> str:
    """The good project, whose dependencies are lines 6 and following."""
    listed = "".join(f"    {m},\n" for m in more)
    return PYPROJECT.replace(
        'dependencies = ["osmosis-ai[server]>=0.3.8,<0.4"]', f"dependencies = [\n{listed}]"
    )


def python(value: str) -> str:
    return PYPROJECT.replace('">=3.12"', f'"{value}"')


PACKAGE: dict[str, tuple[dict[str, Content], list[str]]] = {
    "no-project": ({PY: "[build-system]\nrequires = []\n"}, [f"project-incomplete {PY}:1"]),
    "no-name": ({PY: PYPROJECT.replace('name = "demo"\n', "")}, [f"project-incomplete {PY}:1"]),
    "name-is-number": (
        {PY: PYPROJECT.replace('name = "demo"', "name = 5")},
        [f"project-incomplete {PY}:1"],
    ),
    "version-is-number": (
        {PY: PYPROJECT.replace('version = "0.1.0"', "version = 0.1")},
        [f"project-incomplete {PY}:1"],
    ),
    "version-is-blank": (
        {PY: PYPROJECT.replace('version = "0.1.0"', 'version = ""')},
        [f"project-incomplete {PY}:1"],
    ),
    "name-with-space": (
        {PY: PYPROJECT.replace('"demo"', '"de mo"')},
        [f"project-incomplete {PY}:2", f"project-name-differs {PY}:2"],
    ),
    "name-ends-in-underscore": (
        {PY: PYPROJECT.replace('"demo"', '"demo_"')},
        [f"project-incomplete {PY}:2", f"project-name-differs {PY}:2"],
    ),
    "name-is-dynamic": (
        {PY: PYPROJECT.replace('name = "demo"\n', 'dynamic = ["name"]\n')},
        [f"project-incomplete {PY}:1"],
    ),
    "version-is-no-version": (
        {PY: PYPROJECT.replace("0.1.0", "1.0-SNAPSHOT")},
        [f"project-incomplete {PY}:3"],
    ),
    "version-is-a-word": (
        {PY: PYPROJECT.replace("0.1.0", "latest")},
        [f"project-incomplete {PY}:3"],
    ),
    "good-versions": ({PY: PYPROJECT.replace("0.1.0", "v1.0-rc.1+local.2")}, []),
    "group-that-is-not-there": (
        {PY: PYPROJECT + '[dependency-groups]\na = [{include-group = "dve"}]\ndev = []\n'},
        [f"invalid-requirement {PY}:11"],
    ),
    "group-in-a-circle": (
        {
            PY: PYPROJECT
            + '[dependency-groups]\na = [{include-group = "b"}]\nb = [{include-group = "c"}]\n'
            'c = ["x", {include-group = "B"}]\n'
        },
        [f"invalid-requirement {PY}:{n}" for n in (12, 13)],
    ),
    "group-of-no-kind": (
        {PY: PYPROJECT + '[dependency-groups]\na = [{group = "b"}]\nb = []\n'},
        [f"invalid-requirement {PY}:11"],
    ),
    "good-groups": (
        {PY: PYPROJECT + '[dependency-groups]\nDev_x = ["y"]\na = [{include-group = "dev.X"}]\n'},
        [],
    ),
    "uv-constraint": (
        {PY: PYPROJECT + '[tool.uv]\nconstraint-dependencies = ["a<2", "b c"]\n'},
        [f"invalid-requirement {PY}:11"],
    ),
    "uv-override": (
        {PY: PYPROJECT + '[tool.uv]\noverride-dependencies = "a<2"\n'},
        [f"invalid-requirement {PY}:11"],
    ),
    "uv-good": (
        {PY: PYPROJECT + '[tool.uv]\noverride-dependencies = ["a<2"]\ndev-dependencies = []\n'},
        [],
    ),
    "bad-group": (
        {PY: PYPROJECT + '[dependency-groups]\nb = ["x >> 1", {include-group = "c"}]\nc = [5]\n'},
        [f"invalid-requirement {PY}:11", f"invalid-requirement {PY}:12"],
    ),
    "project-is-text": ({PY: 'project = "x"\n'}, [f"project-incomplete {PY}:1"]),
    "dynamic-version": (
        {PY: PYPROJECT.replace('version = "0.1.0"', 'dynamic = ["version", "requires-python"]')},
        [],
    ),
    "bad-requirement": (
        {PY: depends('"osmosis-ai[server]>=0.3.8,<0.4"', '"numpy => 2"', "5")},
        [f"invalid-requirement {PY}:7", f"invalid-requirement {PY}:8"],
    ),
    "bad-python": ({PY: python("3.12")}, [f"invalid-requirement {PY}:4"]),
    "python-number": ({PY: PYPROJECT.replace('">=3.12"', "3.12")}, [f"invalid-requirement {PY}:4"]),
    "python-11": ({PY: python(">=3.11.9")}, [f"requires-python {PY}:4"]),
    "python-above-11": ({PY: python(">3.11")}, [f"requires-python {PY}:4"]),
    "python-open-below": ({PY: python("<4")}, [f"requires-python {PY}:4"]),
    "python-gap": ({PY: python(">=3.11,!=3.11.*")}, [f"requires-python {PY}:4"]),
    "python-none": ({PY: python(">=3.13,<3.13")}, [f"requires-python {PY}:4"]),
    "python-compatible": ({PY: python("~=3.10")}, [f"requires-python {PY}:4"]),
    "python-good": ({PY: python(">=3.9,>=3.12,<3.14")}, []),
    "python-exact": ({PY: python("==3.13.*")}, []),
    "python-missing": (
        {PY: PYPROJECT.replace('requires-python = ">=3.12"\n', "")},
        [f"requires-python-missing {PY}:1"],
    ),
    "name-spelling": ({PY: PYPROJECT.replace('"demo"', '"DEMO"')}, []),
    "name-other": ({PY: PYPROJECT.replace('"demo"', '"demo_2"')}, [f"project-name-differs {PY}:2"]),
    "sdk-old": ({PY: depends('"Osmosis.AI[server]~=0.2.1"')}, [f"sdk-version-excluded {PY}:6"]),
    "sdk-new": ({PY: depends('"osmosis-ai>0.3.8"')}, [f"sdk-version-excluded {PY}:6"]),
    "sdk-free": ({PY: depends('"osmosis-ai"')}, [f"sdk-unbounded {PY}:6"]),
    "sdk-below-one": ({PY: depends('"osmosis_ai>=0.3.8,<1"')}, [f"sdk-unbounded {PY}:6"]),
    "sdk-url": ({PY: depends('"osmosis-ai @ https://x.example/a.whl"')}, []),
    "extra-unknown": (
        {PY: depends('"osmosis-ai[Server, eval_run, openai]>=0.3.8,<0.4"')},
        [f"sdk-unknown-extra {PY}:6"] * 2,
    ),
    "extra-spelling": ({PY: depends('"osmosis-ai[OpenAI_Agents]>=0.3.8,<0.4"')}, []),
    "litellm-free": (
        {PY: depends('"osmosis-ai[server]>=0.3.8,<0.4"', '"osmosis-ai[Strands]>=0.3.8,<0.4"')},
        [f"litellm-cap-missing {PY}:7"],
    ),
    "litellm-compatible": (
        {PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"', '"LiteLLM~=1.94"')},
        [f"litellm-cap-missing {PY}:6"],
    ),
    "litellm-capped": ({PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"', '"litellm<1.106"')}, []),
    "litellm-pinned": (
        {PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"', '"litellm==1.105.7"')},
        [],
    ),
    "litellm-late-pin": (
        {PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"', '"litellm==1.106.12"')},
        [f"litellm-cap-missing {PY}:6"],
    ),
    "litellm-constraint": (
        {
            PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"')
            + '[tool.uv]\nconstraint-dependencies = ["litellm<1.106"]\n'
        },
        [],
    ),
    "litellm-with-agents": ({PY: depends('"osmosis-ai[strands,openai-agents]>=0.3.8,<0.4"')}, []),
    "litellm-locked": (
        {
            PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"'),
            "rollouts/demo/uv.lock": LOCK.replace('"server"', '"strands"')
            + '[[package]]\nname = "litellm"\nversion = "1.105.7"\n',
        },
        [],
    ),
    "flat-folders": (
        {"rollouts/demo/pkg/__init__.py": "", "rollouts/demo/assets/a.txt": "x"},
        [f"flat-layout {PY}:1"],
    ),
    "flat-modules": ({"rollouts/demo/tools.py": ""}, [f"flat-layout {PY}:1"]),
    "flat-named": (
        {
            "rollouts/demo/tools.py": "",
            PY: PYPROJECT + '[tool.setuptools]\npy-modules = ["main"]\n',
        },
        [],
    ),
    "flat-found": (
        {
            "rollouts/demo/a/__init__.py": "",
            "rollouts/demo/b/__init__.py": "",
            PY: PYPROJECT + '[tool.setuptools.packages.find]\ninclude = ["a*"]\n',
        },
        [],
    ),
    "flat-default-backend": (
        {
            "rollouts/demo/tools.py": "",
            PY: PYPROJECT.replace('build-backend = "setuptools.build_meta"\n', ""),
        },
        [f"flat-layout {PY}:1"],
    ),
    "flat-not-built": (
        {"rollouts/demo/tools.py": "", PY: PYPROJECT.partition("[build-system]")[0]},
        [],
    ),
    "flat-src-is-a-file": (
        {"rollouts/demo/tools.py": "", "rollouts/demo/src": "x"},
        [f"flat-layout {PY}:1"],
    ),
    "flat-src-is-linked": (
        {
            "rollouts/demo/tools.py": "",
            "rollouts/demo/src": link("../../common"),
            "common/a/__init__.py": "",
        },
        [],
    ),
    "flat-other-backend": (
        {
            "rollouts/demo/tools.py": "",
            PY: PYPROJECT.replace("setuptools.build_meta", "hatchling.build"),
        },
        [],
    ),
    "flat-left-out": (
        {
            "rollouts/demo/pkg/a.py": "",
            "rollouts/demo/tests/a.py": "",
            "rollouts/demo/my-data/a": "",
            "rollouts/demo/_private/a.py": "",
        },
        [],
    ),
    "harbor-none": (
        {"rollouts/demo/main.py": HARBOR + "B = HarborBackend(agent=Flow)\n"},
        [f"harbor-package-count {PY}:1"],
    ),
    "harbor-two": (
        {
            "rollouts/demo/main.py": "import osmosis_ai.rollout.backend.harbor as h\n"
            "B = h.HarborBackend(agent=Flow, grader=G)\n",
            "rollouts/demo/one/__init__.py": "",
            "rollouts/demo/src/two/__init__.py": "",
        },
        [f"harbor-package-count {PY}:1"],
    ),
    "harbor-one": (
        {
            "rollouts/demo/main.py": HARBOR + "B = HarborBackend(agent=Flow)\n",
            "rollouts/demo/one/__init__.py": "",
            "rollouts/demo/build/lib/__init__.py": "",
        },
        [],
    ),
    "harbor-native": (
        {"rollouts/demo/main.py": HARBOR + 'A = "terminus-2"\nB = HarborBackend(agent=A)\n'},
        [],
    ),
    "harbor-bundle": (
        {"rollouts/demo/main.py": HARBOR + "B = HarborBackend(agent=Flow, bundle=X)\n"},
        [],
    ),
    "harbor-of-others": (
        {"rollouts/demo/main.py": "from x import HarborBackend\nB = HarborBackend(agent=F)\n"},
        [],
    ),
    "lock-fresh": ({"rollouts/demo/uv.lock": LOCK}, []),
    "lock-python": (
        {"rollouts/demo/uv.lock": LOCK.replace('">=3.12"', '">=3.13"')},
        ["lock-stale rollouts/demo/uv.lock:1"],
    ),
    "lock-of-another": (
        {"rollouts/demo/uv.lock": LOCK.replace('name = "demo"', 'name = "other"')},
        ["lock-stale rollouts/demo/uv.lock:1"],
    ),
    "lock-other-extra": (
        {"rollouts/demo/uv.lock": LOCK.replace('["server"]', '["server", "eval"]')},
        ["lock-stale rollouts/demo/uv.lock:1"],
    ),
    "lock-marker": (
        {
            PY: depends(
                '"osmosis-ai[server]>=0.3.8,<0.4"', "\"tomli>=2; python_version < '3.13'\""
            ),
            "rollouts/demo/uv.lock": LOCK.replace(
                '<0.4" }]',
                '<0.4" },\n{ name = "tomli", marker = "python_full_version < \'3.13\'", '
                'specifier = ">=2" }]',
            ),
        },
        [],
    ),
    "lock-of-extras": (
        {
            "rollouts/demo/uv.lock": LOCK.replace(
                '<0.4" }]', '<0.4" }, { name = "rich", marker = "extra == \'x\'" }]'
            ),
            PY: PYPROJECT + '[project.optional-dependencies]\nx = ["rich"]\n',
        },
        [],
    ),
}


@pytest.mark.parametrize("name", PACKAGE)
def test_package(name):
    files, expected = PACKAGE[name]
    assert sorted(outer(files)) == sorted(expected)


AGENTS = {
    "imported": ("from a import W\n", "W"),
    "defined": ("class W: pass\n", "W"),
    "of-a-module": ("import a.b\n", "a.b.W"),
    "alias": ("from a import W\nAGENT = W\n", "AGENT"),
    "one-of-two": ("from a import V, W\n", "V if x else W"),
    "handed-in-elsewhere": ("from a import W\ndef f(W): ...\n", "W"),
    "relative": ("from .a import W\n", "W"),
    "cycle": ("from a import A, B\nA = B\nB = A\n", "A or B"),
}
MAYBE_NAMES = {
    "one-arm": ("from a import W\n", "W if x else 'oracle'"),
    "both-arms": ("", "'a' if x else 'oracle'"),
    "environment": ("import os\n", "os.environ.get('AGENT', 'oracle')"),
    "held": ("import os\nAGENT = os.environ['AGENT']\n", "AGENT"),
    "reassigned": ("from a import W\nAGENT = W\nAGENT = 'oracle'\n", "AGENT"),
    "parameter": ("def f(agent):\n ", "agent"),
    "looped": ("for W in ('nop', 'oracle'): ...\n", "W"),
    "long": ("", "'a' if x else " * 900 + "'b'"),
}


def harbor(before: str, agent: str) -> list[str]:
    code = f"{HARBOR}{before}backend = HarborBackend(tasks_dir='t', agent={agent})\n"
    files: dict[str, Content] = {"rollouts/demo/main.py": code}
    return outer(files)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_can_only_be_a_class_needs_its_package(name):
    assert harbor(*AGENTS[name]) == [f"harbor-package-count {PY}:1"]


@pytest.mark.parametrize("name", MAYBE_NAMES)
def test_an_agent_that_may_be_a_name_is_no_error(name):
    assert harbor(*MAYBE_NAMES[name]) == []


def test_an_extra_gets_a_suggestion():
    files = {PY: PYPROJECT.replace("[server]", "[Sever]")}
    [found] = inspect(workspace(files)).findings
    assert (found.code, "Did you mean `server`?" in found.message) == ("sdk-unknown-extra", True)


def strands(cap: str, more: str = "") -> list[str]:
    return outer({PY: depends('"osmosis-ai[strands]>=0.3.8,<0.4"', cap) + more})


CAPS = {
    "python-13": ("\"litellm<1.106; python_version >= '3.13'\"", ""),
    "linux": ("\"litellm<1.106; sys_platform != 'win32'\"", ""),
    "override": ('"litellm"', '[tool.uv]\noverride-dependencies = ["litellm==1.105.0"]\n'),
    "other-override": ('"litellm<1.106"', '[tool.uv]\noverride-dependencies = ["x"]\n'),
    "constraint-of-override": (
        '"litellm"',
        '[tool.uv]\noverride-dependencies = ["litellm"]\n'
        'constraint-dependencies = ["litellm<1.106"]\n',
    ),
}
NO_CAPS = {
    "python-11": ("\"litellm<1.106; python_version < '3.12'\"", ""),
    "windows": ("\"litellm<1.106; sys_platform == 'win32'\"", ""),
    "extra": ("\"litellm<1.106; extra == 'x'\"", ""),
    "overridden": ('"litellm<1.106"', '[tool.uv]\noverride-dependencies = ["LiteLLM>=1.106"]\n'),
}


@pytest.mark.parametrize("name", CAPS)
def test_a_cap_that_counts_where_rollouts_run(name):
    assert strands(*CAPS[name]) == []


@pytest.mark.parametrize("name", NO_CAPS)
def test_a_cap_that_does_not_count_where_rollouts_run(name):
    assert strands(*NO_CAPS[name]) == [f"litellm-cap-missing {PY}:6"]


def test_a_version_that_no_tool_can_read_is_told():
    many = "9" * 5000
    dependency, python = "osmosis-ai[server]>=0.3.8,<0.4", '">=3.12"'
    for old, text in (
        (dependency, f"osmosis-ai[server]>=0.3.{many}"),
        (dependency, f"osmosis-ai[server]; python_version < '{many}'"),
        (python, f'">=3.{many}"'),
    ):
        changed = PYPROJECT.replace(old, text)
        report = inspect(workspace({"rollouts/demo/pyproject.toml": changed}))
        found = [f for f in report.findings if f.path == "rollouts/demo/pyproject.toml"]
        assert ["digits" in f.message for f in found] == [True], [f.code for f in report.findings]
        assert "check-failed" not in {f.code for f in report.findings}
        assert not [f for r in report.rollouts for f in r.findings if f.code == "unresolvable"]
