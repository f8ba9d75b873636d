"""Parquet is judged where pyarrow is installed; elsewhere such files are left alone."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import io
from typing import Any

from gitsync.check.parquet import check_parquet

HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None


def found(data: bytes) -> list[str]:
    pieces = (data[at : at + 1000] for at in range(0, len(data), 1000))
    return sorted(f.code for f in check_parquet("data/x.parquet", pieces))


def written(columns: dict[str, Any]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), out)
    return out.getvalue()


def test_what_is_no_parquet():
    assert found(b"user_prompt,label\n") == (["parquet-unreadable"] if HAS_PYARROW else [])
    assert found(b"") == (["too-few-rows"] if HAS_PYARROW else [])


def test_columns_rows_and_cells():
    if not HAS_PYARROW:
        assert found(b"PAR1") == []
        return
    four = ["a"] * 4
    assert found(written({"user_prompt": four, "label": four})) == []
    assert found(written({"user_prompt": ["a"], "label": ["b"]})) == ["too-few-rows"]
    assert found(written({"question": four})) == ["missing-column"]
    assert found(written({"user_prompt": [*four, None], "label": ["b"] * 5})) == ["empty-cell"]
    good = [{"level": 1}] * 4
    assert found(written({"metadata": good})) == []
    assert found(written({"metadata": ['{"a": 1}'] * 3 + ['{"a": "x"}']})) == [
        "metadata-type-differs"
    ]
    assert found(written({"metadata": ['{"a": 1}'] * 4 + [" "]})) == ["invalid-metadata"]


def test_values_that_json_does_not_have():
    if not HAS_PYARROW:
        return
    for value in (
        datetime.datetime(2026, 1, 1),
        datetime.timedelta(1),
        decimal.Decimal("1.5"),
        b"\xff",
    ):
        assert found(written({"metadata": [{"a": value}] * 4})) == [], value
    import pyarrow

    far = pyarrow.array([10**13] * 4, pyarrow.timestamp("s"))
    columns = {"metadata": pyarrow.StructArray.from_arrays([far], names=["a"])}
    assert found(written(columns)) == ["parquet-unreadable"]
