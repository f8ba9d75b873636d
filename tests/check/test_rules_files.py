"""Each rule for layout, links and hygiene in at least two spellings."""

from __future__ import annotations

import pytest

from tests.check.trees import (
    EVAL,
    GOOD,
    ROWS,
    SKILL,
    TRAINING,
    Content,
    executable,
    gitlink,
    link,
    outer,
)

S = ".agents/skills/plan-work"


def skill(front: str, body: str = "# Plan\n") -> dict[str, Content]:
    return {f"{S}/SKILL.md": f"---\n{front}\n---\n{body}"}


def page(*lines: str) -> dict[str, Content]:
    return {"AGENTS.md": "\n".join(lines) + "\n"}


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
    "configs-is-link": (
        {
            **{p: None for p in GOOD if p.startswith("configs/")},
            "configs": link("settings"),
            "settings/AGENTS.md": "x",
            "settings/eval/demo.toml": EVAL.replace('"sums"', '""'),
            "settings/training/demo.toml": TRAINING,
        },
        ["empty-value configs/eval/demo.toml:5", "scaffold-symlink configs:1"],
    ),
    "configs-folder-is-link": (
        {
            "configs/training/demo.toml": None,
            "configs/training": link("../settings"),
            "settings/a/demo.toml": TRAINING.replace("main.py", ""),
        },
        ["empty-value configs/training/a/demo.toml:3", "scaffold-symlink configs/training:1"],
    ),
    "config-without-stem": (
        {"configs/eval/.toml": "["},
        ["config-not-reachable configs/eval/.toml:1"],
    ),
    "claude-in-tildes": (
        {"CLAUDE.md": "~~~\n@AGENTS.md\n~~~\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-in-ticks": (
        {"CLAUDE.md": "See `@AGENTS.md`.\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-in-listed-fence": (
        {"CLAUDE.md": "- ```\n  @AGENTS.md\n  ```\n\n> ~~~\n> AGENTS.md\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-after-fence": ({"CLAUDE.md": "```\r\nx\r\n````\r\n@AGENTS.md\r\n"}, []),
    "claude-between-lone-ticks": ({"CLAUDE.md": "The ` key.\n\n@AGENTS.md\n\nThen `.\n"}, []),
    "claude-in-ticks-of-one-paragraph": (
        {"CLAUDE.md": "- a ` b\n- `x\n  @AGENTS.md`\n"},
        ["claude-import-missing CLAUDE.md:1"],
    ),
    "claude-beside-ticks": ({"CLAUDE.md": "`@AGENTS.md` means @AGENTS.md\n"}, []),
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
    "skill-upper-and-unreadable": (
        {f"{S}/skill.md": "name: plan-work\n"},
        [f"skill-frontmatter {S}/skill.md:1"],
    ),
    "data-alone": (
        {"data/a/rows.csv": "\ufeffuser_prompt,label\n", "data/b/rows.csv": b"\xff"},
        ["data-bom data/a/rows.csv:1", "data-encoding data/b/rows.csv:1"],
    ),
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
    "dead-in-link": (page("[[a](gone.md)](lost.md)"), ["dead-link AGENTS.md:1"]),
    "dead-after-comment": (
        page("a <!-- b [c](gone.md)", "", "d [e](f(g.md) [h](lost.md) <!-- [i](x) -->"),
        ["dead-link AGENTS.md:1", "dead-link AGENTS.md:3"],
    ),
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
    "dead-behind-escaped-mark": (
        page("x", r"\![c](gone.md) ![d](gone.md)"),
        ["dead-link AGENTS.md:2", "dead-link AGENTS.md:2"],
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
    "command-in-quotes": (
        page("```", 'echo "a; osmosis deploy" && osmosis doctor', "'x | osmosis y'", "```"),
        [],
    ),
    "command-after-quotes": (
        page("```", "osmosis dataset upload 'a #1.csv' && osmosis deploy", "```"),
        ["unknown-osmosis-command AGENTS.md:2"],
    ),
    "command-after-assignments": (
        page("```", "A=\"b c\" D='e; f' osmosis deploy", 'A=\\" osmosis deploy # "', "```"),
        ["unknown-osmosis-command AGENTS.md:2", "unknown-osmosis-command AGENTS.md:3"],
    ),
    "command-after-a-lone-quote": (
        page("```", "echo don't; osmosis deploy", "```"),
        ["unknown-osmosis-command AGENTS.md:2"],
    ),
    "command-in-comment": (page("```", "osmosis doctor # then; osmosis deploy", "```"), []),
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
        {
            "a/CON": "",
            "b/Lpt1.tar.gz": "",
            "c/x.": "",
            "d/y ": "",
            "e/a:b": "",
            "f/console.md": "",
            "g/con .txt": "",
            "h/con x.txt": "",
        },
        [
            f"unportable-name {p}:1"
            for p in ("a/CON", "b/Lpt1.tar.gz", "c/x.", "d/y ", "e/a:b", "g/con .txt")
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name):
    files, expected = FILES[name]
    assert sorted(outer(files)) == sorted(expected)
