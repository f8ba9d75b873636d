"""Editing configs: the asked values change, and not a byte beside them."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsync.errors import InvalidInput
from gitsync.template.toml import leaves, merge_values, set_values

KEY = ("experiment", "model_path")
SHAPES = {
    "table": '[experiment]\nmodel_path = "old"\nx = 1\n',
    "comments": '# a\n[experiment] # b\n# c\nmodel_path = "old" # d\n\n# e\nx = 1 # f\n# g\n',
    "spaces": '[ experiment ]\n  model_path   =   "old"   # d\n\tx=1\n',
    "literal": "[experiment]\nmodel_path = 'old'\nx = 0x10\n",
    "multi-line": '[experiment]\nmodel_path = """\nold"""\nx = 1_000\n',
    "dotted": 'experiment.model_path = "old"\nexperiment.x = 1e-5\n',
    "quoted": '["experiment"]\n"model_path" = "old"\nx = true\n',
    "inline": 'experiment = { model_path = "old", x = 1 }\n',
    "out of order": '[experiment]\nmodel_path = "old"\n[b]\ny = 1\n[experiment.sub]\nz = 2\n',
    "array after": '[experiment]\nmodel_path = "old"\n\n[[agents]]\na = 1\n\n[[agents]]\na = 2\n',
    "crlf": '[experiment]\r\nmodel_path = "old"\r\nx = [ 1,\r\n  2 ] # l\r\n',
    "no final newline": '[experiment]\nmodel_path = "old"',
    "unicode": '# ünï\n[experiment]\nmodel_path = "old" # “q”\nname = "日本"\n',
    "dates": "[experiment]\nmodel_path = 'old'\nat = 2026-11-29T10:00:00Z\nf = inf\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_one_value_changes_and_nothing_else(shape):
    text = SHAPES[shape]
    try:
        new = set_values(text.encode(), {KEY: "new"}, name="c").decode()
    except InvalidInput:
        assert shape == "out of order", "what cannot be edited is refused, never damaged"
        return
    before, after = leaves(tomllib.loads(text)), leaves(tomllib.loads(new))
    assert after == before | {KEY: "new"}
    cut = [text.index("old") - 1, len(text) - text.index("old") - 3]
    if shape not in ("multi-line",):
        assert new.startswith(text[: cut[0]]) and new.endswith(
            text[-cut[1] + 1 :] if cut[1] > 1 else ""
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_setting_what_is_there_keeps_every_byte(shape):
    text = SHAPES[shape].encode()
    assert set_values(text, {KEY: "old"}, name="c") == text


VALUES = st.one_of(
    st.text(max_size=20).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.lists(st.sampled_from(["A_KEY", "B"]), max_size=3),
)


@given(value=VALUES, shape=st.sampled_from(sorted(SHAPES)))
def test_any_value_is_read_back_as_it_was_given(value, shape):
    text = SHAPES[shape]
    try:
        new = set_values(text.encode(), {KEY: value, ("new", "key"): value}, name="c")
    except InvalidInput:
        return
    read = leaves(tomllib.loads(new.decode()))
    assert read == leaves(tomllib.loads(text)) | {KEY: value, ("new", "key"): value}


def test_a_value_is_removed_with_its_line():
    text = b"[a]\nx = 1 # one\ny = 2\n"
    assert set_values(text, {("a", "x"): None}, name="c") == b"[a]\ny = 2\n"


def test_a_path_through_a_value_is_refused():
    with pytest.raises(InvalidInput, match="c"):
        set_values(b"experiment = 1\n", {KEY: "x"}, name="c")


def test_a_merge_takes_their_changes_and_names_the_clashes():
    base = b"[a]\nx = 1\ny = 1\nz = 1\nw = 1\n"
    ours = b"[a]\nx = 1\ny = 5 # mine\nz = 7\nw = 1\n"
    theirs = b"[a]\nx = 2\ny = 1\nz = 8\nq = 3\n"
    merged, clashes = merge_values(base, ours, theirs, name="c")
    assert merged == b"[a]\nx = 2\ny = 5 # mine\nz = 7\nq = 3\n"
    assert clashes == ("a.z",)
