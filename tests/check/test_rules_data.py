"""Each rule for data files in at least two spellings, compared with the SDK."""

from __future__ import annotations

import pytest

from gitsync.check.data import check_rows
from tests.check.oracles import UPLOAD_CODES, data_uploads

ROW = '{"user_prompt": "a", "ground_truth": "b"}\n'
DATA: dict[str, tuple[str, bytes, list[str]]] = {
    "three": ("a.jsonl", ROW.encode() * 3, ["too-few-rows 1"]),
    "empty": ("a.csv", b"", ["too-few-rows 1"]),
    "only-header": ("a.csv", b"user_prompt,label\n", ["too-few-rows 1"]),
    "blank-lines": ("a.jsonl", b"\n \n" + ROW.encode() * 4 + b"\r\n", []),
    "latin": ("a.jsonl", ROW.encode() * 5 + b'"\xe9"\n', ["data-encoding 6"]),
    "latin-twice": ("a.jsonl", ROW.encode() * 2 + b'"\xe9"\n' * 3, ["data-encoding 3"]),
    "latin-csv-twice": ("a.csv", b"user_prompt,label\r\na,\xff\r\nb,\xff\r\n", ["data-encoding 2"]),
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
    "twice-first-empty": (
        "a.csv",
        b"user_prompt,label,user_prompt\n,b,c\na,b,c\na,b,c\na,b,\n",
        ["duplicate-column 1", "empty-cell 5"],
    ),
    "many-columns": (
        "a.csv",
        b"user_prompt,label," + b",".join(b"%d" % n for n in range(100_000)) + b"\n",
        ["too-few-rows 1"],
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
    "latin-in-long-row": (
        "a.jsonl",
        ROW.encode() * 4 + b'{"user_prompt": "' + b"x" * 5_000_000 + b"\xe9" + b'"}\n' + b"\xff\n",
        ["data-encoding 5"],
    ),
    "cut-in-long-row": (
        "a.csv",
        b"user_prompt,label\n" + b"a,b\n" * 4 + b"x" * 5_000_000 + "é".encode()[:1] + b"\ra,b\n",
        ["data-encoding 6"],
    ),
    "meta-dotted-key": (
        "a.jsonl",
        b'{"metadata": {"a.b": 1}}\n' * 4 + b'{"metadata": {"a": {"b": "x"}}}\n',
        ["metadata-type-differs 5"],
    ),
    "meta-dotted-key-agrees": (
        "a.jsonl",
        b'{"metadata": {"a.b": 1}}\n' * 4 + b'{"metadata": {"a": {"b": 2}}}\n',
        [],
    ),
    "meta-bracket-key": (
        "a.csv",
        b'user_prompt,metadata\nx,"{""a"": [""x""]}"\nx,"{""a[]"": 1}"\n'
        + b'x,"{""a"": []}"\n' * 3,
        ["metadata-type-differs 3"],
    ),
    "meta-nested-brackets": (
        "a.jsonl",
        b'{"metadata": {"a": [[{"b": 1}]]}}\n' * 4 + b'{"metadata": {"a[][].b": "x"}}\n',
        ["metadata-type-differs 5"],
    ),
    "meta-long-keys": (
        "a.jsonl",
        (f'{{"metadata": {{"{"k" * 900}": 1, "{"k" * 901}": "x"}}}}\n' * 4).encode(),
        [],
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
