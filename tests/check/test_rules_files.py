"""Each rule for packages, data, skills, links and hygiene in at least two spellings."""

from __future__ import annotations

import pytest

from gitsync.check import inspect
from gitsync.check.data import check_rows
from tests.check.oracles import UPLOAD_CODES, data_uploads, skill_is_valid
from tests.check.trees import (
    EVAL,
    GOOD,
    MAIN,
    PYPROJECT,
    ROWS,
    SKILL,
    TRAINING,
    Content,
    executable,
    gitlink,
    link,
    workspace,
)

PY = "rollouts/demo/pyproject.toml"
HARBOR = "from osmosis_ai.rollout.backend.harbor import HarborBackend\n"
S = ".agents/skills/plan-work"
LOCK = """\
version = 1
requires-python = ">=3.12"

[[package]]
name = "demo"
version = "0.1.0"

[package.metadata]
requires-dist = [{ name = "osmosis-ai", extras = ["server"], specifier = ">=0.3.8,<0.4" }]
"""


def outer(files: dict[str, Content]) -> list[str]:
    return [f"{f.code} {f.path}:{f.line}" for f in inspect(workspace(files)).findings]


def depends(*more: str) -> str:
    """The good project, whose dependencies are lines 6 and following."""
    listed = "".join(f"    {m},\n" for m in more)
    return PYPROJECT.replace(
        'dependencies = ["osmosis-ai[server]>=0.3.8,<0.4"]', f"dependencies = [\n{listed}]"
    )


def python(value: str) -> str:
    return PYPROJECT.replace('">=3.12"', f'"{value}"')


def skill(front: str, body: str = "# Plan\n") -> dict[str, Content]:
    return {f"{S}/SKILL.md": f"---\n{front}\n---\n{body}"}


def page(*lines: str) -> dict[str, Content]:
    return {"AGENTS.md": "\n".join(lines) + "\n"}


PACKAGE: dict[str, tuple[dict[str, Content], list[str]]] = {
    "no-project": ({PY: "[build-system]\nrequires = []\n"}, [f"project-incomplete {PY}:1"]),
    "no-name": ({PY: PYPROJECT.replace('name = "demo"\n', "")}, [f"project-incomplete {PY}:1"]),
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
FILES: dict[str, tuple[dict[str, Content], list[str]]] = {
    # layout
    "data-is-link": (
        {"data/sums.jsonl": None, "data": link("rows"), "rows/sums.jsonl": ROWS},
        ["scaffold-symlink data:1"],
    ),
    "no-eval-folder": ({"configs/eval/demo.toml": None}, ["missing-directory configs/eval:1"]),
    "rollouts-is-file": (
        {
            "rollouts": "x",
            **{p: None for p in GOOD if p.startswith("rollouts/")},
        },
        ["missing-directory rollouts:1"],
    ),
    "agents-is-folder": (
        {"AGENTS.md": None, "AGENTS.md/x": "y"},
        ["missing-agent-file AGENTS.md:1"],
    ),
    "configs-agents-gone": (
        {"configs/AGENTS.md": None},
        ["missing-agent-file configs/AGENTS.md:1"],
    ),
    "agents-link": (
        {"AGENTS.md": link("docs/rules.md"), "docs/rules.md": "x"},
        ["scaffold-symlink AGENTS.md:1"],
    ),
    "claude-in-tildes": (
        {"CLAUDE.md": "~~~\n@AGENTS.md\n~~~\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-in-ticks": (
        {"CLAUDE.md": "See `@AGENTS.md`.\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-by-word": ({"CLAUDE.md": "Rules are in ./AGENTS.md\n"}, []),
    "config-upper": (
        {"configs/training/A.Toml": "["},
        ["config-not-reachable configs/training/A.Toml:1"],
    ),
    "config-below": (
        {"configs/other/a/b.toml": "["},
        ["config-not-reachable configs/other/a/b.toml:1"],
    ),
    "config-nested-is-read": (
        {"configs/eval/a/b.toml": "["},
        ["toml-syntax configs/eval/a/b.toml:1"],
    ),
    "root-pyproject": ({"pyproject.toml": "[project\n"}, ["toml-syntax pyproject.toml:1"]),
    # data files
    "collision": (
        {"data/a/sums.csv": "user_prompt,label\n" + "a,b\n" * 4},
        ["dataset-name-collision data/sums.jsonl:1"],
    ),
    "collision-upper": (
        {"data/sums.JSONL": ROWS},
        ["name-collision data/sums.jsonl:1", "dataset-name-collision data/sums.jsonl:1"],
    ),
    "unsupported": (
        {"data/x.JSON": "", "data/a/b.tsv": "", "data/c.jsonl.gz": "", "data/readme.txt": ""},
        [
            "unsupported-data-file data/a/b.tsv:1",
            "unsupported-data-file data/c.jsonl.gz:1",
            "unsupported-data-file data/x.JSON:1",
        ],
    ),
    # skills
    "skill-empty": ({f"{S}/notes.md": "x"}, [f"skill-missing-file {S}:1"]),
    "skill-file-is-folder": ({f"{S}/SKILL.md/x": "x"}, [f"skill-missing-file {S}:1"]),
    "skill-upper": ({f"{S}/Skill.MD": SKILL}, [f"skill-file-name {S}/Skill.MD:1"]),
    "skill-both-names": (
        {f"{S}/SKILL.md": SKILL, f"{S}/skill.md": "x"},
        [f"name-collision {S}/skill.md:1"],
    ),
    "body-501": (
        skill("name: plan-work\ndescription: x", "x\n" * 501 + "\n\n"),
        [f"skill-body-long {S}/SKILL.md:505"],
    ),
    "body-500": (skill("name: plan-work\ndescription: x", "x\n" * 500 + "\n\n"), []),
    "other-folder-is-no-skill": ({".agents/skills/README.md": "x"}, []),
    # links in pages
    "dead-image": (page("![a](img/x.png)"), ["dead-link AGENTS.md:1"]),
    "dead-definition": (page("See [a][b].", "", "[b]: docs/x.md 'T'"), ["dead-link AGENTS.md:3"]),
    "dead-folder": (page("[a](docs/)"), ["dead-link AGENTS.md:1"]),
    "dead-encoded": (page("[a](my%20file.md#x) [b](<my file.md>)"), ["dead-link AGENTS.md:1"] * 2),
    "dead-out": (page("* [a](../x.md)"), ["dead-link AGENTS.md:1"]),
    "dead-in-quote": (page("x", "> one", "> [a](gone.md", '> "t") two'), ["dead-link AGENTS.md:3"]),
    "dead-nested": (page("[![i](gone.png)](gone.md)"), ["dead-link AGENTS.md:1"] * 2),
    "alive": (
        {
            **page(
                "[a](configs) [b](configs/AGENTS.md?x#y) [c](./data/../CLAUDE.md) [d](#x) [e]() ",
                "[f](https://x.example/a.md) [g](//x/y) [h](mailto:a@b) `[i](gone.md)` [j][none]",
                "<!-- [k](gone.md) -->",
                "",
                "    [l](gone.md)",
                "",
                "```",
                "[m](gone.md)",
                "```",
                "\\[n](gone.md)",
                "<!--",
                "[o](gone.md)",
                "-->",
                "[my file](my%20file.md)",
                "[^1]: gone",
            ),
            "my file.md": "x",
        },
        [],
    ),
    "alive-in-list": (page("- a", "", "    [b](gone.md)"), ["dead-link AGENTS.md:3"]),
    "dead-in-reference": (
        {f"{S}/SKILL.md": SKILL, f"{S}/references/more.md": "[up](../SKILL.md) [x](gone.md)\n"},
        [f"dead-link {S}/references/more.md:1"],
    ),
    # commands
    "command-inline": (
        page("Run `osmosis projects list` now."),
        ["unknown-osmosis-command AGENTS.md:1"],
    ),
    "command-fence": (
        page("```bash", "cd x && uv run osmosis train status x", "```"),
        ["unknown-osmosis-command AGENTS.md:2"],
    ),
    "command-after": (
        page("~~~console", "$ A=1 sudo uvx osmosis --env-file .env --plain deploy; ls", "~~~"),
        ["unknown-osmosis-command AGENTS.md:2"],
    ),
    "command-deep": (
        page("`osmosis benchmark runs retry X`"),
        ["unknown-osmosis-command AGENTS.md:1"],
    ),
    "command-pipe": (
        page("```", "cat x | osmosis eval runs", "```"),
        ["unknown-osmosis-command AGENTS.md:2"],
    ),
    "commands-good": (
        page(
            "`osmosis`, `osmosis eval`, `osmosis <command>`, `osmosis eval [run]`, `osmosis ...`",
            "`osmosis --json benchmark runs logs x`, `osmosis deploy-x`"[:48],
            "`osmosis-ai deploy`, `the osmosis deploy command`, osmosis deploy",
            "```python",
            "osmosis deploy",
            "```",
            "```sh",
            "# osmosis deploy",
            "osmosis train --help deploy",
            "osmosis secret set X --scope workspace",
            "echo osmosis deploy",
            "osmosis $CMD",
            "osmosis doctor # osmosis deploy",
            "```",
        ),
        [],
    ),
    # links
    "skill-link-good": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/plan-work": link(f"../../{S}")},
        [],
    ),
    "skill-link-gone": (
        {".claude/skills/gone": link("../../.agents/skills/gone")},
        ["dangling-skill-link .claude/skills/gone:1"],
    ),
    "skill-link-newline": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/plan-work": link(f"../../{S}\n")},
        ["dangling-skill-link .claude/skills/plan-work:1"],
    ),
    "skill-link-detour": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/plan-work": link(f"../.././{S}")},
        ["inexact-skill-link .claude/skills/plan-work:1"],
    ),
    "skill-link-other-name": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/pw": link(f"../../{S}")},
        ["inexact-skill-link .claude/skills/pw:1", f"skill-unlinked {S}:1"],
    ),
    "skill-link-escapes": (
        {".claude/skills/x": link("/opt/skills/x")},
        ["escaping-symlink .claude/skills/x:1"],
    ),
    "skill-text": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/plan-work": f"../../{S}\n"},
        ["skill-link-as-text .claude/skills/plan-work:1"],
    ),
    "skill-copy": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/plan-work/SKILL.md": SKILL},
        ["skill-link-as-copy .claude/skills/plan-work:1"],
    ),
    "claude-is-link": (
        {f"{S}/SKILL.md": SKILL, ".claude": link(".agents")},
        ["whole-directory-link .claude:1"],
    ),
    "unlinked": (
        {f"{S}/SKILL.md": SKILL, ".claude/skills/README.md": "x"},
        [f"skill-unlinked {S}:1"],
    ),
    "claude-without-skills": ({f"{S}/SKILL.md": SKILL, ".claude/settings.json": "{}"}, []),
    "escape-up": ({"docs/x": link("../../x")}, ["escaping-symlink docs/x:1"]),
    "escape-through": (
        {"docs/x": link("y/../../../z"), "docs/y": link("../data")},
        ["escaping-symlink docs/x:1"],
    ),
    "into-dotgit": ({"docs/x": link("../.git/config")}, ["escaping-symlink docs/x:1"]),
    "dangling": ({"docs/x": link("gone")}, ["dangling-symlink docs/x:1"]),
    "dangling-through-file": ({"docs/x": link("../AGENTS.md/y")}, ["dangling-symlink docs/x:1"]),
    "loop": (
        {"a": link("b"), "b": link("a")},
        ["dangling-symlink a:1", "dangling-symlink b:1"],
    ),
    "inside": ({"docs/x": link("../data"), "docs/y": link("x/sums.jsonl"), "z": link(".")}, []),
    "task-link": (
        {
            "rollouts/demo/t/task.toml": "",
            "rollouts/demo/t/environment/x": link("../../main.py"),
            "rollouts/demo/t/y": link("/etc"),
        },
        ["symlink-in-task rollouts/demo/t/environment/x:1", "symlink-in-task rollouts/demo/t/y:1"],
    ),
    "task-script": (
        {
            "rollouts/demo/t/task.toml": "",
            "rollouts/demo/t/tests/test.sh": "x",
            "rollouts/demo/tests/test.sh": "x",
        },
        ["test-script-mode rollouts/demo/t/tests/test.sh:1"],
    ),
    "task-script-good": (
        {"rollouts/demo/t/task.toml": "", "rollouts/demo/t/tests/test.sh": executable("x")},
        [],
    ),
    # hygiene
    "env-files": (
        {".env.local": "", "rollouts/demo/.env": "", ".env.sample": "", ".envrc": "", "x.env": ""},
        ["env-file .env.local:1", "env-file rollouts/demo/.env:1"],
    ),
    "generated": (
        {
            "node_modules/a/__pycache__/x.pyc": b"",
            ".pytest_cache/x": "",
            "rollouts/demo/venv/pyvenv.cfg": "",
            ".osmosis/evals/x": "",
            "docs/x.pyc": b"",
            "docs/venv/notes.md": "",
            ".osmosis/template.json": "{}",
        },
        [
            "generated-file .osmosis/evals:1",
            "generated-file .pytest_cache:1",
            "generated-file docs/x.pyc:1",
            "generated-file node_modules:1",
            "generated-file rollouts/demo/venv:1",
        ],
    ),
    "lfs": (
        {
            f"{S}/SKILL.md": SKILL,
            f"{S}/assets/x.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:"
            + "a" * 64
            + "\nsize 12\n",
            "docs/x.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:"
            + "a" * 64
            + "\nsize 12\n",
        },
        [f"lfs-pointer {S}/assets/x.bin:1"],
    ),
    "lfs-config": (
        {
            "configs/eval/demo.toml": "version https://git-lfs.github.com/spec/v1\noid sha256:"
            + "a" * 64
            + "\nsize 12\n"
        },
        ["lfs-pointer configs/eval/demo.toml:1"],
    ),
    "submodules": (
        {"rollouts/two": gitlink(), "lib": gitlink()},
        ["submodule lib:1", "submodule rollouts/two:1"],
    ),
    "large": (
        {"docs/x.bin": b"\0" * (5 * 2**20 + 1), "data/x.bin": b"\0" * (6 * 2**20)},
        ["file-too-large docs/x.bin:1"],
    ),
    "large-edge": ({"docs/x.bin": b"\0" * (5 * 2**20)}, []),
    "collide-case": ({"Docs.md": "", "docs.md": ""}, ["name-collision docs.md:1"]),
    "collide-accents": (
        {"caf\u00e9.md": "", "cafe\u0301.md": ""},
        ["name-collision caf\u00e9.md:1"],
    ),
    "names": (
        {"a/CON": "", "b/Lpt1.tar.gz": "", "c/x.": "", "d/y ": "", "e/a:b": "", "f/console.md": ""},
        [f"unportable-name {p}:1" for p in ("a/CON", "b/Lpt1.tar.gz", "c/x.", "d/y ", "e/a:b")],
    ),
}
TOKENS = {
    "github": "ghp_" + "a8Kd0Lq2Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8GJ2q",
    "github-fine": "github_pat_" + "11ABCDEFG0a1b2c3d4e5f6_" + "A1b2C3d4E5" * 5 + "f6g7h8i9j",
    "openai": "sk-proj-" + "Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8",
    "anthropic": "sk-ant-" + "api03-Zx9Vb3Nm7Wt5Ye1Rc6Uf4Hs8",
    "aws": "AKIA" + "Q3EGR7ZTX2WPLM5K",
    "google": "AIza" + "SyD3kQ9vX2mB7nL0pR4tW8yZ1aC5eF6gHjK",
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIj",
    "hugging-face": "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm12345678",
    "key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n",
    "key-in-code": "-----BEGIN " + 'RSA PRIVATE KEY-----\\n"\n    "MIIEvQIBADANBgkqhkiG9w0BAQEF',
}
FAKES = {
    "example": "AKIA" + "IOSFODNN7EXAMPLE",
    "xs": "ghp_" + "x" * 36,
    "dots": "sk-ant-" + "api03-Zx9Vb3Nm7Wt5Ye1Rc6U...",
    "words": "sk-proj-" + "your-key-goes-right-here",
    "short": "hf_" + "abc123",
    "public": "-----BEGIN " + "PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n",
    "named-key": "-----BEGIN " + "PRIVATE KEY-----\n...\n",
    "hash": "sha256:" + "0123456789abcdef" * 4,
    "inside": "xAKIA" + "Q3EGR7ZTX2WPLM5K",
}


@pytest.mark.parametrize("name", PACKAGE)
def test_package(name):
    files, expected = PACKAGE[name]
    assert sorted(outer(files)) == sorted(expected)


@pytest.mark.parametrize("name", FILES)
def test_files(name):
    files, expected = FILES[name]
    assert sorted(outer(files)) == sorted(expected)


@pytest.mark.parametrize("name", TOKENS)
def test_a_live_credential_is_found_and_never_repeated(name):
    text = f"first\n  é = '{TOKENS[name]}'\n"
    report = inspect(workspace({"rollouts/demo/notes.txt": text}))
    [found] = report.findings
    assert (found.code, found.line, found.column) == ("committed-secret", 2, 8)
    assert TOKENS[name][:4] in found.message
    assert TOKENS[name][:6] not in found.message
    assert not report.refused


@pytest.mark.parametrize("name", FAKES)
def test_what_only_looks_like_a_credential_is_not(name):
    assert outer({"rollouts/demo/notes.txt": f"x {FAKES[name]} y\n"}) == []


def test_a_credential_in_a_config_is_not_repeated_by_other_findings():
    token = TOKENS["github"]
    text = EVAL.replace('"OPENAI_API_KEY"', f'"OPENAI_API_KEY", "{token}"') + f"{token} = 1\n"
    report = inspect(workspace({"configs/eval/demo.toml": text}))
    assert {f.code for f in report.findings} >= {"invalid-secret-name", "unknown-key"}
    assert token[4:] not in str(report.findings)


ROW = '{"user_prompt": "a", "ground_truth": "b"}\n'
DATA: dict[str, tuple[str, bytes, list[str]]] = {
    "three": ("a.jsonl", ROW.encode() * 3, ["too-few-rows 1"]),
    "empty": ("a.csv", b"", ["too-few-rows 1"]),
    "only-header": ("a.csv", b"user_prompt,label\n", ["too-few-rows 1"]),
    "blank-lines": ("a.jsonl", b"\n \n" + ROW.encode() * 4 + b"\r\n", []),
    "latin": ("a.jsonl", ROW.encode() * 5 + b'"\xe9"\n', ["data-encoding 6"]),
    "latin-csv": ("a.csv", b"user_prompt,label\r\na,\xff\r\n", ["data-encoding 2"]),
    "bom": ("a.jsonl", b"\xef\xbb\xbf" + ROW.encode(), ["data-bom 1"]),
    "bom-csv": ("a.csv", b"\xef\xbb\xbfuser_prompt,label\na,b\n", ["data-bom 1"]),
    "quotes": ("a.jsonl", ROW.encode() * 4 + b"{'a': 1}\n", ["invalid-json 5"]),
    "two-objects": ("a.jsonl", ROW.encode() * 4 + b"{} {}\n", ["invalid-json 5"]),
    "deep": ("a.jsonl", ROW.encode() * 4 + b"[" * 100_000 + b"\n", ["invalid-json 5"]),
    "nan-passes": ("a.jsonl", ROW.replace('"b"', "NaN").encode() * 4, []),
    "number": ("a.jsonl", ROW.encode() * 4 + b"5\nnull\n", ["row-not-object 5"]),
    "text-row": ("a.jsonl", b'"x"\n' + ROW.encode() * 4, ["row-not-object 1"]),
    "no-answer": ("a.jsonl", b'{"user_prompt": "a"}\n' * 4, ["missing-column 1"]),
    "no-answer-later": (
        "a.jsonl",
        b"[1]\n" + b'{"label": "a"}\n' * 4,
        ["missing-column 2", "row-not-object 1"],
    ),
    "spaced-header": ("a.csv", b"user_prompt, label\n" + b"a,b\n" * 4, ["missing-column 1"]),
    "more-keys": (
        "a.jsonl",
        ROW.encode() * 4 + ROW.replace("}", ', "x": 1}').encode(),
        ["row-keys-differ 5"],
    ),
    "fewer-keys": ("a.jsonl", ROW.encode() * 4 + b'{"user_prompt": "a"}\n', ["row-keys-differ 5"]),
    "narrow": ("a.csv", b"user_prompt,label,x\n" + b"a,b,c\n" * 4 + b"a,b\n", ["column-count 6"]),
    "after-quoted": (
        "a.csv",
        b'user_prompt,label\n"a\nb",c\nd,e\nf,g\nh,i\nj,k,l\n',
        ["column-count 7"],
    ),
    "lone-returns": ("a.csv", b"user_prompt,label\ra,b\rc,d\re,f\rg,h\r", []),
    "huge-field": (
        "a.csv",
        b"user_prompt,label\n" + b"a,b\n" * 4 + b'"' + b"x" * 140_000,
        ["csv-syntax 6"],
    ),
    "meta-missing": (
        "a.jsonl",
        b'{"metadata": {"a": 1}}\n' * 4 + b'{"b": 1}\n',
        ["invalid-metadata 5", "row-keys-differ 5"],
    ),
    "meta-blank": (
        "a.csv",
        b"metadata\n" + b'"{""a"": 1}"\n' * 4 + b'" "\n',
        ["invalid-metadata 6"],
    ),
    "meta-in-list": ("a.jsonl", b'{"metadata": {"a": [1, {}]}}\n' * 4, ["invalid-metadata 1"]),
    "meta-text": ("a.jsonl", b'{"metadata": "{\\"a\\": 1}"}\n' * 4, []),
    "meta-edge": ("a.jsonl", b'{"metadata": {"a": 9223372036854775807}}\n' * 4, []),
    "meta-over": (
        "a.jsonl",
        b'{"metadata": {"a": -9223372036854775809}}\n' * 4,
        ["invalid-metadata 1"],
    ),
    "meta-type": (
        "a.jsonl",
        b'{"metadata": {"a": [1, 2.5, null]}}\n' * 4 + b'{"metadata": {"a": [true]}}\n',
        ["metadata-type-differs 5"],
    ),
    "meta-type-one-row": (
        "a.jsonl",
        b'{"metadata": {"a": [1, "x"]}}\n' * 4,
        ["metadata-type-differs 1"],
    ),
    "meta-null": (
        "a.jsonl",
        b'{"metadata": {"a": null}}\n' + b'{"metadata": {"a": {"b": 1}}}\n' * 4,
        [],
    ),
    "empty-prompt": (
        "a.jsonl",
        ROW.encode() * 4 + b'{"user_prompt": null, "ground_truth": "x"}\n',
        ["empty-cell 5"],
    ),
    "empty-answers": (
        "a.csv",
        b"user_prompt,ground_truth,label\na,b,\na,,b\na,,\na,b,c\n",
        ["empty-cell 4"],
    ),
    "empty-allowed": ("a.jsonl", b'{"metadata": {"a": 1}, "user_prompt": ""}\n' * 4, []),
    "lists": ("a.jsonl", ROW.replace('"b"', '["b"]').encode() * 4, ["non-text-value 1"]),
    "booleans": (
        "a.jsonl",
        ROW.encode() * 4 + ROW.replace('"b"', "true").encode(),
        ["non-text-value 5"],
    ),
    "objects": ("a.jsonl", b'{"user_prompt": "a", "label": {"x": 1}}\n' * 4, ["non-text-value 1"]),
    "numbers": ("a.jsonl", ROW.replace('"b"', "0").encode() * 4, []),
    "twice": ("a.csv", b"user_prompt,label,x,x\n" + b"a,b,c,d\n" * 4, ["duplicate-column 1"]),
    "twice-label": ("a.csv", b"label,user_prompt,label\n" + b"a,b,c\n" * 4, ["duplicate-column 1"]),
}
NOT_JUDGED_BY_THE_SDK = {"data-bom"}


@pytest.mark.parametrize("size", [1, 7, 65536])
@pytest.mark.parametrize("name", DATA)
def test_data(name, size, tmp_path):
    file, data, expected = DATA[name]
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    if len(data) > 50_000 and size < 100:
        pieces = (data[at : at + 997] for at in range(0, len(data), 997))
    found = check_rows(f"data/{file}", pieces, file[2:])
    assert sorted(f"{f.code} {f.line}" for f in found) == sorted(expected)
    refused = any(f.code in UPLOAD_CODES for f in found)
    assert data_uploads(file, data, tmp_path) is not refused


def test_the_message_tells_how_many_rows_more():
    data = ROW.encode() * 4 + b"5\n" * 3
    [found] = check_rows("data/a.jsonl", [data], "jsonl")
    assert found.line == 5
    assert "2 more" in found.message


FRONTS: dict[str, tuple[str, list[str]]] = {
    "good": ("---\nname: plan-work\ndescription: 'x: y'\nmetadata:\n  a: b\n---\n", []),
    "crlf": ("---\r\nname: plan-work\r\ndescription: x\r\n---\r\n", []),
    "no-front": ("# Plan\n", ["skill-frontmatter"]),
    "blank-first": ("\n---\nname: plan-work\ndescription: x\n---\n", ["skill-frontmatter"]),
    "open": ("---\nname: plan-work\ndescription: x\n", ["skill-frontmatter"]),
    "flow": (
        "---\nname: plan-work\ndescription: x\nmetadata: {a: b}\n---\n",
        ["skill-frontmatter"],
    ),
    "twice": (
        "---\nname: plan-work\nname: plan-work\ndescription: x\n---\n",
        ["skill-frontmatter"],
    ),
    "anchor": ("---\nname: plan-work\ndescription: &a x\n---\n", ["skill-frontmatter"]),
    "tag": ("---\nname: plan-work\ndescription: !!str x\n---\n", ["skill-frontmatter"]),
    "colon": ("---\nname: plan-work\ndescription: a: b\n---\n", ["skill-frontmatter"]),
    "text": ("---\njust text\n---\n", ["skill-frontmatter"]),
    "nothing": ("---\n---\n", ["skill-frontmatter"]),
    "no-name": ("---\ndescription: x\n---\n", ["skill-missing-field"]),
    "blank-name": ("---\nname: ''\ndescription: x\n---\n", ["skill-missing-field"]),
    "blank-description": ("---\nname: plan-work\ndescription: ' '\n---\n", ["skill-missing-field"]),
    "list-description": (
        "---\nname: plan-work\ndescription:\n  - x\n---\n",
        ["skill-missing-field"],
    ),
    "upper": ("---\nname: Plan-work\ndescription: x\n---\n", ["skill-name", "skill-name-differs"]),
    "final-hyphen": (
        "---\nname: plan-work-\ndescription: x\n---\n",
        ["skill-name", "skill-name-differs"],
    ),
    "long-name": (
        f"---\nname: {'a' * 65}\ndescription: x\n---\n",
        ["skill-name", "skill-name-differs"],
    ),
    "other-name": ("---\nname: plan\ndescription: x\n---\n", ["skill-name-differs"]),
    "quoted-name": ('---\nname: "plan-work"\ndescription: x\n---\n', []),
    "long-text": (
        f"---\nname: plan-work\ndescription: {'é' * 1025}\n---\n",
        ["skill-field-length"],
    ),
    "edge-text": (f"---\nname: plan-work\ndescription: {'é' * 1024}\n---\n", []),
    "long-compatibility": (
        f"---\nname: plan-work\ndescription: x\ncompatibility: {'x' * 501}\n---\n",
        ["skill-field-length"],
    ),
    "list-compatibility": (
        "---\nname: plan-work\ndescription: x\ncompatibility:\n  - x\n---\n",
        ["skill-field-length"],
    ),
    "unknown": ("---\nname: plan-work\ndescription: x\nversion: 1\n---\n", ["skill-unknown-field"]),
    "unknown-case": (
        "---\nname: plan-work\ndescription: x\nLicense: MIT\n---\n",
        ["skill-unknown-field"],
    ),
}


@pytest.mark.parametrize("name", FRONTS)
def test_frontmatter(name, tmp_path):
    text, expected = FRONTS[name]
    report = inspect(workspace({f"{S}/SKILL.md": text}))
    assert sorted(f.code for f in report.findings) == sorted(expected)
    assert report.skills[0]["valid"] is not bool(expected)
    folder = tmp_path / "plan-work"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(text.encode())
    assert skill_is_valid(folder) is not bool(expected)


def test_a_bad_frontmatter_is_the_only_finding_of_its_file():
    text = "---\nname: plan-work\n# not closed\n\n[x](gone.md)\n\n`osmosis deploy`\n"
    assert outer({f"{S}/SKILL.md": text}) == [f"skill-frontmatter {S}/SKILL.md:1"]


def test_facts_for_the_manifest():
    report = inspect(
        workspace(
            {
                f"{S}/SKILL.md": SKILL,
                ".claude/skills/plan-work": link(f"../../{S}"),
                "configs/training/demo.toml": TRAINING + "when = 2020-01-01\nbig = inf\n",
                "configs/training/broken.toml": "[",
            }
        )
    )
    assert report.skills == ({"name": "plan-work", "path": S, "valid": True, "linked": True},)
    facts = {c["path"]: c for c in report.configs}
    assert facts["configs/eval/demo.toml"]["valid"] is True
    assert facts["configs/eval/demo.toml"]["content"]["evaluation"] == {"limit": 4}
    assert facts["configs/training/broken.toml"]["content"] is None
    training = facts["configs/training/demo.toml"]
    assert (training["valid"], training["kind"], training["rollout"]) == (False, "training", "demo")
    assert training["content"]["training"] == {"lr": 1e-5, "when": "2020-01-01", "big": "inf"}
    assert MAIN
