"""The shipped skills: valid, complete, and saying only what exists."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from skills_ref import validate

from gitsync.check.explain import all_codes
from gitsync.template import workspace_files
from gitsync.template.catalogue import builtin
from tests.template.builders import lay_out
from tests.template.skill_blocks import (
    EXAMPLE_VALUES,
    PLACEHOLDERS,
    blocks,
    commands,
    fill,
    inline_commands,
    proofs,
    skill_texts,
)

SKILLS = builtin().skills
TEXTS = skill_texts()
VALUES = EXAMPLE_VALUES | {"<name>": "chess", "<command>": "doctor"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("skills")
    for skill in SKILLS.values():
        lay_out(root / skill.name, {p: (f.kind, f.data) for p, f in skill.files.items()})
    return root


@pytest.mark.parametrize("name", SKILLS)
def test_the_reference_validator_has_no_complaint(folder, name):
    assert validate(folder / name) == []


def test_the_five_and_the_two_optional_ones():
    assert [s.name for s in SKILLS.values() if not s.optional] == [
        "plan-training",
        "create-rollouts",
        "evaluate-rollouts",
        "debug-rollouts",
        "submit-training",
    ]
    assert [s.name for s in SKILLS.values() if s.optional] == ["plan-eval", "submit-eval"]


@pytest.mark.parametrize("name", SKILLS)
def test_each_skill_has_its_parts(name):
    text = TEXTS[name]["SKILL.md"]
    assert "Use when" in text.split("---")[1], "triggers belong into the description"
    for heading in ("## Stop and ask when", "## Proofs", "## Next"):
        assert heading in text
    assert "AGENTS.md" in text and "- [ ]" in text
    assert len(text.splitlines()) < 500
    others = set(re.findall(r"`([a-z]+-[a-z]+)`", text.split("## Next")[1]))
    assert others & set(SKILLS)


@pytest.mark.parametrize("name", SKILLS)
def test_each_skill_ends_with_proofs_that_name_a_field_or_an_exit(name):
    rows = proofs(TEXTS[name]["SKILL.md"])
    assert len(rows) >= 3
    for row in rows:
        assert row.question.endswith("?") and row.command.split()[0] in ("osmosis", "gitsync")
        assert row.fields or "exit 0" in row.proof, row


def test_connection_and_liveness_are_proved_as_the_client_can():
    every = [row for texts in TEXTS.values() for row in proofs(texts["SKILL.md"])]
    doctor = [r for r in every if r.command == "osmosis --json doctor" and "onnect" in r.question]
    assert doctor and all(r.fields == (".resource.workspace",) for r in doctor)
    live = [r for r in every if "live" in r.question or "served" in r.question]
    assert {r.command for r in live} >= {"gitsync status", "osmosis --json rollout list"}
    code = [
        r for r in every if r.command == "osmosis --json eval info <run>" and "code" in r.question
    ]
    assert code and all(r.fields == (".data.commit_sha",) for r in code)


def test_every_finding_code_has_an_answer_and_no_other_has():
    text = TEXTS["debug-rollouts"]["references/findings.md"]
    told = [
        c
        for line in text.splitlines()
        if line.startswith("| `")
        for c in re.findall(r"`([a-z][a-z-]+)`", line.split("|")[1])
    ]
    assert len(told) == len(set(told))
    assert set(told) == set(all_codes())


def osmosis_tree():
    import typer
    from osmosis_ai.cli.main import create_app

    return typer.main.get_command(create_app())


def gitsync_tree():
    import typer

    from gitsync import cli

    return typer.main.get_command(cli.app)


def test_every_command_exists_with_its_options():
    """Each line of every block, inline command and proof is parsed by the program that it runs."""
    seen: set[str] = set()
    for texts in TEXTS.values():
        for text in texts.values():
            seen |= {*commands(text), *inline_commands(text), *(p.command for p in proofs(text))}
    for _, data in workspace_files([], [], {}).values():
        with contextlib.suppress(UnicodeDecodeError):
            seen |= {*commands(data.decode()), *inline_commands(data.decode())}
    trees = {"osmosis": osmosis_tree(), "gitsync": gitsync_tree()}
    ran = []
    for line in sorted(seen):
        for part in line.split("&&"):
            words = fill(part, VALUES)
            if words[0] in trees:
                ran.append(words)
                parse(trees[words[0]], words[1:], line)
            else:
                assert words[0] in ("git", "pip", "python", "ls", "export"), line
    assert len(ran) > 60


def parse(command, words: list[str], line: str) -> None:
    """Walk down to the command and let it read its own arguments."""
    while hasattr(command, "list_commands"):
        while words and words[0] in ("--json", "--plain"):
            words = words[1:]
        if not words or words[0] == "--help":
            return  # a group by its bare name
        inner = command.get_command(None, words[0])
        assert inner is not None, f"{line}: there is no {words[0]}"
        command, words = inner, words[1:]
    if words and words[0] == "--help":
        return
    needed = [p for p in command.params if p.param_type_name == "argument" and p.required]
    if not words and needed:
        return  # named in prose, without its arguments
    try:
        command.make_context("x", list(words))
    except Exception as e:
        pytest.fail(f"{line}: {e}")


def test_placeholders_are_the_known_ones():
    for name, texts in TEXTS.items():
        for path, text in texts.items():
            for block in blocks(text):
                assert set(re.findall(r"<[a-z-]+>", block)) <= set(PLACEHOLDERS), (name, path)


def test_links_lead_somewhere():
    for name, texts in TEXTS.items():
        for path, text in texts.items():
            for target in re.findall(r"\]\(([^)#:]+)\)", text):
                base = path.rpartition("/")[0]
                assert (f"{base}/{target}" if base else target) in texts, (name, path, target)


def test_removed_interfaces_are_only_named_as_removed():
    gone = re.compile(
        r"ctx\.samples|get_samples|set_sample_reward|register_sample_source|eval-run\b"
        r"|--log-samples|rollout validate"
    )
    for name, texts in TEXTS.items():
        for path, text in texts.items():
            if path not in ("references/entrypoints.md", "references/findings.md"):
                assert not gone.search(text), (name, path)


def test_python_in_references_compiles():
    for texts in TEXTS.values():
        for text in texts.values():
            for source in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
                body = "".join(f"    {line}\n" for line in source.splitlines())
                compile(f"async def outer():\n{body}", "reference", "exec")


def test_config_blocks_load_with_the_sdk(tmp_path):
    from osmosis_ai.platform.cli.eval_config import load_eval_submit_config
    from osmosis_ai.platform.cli.training_config import load_train_submit_config

    for name, path, load in (
        ("evaluate-rollouts", "references/eval-config.md", load_eval_submit_config),
        ("submit-training", "references/training-config.md", load_train_submit_config),
    ):
        (block,) = re.findall(r"^```toml\n(.*?)^```", TEXTS[name][path], re.DOTALL | re.MULTILINE)
        (tmp_path / "x.toml").write_text(block)
        load(tmp_path / "x.toml")
