"""What the server makes of an uploaded file."""

from __future__ import annotations

import hashlib
import json

import pyarrow
import pyarrow.parquet
import pytest

from gitsync.check.upload import examine_upload

ROWS = [{"user_prompt": f"{n}+{n}?", "ground_truth": str(2 * n)} for n in range(30)]


def examine(tmp_path, content: bytes, suffix: str):
    path = tmp_path / f"sums.{suffix}"
    path.write_bytes(content)
    return examine_upload(str(path), suffix, path.name)


def lines(*rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_good_file_gives_rows_digest_and_preview(tmp_path):
    content = lines(*ROWS)
    found = examine(tmp_path, content, "jsonl")
    assert found.findings == () and not found.has_errors
    assert (found.row_count, found.size) == (30, len(content))
    assert found.digest == hashlib.sha256(content).hexdigest()
    assert list(found.preview) == ROWS[:20]


def test_csv_rows_are_previewed_by_column(tmp_path):
    content = b"user_prompt,label\n" + b"".join(b'"a, %d",x\n' % n for n in range(4))
    found = examine(tmp_path, content, "csv")
    assert (found.row_count, found.findings) == (4, ())
    assert found.preview[3] == {"user_prompt": "a, 3", "label": "x"}


def test_parquet_is_counted_and_previewed(tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    found = examine_upload(str(path), "parquet", "table.parquet")
    assert (found.row_count, found.findings) == (30, ())
    assert list(found.preview) == ROWS[:20]
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "suffix", "code"),
    [
        (lines(*ROWS[:3]), "jsonl", "too-few-rows"),
        (lines(*({"user_prompt": "x"} for _ in range(4))), "jsonl", "missing-column"),
        (b"\xff\n" * 5, "jsonl", "data-encoding"),
        (b"PAR1 no parquet", "parquet", "parquet-unreadable"),
        (b'a,b\n"', "csv", "missing-column"),
    ],
)
def test_a_bad_file_has_findings_and_no_preview(tmp_path, content, suffix, code):
    found = examine(tmp_path, content, suffix)
    assert found.has_errors and code in {f.code for f in found.findings}
    assert all(f.path == f"sums.{suffix}" for f in found.findings)
    assert found.preview == () and found.size == len(content)


def test_a_preview_is_plain_json_whatever_the_rows_hold(tmp_path):
    odd = '{"user_prompt": "\\ud800\\u0000", "ground_truth": NaN, "more": [[[[[[[[[[1]]]]]]]]]], '
    odd += f'"long": "{"x" * 5000}", "number": {10**30}}}\n'
    found = examine(tmp_path, (odd * 4).encode(), "jsonl")
    assert found.row_count == 4
    text = json.dumps(list(found.preview), allow_nan=False, ensure_ascii=False)
    assert text.encode() and len(text) < 8000
    assert found.preview[0]["number"] == str(10**30)


def test_a_wide_file_has_a_bounded_preview(tmp_path):
    row = {"user_prompt": "x", "ground_truth": "y"} | {f"c{n}": "z" * 900 for n in range(200)}
    found = examine(tmp_path, lines(*[row] * 40), "jsonl")
    assert len(json.dumps(found.preview)) < 140_000
