"""`gitsync dataset` and `gitsync secret` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kit import gitsync
from tests.live import live_server

ROWS = "".join(f'{{"user_prompt": "{n}?", "ground_truth": "{n}"}}\n' for n in range(2000))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with live_server(tmp_path_factory.mktemp("data-cli"), upload_part_mb=1) as found:
        yield found


@pytest.fixture
def run(server, tmp_path):
    workspace = server.create()
    env = {
        "GITSYNC_SERVER": server.url,
        "GITSYNC_TOKEN": server.token,
        "GITSYNC_WORKSPACE": workspace["id"],
    }
    return lambda *args, given="": gitsync(*args, cwd=tmp_path, env=env, given=given)


@pytest.mark.slow
def test_a_data_set_from_upload_to_deletion(run, tmp_path: Path) -> None:
    path = tmp_path / "sums.jsonl"
    path.write_text(ROWS * 30)  # three parts
    first = run("dataset", "upload", "sums.jsonl", "--json")
    assert (first.code, first.json["row_count"], first.json["state"]) == (0, 60_000, "uploaded")
    taken = run("dataset", "upload", "sums.jsonl", "--json")
    assert taken.code == 1
    assert json.loads(taken.err)["error"]["existing_dataset_id"] == first.json["id"]
    again = run("dataset", "upload", "sums.jsonl", "--overwrite")
    assert again.code == 0 and "60000 rows" in again.out
    listed = run("dataset", "list", "--json").json["items"]
    assert [(d["name"], d["replaces"]) for d in listed] == [("sums", first.json["id"])]
    shown = run("dataset", "show", "sums")
    assert "user_prompt" in shown.out and "2.7 MiB" in shown.out
    got = run("dataset", "download", "sums", "copy.jsonl")
    assert got.code == 0 and (tmp_path / "copy.jsonl").read_bytes() == path.read_bytes()
    assert "Ready: 60000 rows" in run("dataset", "logs", "sums").out
    assert run("dataset", "delete", "sums").code == 2  # it asks, and nobody is there
    assert run("dataset", "delete", "sums", "--yes").code == 0
    assert run("dataset", "show", "sums").code == 1


@pytest.mark.slow
def test_a_bad_file_is_told_with_its_lines(run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(ROWS + "no json\n")
    refused = run("dataset", "upload", "bad.jsonl")
    assert refused.code == 1 and "bad.jsonl:2001" in refused.err
    for name in ("none.jsonl", "bad.txt"):
        assert run("dataset", "upload", name).code == 2
    assert run("dataset", "upload", "bad.jsonl", "--name", "a/b").code == 1


@pytest.mark.slow
def test_a_secret_goes_in_by_standard_input_or_file_and_never_comes_out(run, tmp_path) -> None:
    value = "sv-0123456789"
    said = [run("secret", "set", "KEY", given=value + "\n")]
    (tmp_path / "value").write_text(value)
    said.append(run("secret", "set", "KEY", "--scope", "workspace", "--file", "value", "--json"))
    said.append(run("secret", "list", "--json"))
    assert [s.code for s in said] == [0, 0, 0]
    assert [s["scope"] for s in said[2].json["items"]] == ["workspace", "user"]
    assert run("secret", "set", "KEY", given="\n").code == 2
    said.append(run("secret", "delete", "KEY", "--scope", "workspace", "--yes"))
    said.append(run("secret", "list"))
    assert said[-1].out.count("KEY") == 1
    assert not any(value in s.out + s.err for s in said)
