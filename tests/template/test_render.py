"""Sandbox, parameters and the reading of template folders."""

from __future__ import annotations

import os
import time
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.errors import GitSyncError, InvalidInput, NotFound
from gitsync.template import starter_files, workspace_files
from gitsync.template.catalogue import builtin, load_catalogue
from gitsync.template.parameters import Parameter, as_text
from gitsync.template.render import TemplateBroken, render_text
from gitsync.template.selection import Selection, SkillUse, StarterUse, render, use_starter
from gitsync.template.toml import read_toml
from gitsync.tree import Kind
from tests.template.builders import put, small_template

ESCAPES = [
    "{{ x.__class__ }}",
    "{{ x['__class__'] }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ x.format(y) }}",
    "{{ x() }}",
    "{{ x | attr('__class__') }}",
    "{{ x | map('upper') }}",
    "{{ lipsum }}",
    "{{ range(9) }}",
    "{{ self }}",
    "{{ missing }}",
    "{{ x * 999999999 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{% include 'main.py' %}",
    "{% include '/etc/passwd' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% block a %}{% endblock %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
    "{% filter upper %}x{% endfilter %}",
    "{{ cycler }}",
    "{{ namespace }}",
    "{% set y = x.__class__ %}",
    "{{ x[0:1] }}",
    "{% if x is defined %}{% endif %}",
    "{{",
    "{{ 5 }}",
    "(" * 100_000 + "{{ " + "(" * 5000,
]


@pytest.mark.parametrize("source", ESCAPES, ids=lambda s: s[:30])
def test_nothing_gets_out_of_the_sandbox(source):
    with pytest.raises(TemplateBroken):
        print(render_text(source, {"x": "value", "y": "other"}, name="t"))


@pytest.mark.parametrize(
    "value",
    ["{{ 7 * 7 }}", "{% include 'x' %}", "$(touch x)", "`id`", '"""', "'''", "\\", '"\n[secrets]'],
)
def test_values_are_text_and_never_templates(value):
    assert render_text("{{ x }}", {"x": value}, name="t") == value


@given(st.text())
def test_the_toml_filter_survives_every_text(value):
    text = render_text("k = {{ x | toml }}\n", {"x": value}, name="t")
    if not any("\ud800" <= c <= "\udfff" for c in value):
        assert read_toml(text.encode(), name="t") == {"k": value}


@pytest.mark.parametrize("value", [1, None, ["a"], {"a": 1}, type("S", (str,), {})("x"), object()])
def test_only_plain_strings_reach_a_template(value):
    with pytest.raises(TemplateBroken):
        render_text("{{ x }}", {"x": value}, name="t")


BAD_VALUES = [
    ("eval_model", "no-provider"),
    ("eval_model", "openai/x\nentrypoint = 'evil'"),
    ("eval_model", 'openai/x"'),
    ("eval_model", "openai/" + "x" * 500),
    ("eval_secret", "lower"),
    ("dataset", "../../etc/passwd"),
    ("dataset", "data/multiply.jsonl"),
    ("dataset", ""),
    ("dataset", "a\u202eb"),
    ("base_model", "{{ x }}"),
    ("max_concurrent", "0"),
    ("max_concurrent", "many"),
    ("max_concurrent", 1.5),
    ("max_concurrent", True),
    ("max_concurrent", "9" * 50),
    ("unknown", "x"),
    ("__class__", "x"),
]


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_bad_parameters_are_refused_before_rendering(name, value):
    with pytest.raises(InvalidInput) as caught:
        starter_files("minimal-local", {name: value})
    assert caught.value.details["field"].startswith("parameters.")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Demo",
        "1demo",
        "a/b",
        "..",
        ".git",
        "a b",
        "a-",
        "default",
        "con",
        "nul",
        "com1",
        "x" * 61,
        "é",
        "a\n",
    ],
)
def test_bad_rollout_names_are_refused(name):
    with pytest.raises(InvalidInput):
        use_starter(builtin(), "minimal-local", rollout=name)


def test_the_schema_says_what_the_check_does():
    for starter in builtin().starters.values():
        schema = starter.parameters.schema()
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        assert validator.is_valid(starter.parameters.resolve({}))
        for name, value in BAD_VALUES:
            if isinstance(value, str) and name == "max_concurrent":
                continue  # text is accepted for numbers, as it comes from a command line
            if "\n" in str(value) or "\u202e" in str(value):
                continue  # control characters are refused beyond what a schema can say
            assert not validator.is_valid({name: value}), (name, value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "true", True),
        ("integer", "7", 7),
        ("number", "1e-5", 1e-5),
        ("string", "7", "7"),
    ],
)
def test_text_becomes_the_declared_type(kind, text, value):
    default = {"boolean": False, "integer": 0, "number": 0.0, "string": ""}[kind]
    parameter = Parameter("p", kind, "p", "", default)
    assert parameter.check(text) == value and type(parameter.check(text)) is type(value)
    assert as_text(True) == "true"


@pytest.mark.parametrize("value", ["nan", "inf", float("nan"), "1" * 400])
def test_numbers_are_finite(value):
    with pytest.raises(InvalidInput):
        Parameter("p", "number", "p", "", 0.0).check(value)


def test_unknown_names_list_what_there_is():
    with pytest.raises(NotFound, match="minimal-local"):
        starter_files("minmal-local")


def test_rendering_is_a_pure_function():
    names = list(builtin().starters)
    assert workspace_files(names, None, {}) == workspace_files(names, None, {})


def test_links_and_modes_are_first_class(tmp_path: Path):
    catalogue = load_catalogue(small_template(tmp_path / "t"))
    files = render(catalogue, Selection(workspace={}))
    assert files["tool/run"].kind is Kind.EXECUTABLE  # listed, though the source has no bit
    assert files["link"].file == (Kind.LINK, b"README.md")
    assert files["README.md"].data == b"# One\n"


def test_a_starter_takes_the_rollouts_name_everywhere(tmp_path: Path):
    catalogue = load_catalogue(small_template(tmp_path / "t"))
    use = use_starter(catalogue, "tiny", rollout="chess")
    files = render(catalogue, Selection(starters=(use,)))
    assert set(files) == {"rollouts/chess/main.py", "configs/eval/chess.toml", "data/rows.jsonl"}
    assert files["rollouts/chess/main.py"].data == b"NAME = 'chess'\n"


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../outside", "rollouts/tiny/../../../x", "."]
)
def test_a_link_in_the_source_is_never_followed(tmp_path: Path, target):
    """Weak spot 4: the file it points at must not be copied."""
    (tmp_path / "outside").write_text("secret")
    small_template(tmp_path / "t", {"rollouts/tiny/leak": ("link", target)})
    with pytest.raises(InvalidInput, match="leaves the tree"):
        load_catalogue(tmp_path / "t")


def test_caches_of_the_source_are_not_part_of_it(tmp_path: Path):
    """Weak spot 5."""
    small_template(
        tmp_path / "t",
        {"rollouts/tiny/__pycache__/main.cpython-312.pyc": "x", "rollouts/tiny/a.pyc": "x"},
    )
    catalogue = load_catalogue(tmp_path / "t")
    assert not [p for p in catalogue.files if "pyc" in p]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"template.toml": None}, "no template.toml"),
        ({"template.toml": "schema = 2\nname='x'\nversion='1'\n"}, "schema 1"),
        ({"template.toml": "x = ["}, "TOML"),
        (
            {"rollouts/tiny/template.toml": "schema=1\nname='tiny'\nowned=['../{rollout}']\n"},
            "cannot be written",
        ),
        (
            {"rollouts/tiny/template.toml": "schema=1\nname='tiny'\nowned=['.git/{rollout}']\n"},
            "Git's own",
        ),
        ({"rollouts/tiny/template.toml": "schema=1\nname='tiny'\nfiles=['nope']\n"}, "lacks nope"),
        ({"rollouts/tiny/template.toml": "schema=1\nname='other'\n"}, "not called like"),
        ({"dot-git/config": "x"}, "Git's own"),
        ({"a/dot-git/hooks/post-checkout": "x"}, "Git's own"),
        ({"README.md": "twice"}, "two sources"),
        ({"b\\c": "x"}, "cannot be written"),
    ],
)
def test_hostile_and_broken_templates_are_refused(tmp_path: Path, changes, match):
    small_template(tmp_path / "t", changes)
    with pytest.raises((GitSyncError, KeyError), match=match):
        load_catalogue(tmp_path / "t")


def test_special_files_in_a_source_are_refused(tmp_path: Path):
    os.mkfifo(put(tmp_path / "t", {}) / "pipe") if (tmp_path / "t").mkdir() is None else None
    with pytest.raises(TemplateBroken, match="regular"):
        load_catalogue(tmp_path / "t")


def test_two_starters_cannot_want_one_path(tmp_path: Path):
    catalogue = load_catalogue(small_template(tmp_path / "t"))
    files = render(
        catalogue, Selection(starters=(StarterUse("tiny", "one"), StarterUse("tiny", "two")))
    )
    assert "rollouts/one/main.py" in files and "rollouts/two/main.py" in files


def test_a_skill_must_be_known():
    with pytest.raises(NotFound, match="plan-training"):
        render(builtin(), Selection(skills=(SkillUse("nope"),)))


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 60_000 + " = 1",
        "x = " + "[" * 50_000,
        "x = " + "{a=" * 5000,
        "x = 1e" + "9" * 100,
        "\ufeffx = 1",
        "x = \x00",
    ],
    ids=["key", "arrays", "tables", "float", "bom", "nul"],
)
def test_toml_bombs_are_cheap(text):
    started = time.process_time()
    try:
        read_toml(text.encode(), name="bomb")
    except InvalidInput as e:
        assert e.message.startswith("bomb")
    assert time.process_time() - started < 1


def test_a_workspace_takes_the_parameters_of_all_its_starters():
    files = workspace_files(["minimal-local"], [], {"workspace": "acme", "max_concurrent": "3"})
    assert b'name = "acme"' in files["pyproject.toml"][1]
    assert b"max_concurrent=3" in files["rollouts/minimal-local/main.py"][1]
    with pytest.raises(InvalidInput, match=r"Known: .*max_concurrent.*workspace"):
        workspace_files(["minimal-local"], [], {"nope": 1})
    with pytest.raises(InvalidInput):
        workspace_files([], [], {"max_concurrent": 3})
