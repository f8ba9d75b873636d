"""Each rule for the frontmatter of skills, compared with the reference validator."""

from __future__ import annotations

import pytest

from gitsync.check import inspect
from tests.check.oracles import skill_is_valid
from tests.check.trees import (
    MAIN,
    SKILL,
    TRAINING,
    link,
    outer,
    workspace,
)

S = ".agents/skills/plan-work"
FRONTS: dict[str, tuple[str, list[str]]] = {
    "good": ("---\nname: plan-work\ndescription: 'x: y'\nmetadata:\n  a: b\n---\n", []),
    "crlf": ("---\r\nname: plan-work\r\ndescription: x\r\n---\r\n", []),
    "lone-returns": ("---\rname: plan-work\rdescription: x\r---\r", []),
    "dashes-in-quotes": (
        '---\nname: plan-work\ndescription: "a --- b"\n---\n',
        ["skill-frontmatter"],
    ),
    "dashes-in-last-value": ("---\nname: plan-work\ndescription: a --- b\n---\n", []),
    "dashes-before-a-field": (
        "---\ndescription: a --- b\nname: plan-work\n---\n",
        ["skill-missing-field"],
    ),
    "dashes-in-comment": (
        "---\n# ---- a\nname: plan-work\ndescription: x\n---\n",
        ["skill-frontmatter"],
    ),
    "dashes-in-block": (
        "---\nname: plan-work\ndescription: |\n  a\n  ---\n  b\nlicense: MIT\n---\n",
        [],
    ),
    "dashes-in-body": ("---\nname: plan-work\ndescription: x\n---\na\n\n---\n\nb --- c\n", []),
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
    # The reference validator takes it, too.
    "blank-compatibility": ("---\nname: plan-work\ndescription: x\ncompatibility:\n---\n", []),
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


def test_fields_that_are_all_indented_keep_their_places():
    text = "---\n# a\n  name: plan-work\n  description: x\n  vers: 1\n---\n"
    assert outer({f"{S}/SKILL.md": text}) == [f"skill-unknown-field {S}/SKILL.md:5"]


def test_lone_returns_end_lines_in_the_body_too():
    text = "---\rname: plan-work\rdescription: x\r---\r\r[x](gone.md)\r"
    assert outer({f"{S}/SKILL.md": text}) == [f"dead-link {S}/SKILL.md:6"]


def test_a_command_gets_a_suggestion():
    text = "`osmosis datasets`, `osmosis benchmark runs lits`, `osmosis frobnicate`\n"
    found = inspect(workspace({"AGENTS.md": text})).findings
    told = [f.message.partition("0.3.8. ")[2].partition(" Correct")[0] for f in found]
    assert told[:2] == [
        "Did you mean `osmosis dataset`?",
        "Did you mean `osmosis benchmark runs list`?",
    ]
    assert "mean" not in told[2]


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
