"""The command as a whole: what it prints where, how it ends, how fast it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import gitsync as package
from gitsync.cli import COMMANDS, app, output
from gitsync.settings import Settings
from gitsync.store import Database, Sealer, migrate, workspaces
from gitsync.store.rekey import idempotency_place, rekey
from gitsync.store.seal import new_key
from tests.cli.kit import BIN, GITSYNC, TOKEN, WORKSPACE, Stage, gitsync, home_env, process

DOCS = Path(__file__).parents[2] / "docs"
HEAVY = ("sqlalchemy", "fastapi", "pygit2", "alembic", "uvicorn", "pydantic", "jinja2", "argon2")


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), (*path, name))


def test_every_command_has_help_json_and_a_line_in_the_documentation() -> None:
    text = (DOCS / "cli.md").read_text()
    found = list(leaves(typer.main.get_command(app)))
    assert len(found) > 40
    for path, command in found:
        name = " ".join(path)
        assert command.help, name
        options = {option for param in command.params for option in param.opts}
        assert "--json" in options or name in {"serve", "check", "explain"}, name
        assert f"`gitsync {name}`" in text, name


def test_the_installed_command_says_its_version(tmp_path: Path) -> None:
    ran = process("--version", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, f"gitsync {package.__version__}\n", "")


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["status", "--nope"],
        ["pull"],
        ["db", "nope"],
        ["workspace", "sync", "--timeout", "x"],
    ],
)
def test_a_wrong_command_line_is_exit_2(tmp_path: Path, args: list[str]) -> None:
    ran = gitsync(*args, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "") and "Error:" in ran.err and "--help" in ran.err
    ran = gitsync(*args, "--json", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "") and ran.error["code"] in {"USAGE", "VALIDATION"}


def test_the_help_lists_all_commands_and_imports_none(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gitsync.cli import execute\nexecute(['--help'])\n"
        "print([m for m in sys.modules if m.startswith('gitsync.cli.')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    *shown, loaded = done.stdout.splitlines()
    assert loaded == "['gitsync.cli.output']"
    for name, (_, _, summary) in COMMANDS.items():
        assert any(f" {name} " in line and summary.split()[0] in line for line in shown), name


def test_a_group_without_command_shows_its_help(tmp_path: Path) -> None:
    for args in ([], ["workspace"], ["version"], ["db"]):
        ran = gitsync(*args, cwd=tmp_path)
        assert ran.code in {0, 2} and "Usage" in ran.out + ran.err


def test_status_starts_without_the_servers_libraries(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gitsync.cli import execute\n"
        f"execute(['status', '0' * 40, '--server', 'http://127.0.0.1:1', '-w', '{WORKSPACE}'])\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=home_env(tmp_path) | {"GITSYNC_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert "cannot be reached" in done.stderr


def test_commands_without_a_server_load_no_http_client(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom gitsync.cli import execute\nexecute(['template', 'list'])\n"
        "print('httpx' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_the_client_is_importable_by_its_names() -> None:
    from gitsync import client

    for name in client.__all__:
        assert getattr(client, name).__module__.startswith("gitsync.client.")
    with pytest.raises(AttributeError):
        _ = client.nothing


def test_a_bug_is_told_in_json_and_shown_in_full_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_options: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("gitsync.client.place.find_place", broken)
    ran = gitsync("token", "list", "--json", cwd=tmp_path)
    assert (ran.code, ran.error["code"]) == (1, "INTERNAL") and "boom" in ran.error["message"]
    with pytest.raises(RuntimeError):
        gitsync("token", "list", cwd=tmp_path)


def test_ctrl_c_ends_a_wait_quietly(stage: Stage, tmp_path: Path) -> None:
    sha = "0" * 40
    answer = {"commit_sha": sha, "state": "queued", "live": False}
    stage.on(f"GET workspaces/{WORKSPACE}/commits/{sha}", 200, answer)
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN, "GITSYNC_WORKSPACE": WORKSPACE}
    child = subprocess.Popen(
        [str(GITSYNC), "status", sha, "--wait", "--json"],
        cwd=tmp_path,
        env=home_env(tmp_path) | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests in the background lets them ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        while not stage.asked("commits"):
            time.sleep(0.05)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "")
    assert json.loads(err)["error"]["code"] == "INTERRUPTED"


def test_a_reader_that_leaves_early_is_no_failure_to_report(stage: Stage, tmp_path: Path) -> None:
    items = [
        {
            "id": f"ws_{n:016}",
            "name": "n" * 90,
            "identity": f"o/r{n}",
            "provider": "p",
            "state": "s",
        }
        for n in range(3000)
    ]
    body = {"items": items, "total_count": 3000, "has_more": False, "next": None}
    stage.on("GET workspaces", 200, body)
    done = subprocess.run(
        ["sh", "-c", f"'{BIN}/gitsync' workspace list | head -1"],
        cwd=tmp_path,
        env=home_env(tmp_path) | {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("name") and done.stderr == ""


def test_tables_escape_what_servers_say(stage: Stage, tmp_path: Path) -> None:
    evil = {
        "id": "ws_x",
        "name": "[red]\x1b[31m\u202e",
        "identity": "a/b\r\n",
        "provider": None,
        "state": "active",
    }
    stage.on("GET workspaces", 200, {"items": [evil], "has_more": False})
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN}
    ran = gitsync("workspace", "list", cwd=tmp_path, env=env)
    assert "[red]\\x1b[31m\\u202e" in ran.out and "a/b\\x0d\\x0a" in ran.out
    assert not any(c in ran.out for c in "\x1b\r\u202e")


def test_issues_and_errors_of_servers_are_escaped(stage: Stage, tmp_path: Path) -> None:
    body = {"message": "\x1b[2Jno", "code": "X", "issues": [{"key": "\x07k", "message": "\x07m"}]}
    stage.on("GET tokens", 400, body)
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN}
    ran = gitsync("token", "list", cwd=tmp_path, env=env)
    assert ran.code == 1 and "\\x1b[2Jno" in ran.err and "\\x07k: \\x07m" in ran.err
    assert not any(c in ran.err for c in "\x1b\x07")
    raw = gitsync("token", "list", "--json", cwd=tmp_path, env=env)
    assert raw.err.isascii() and raw.error["issues"] == body["issues"]


def test_lists_are_read_page_by_page(stage: Stage, tmp_path: Path) -> None:
    def page(call: Any) -> tuple[int, Any]:
        start = int(call.query.get("after", "0"))
        items = [{"id": f"tk_{start + n}", "name": "t"} for n in range(2)]
        more = start < 4
        return 200, {"items": items, "has_more": more, "next": str(start + 2) if more else None}

    stage.routes["GET tokens"] = page
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN}
    found = gitsync("token", "list", "--json", cwd=tmp_path, env=env).json
    assert [t["id"] for t in found["items"]] == [f"tk_{n}" for n in range(6)]


def test_a_write_is_repeated_under_one_key(stage: Stage, tmp_path: Path) -> None:
    busy = {"message": "It runs.", "code": "IN_PROGRESS"}
    answers = iter([(503, {}), (409, busy)])

    def create(call: Any) -> tuple[int, Any]:
        return next(answers, (201, {"token": {"id": "tk_1"}, "secret": "gs_x"}))

    stage.routes["POST tokens"] = create
    env = {"GITSYNC_SERVER": stage.url, "GITSYNC_TOKEN": TOKEN}
    assert gitsync("token", "create", "ci", cwd=tmp_path, env=env).out == "gs_x\n"
    assert len({call.headers["idempotency-key"] for call in stage.asked("tokens")}) == 1
    assert len(stage.asked("tokens")) == 3


def test_exit_codes_of_errors() -> None:
    from gitsync import errors
    from gitsync.client import NotAuthorised, ServerRefused, ServerUnreachable

    assert output.exit_code(errors.InvalidInput("x")) == 2
    assert output.exit_code(errors.NotFound("x")) == 1
    assert output.exit_code(ServerRefused("x", status=409)) == 1
    assert output.exit_code(NotAuthorised("x", status=403)) == 6
    assert output.exit_code(ServerUnreachable("x")) == 6


# -- what operators run ---------------------------------------------------------------------------


def test_a_database_is_made_checked_and_found_old(tmp_path: Path) -> None:
    made = gitsync("db", "upgrade", "--data-dir", "d", "--json", cwd=tmp_path)
    assert (made.code, made.json["from"], made.json["copy"]) == (0, None, None)
    assert made.json["to"] == migrate.head_revision()
    again = gitsync("db", "upgrade", "--data-dir", "d", cwd=tmp_path)
    assert again.code == 0 and "already" in again.out
    assert gitsync("db", "check", "--data-dir", "d", cwd=tmp_path).code == 0
    database = Database(f"sqlite:///{tmp_path / 'd/gitsync.db'}")
    with database.write() as db:
        db.exec_driver_sql("ALTER TABLE facts ADD COLUMN extra TEXT")
    found = gitsync("db", "check", "--data-dir", "d", "--json", cwd=tmp_path)
    assert found.code == 1 and "extra" in found.json["problems"][0]
    with database.write() as db:
        db.exec_driver_sql("UPDATE alembic_version SET version_num = 'future'")
    database.close()
    newer = gitsync("user", "reset", "a@b", "--data-dir", "d", "--json", cwd=tmp_path)
    assert (newer.code, newer.error["code"]) == (1, "STORE")


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    env = {"GITSYNC_PORT": "many"}
    ran = gitsync("db", "check", "--json", cwd=tmp_path, env=env)
    assert ran.code == 1 and "GITSYNC_PORT" in ran.error["message"]
    ran = gitsync("serve", cwd=tmp_path, env=env)
    assert ran.code == 1 and "GITSYNC_PORT" in ran.err


def test_rekey_lets_the_old_key_go(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    from gitsync.model import Identity
    from gitsync.store import objects

    old, fresh = (gitsync("db", "new-key", cwd=tmp_path).out.strip() for _ in range(2))
    assert old != fresh and len(old) >= 32
    assert gitsync("db", "upgrade", "--data-dir", "d", cwd=tmp_path).code == 0
    settings = Settings.load(data_dir=tmp_path / "d")
    database = Database(settings.sqlalchemy_url)
    now = datetime.now(UTC)
    sealer = Sealer([old])
    key = {"user_id": "us_1", "method": "POST", "path": "/api/v1/tokens", "key": "k"}
    with database.write() as db:
        workspace = workspaces.add_workspace(
            db,
            name="w",
            identity=Identity.parse("a/b"),
            provider="generic",
            clone_url="http://x",
            watch="default",
            chosen_branch=None,
            created_by=None,
            settings={},
            next_poll_at=None,
            now=now,
        ).id
        place = workspaces.sealed_place("credentials", workspace)
        workspaces.put_credential(
            db, workspace, now=now, kind="token", sealed=sealer.seal("secret", place)
        )
        hook = workspaces.sealed_place("webhook_secrets", workspace)
        workspaces.add_webhook_secret(db, workspace, sealer.seal("hook", hook), now=now)
        objects.begin_idempotent(db, **key, body_hash="h", boot="b", now=now)
        answer = sealer.seal("answer", idempotency_place(**key))
        objects.end_idempotent(db, **key, status=201, sealed=answer)
    env = {"GITSYNC_SECRET_KEYS": f"{fresh},{old}"}
    for expected in (3, 0):
        ran = gitsync("db", "rekey", "--data-dir", "d", "--json", cwd=tmp_path, env=env)
        assert (ran.code, ran.json["changed"]) == (0, expected), ran.err
    only = Sealer([fresh])
    with database.read() as db:
        row = workspaces.get_credential(db, workspace)
        assert row is not None and only.open(row["sealed"], place) == b"secret"
        (sealed,) = workspaces.webhook_secrets_of(db, workspace, now=now)
        assert only.open(sealed, hook) == b"hook"
        kept = objects.find_idempotent(db, **key)
        assert kept is not None and only.open(kept["sealed"], idempotency_place(**key)) == b"answer"
    lost = {"GITSYNC_SECRET_KEYS": new_key()}
    ran = gitsync("db", "rekey", "--data-dir", "d", "--json", cwd=tmp_path, env=lost)
    assert ran.code == 1 and "GITSYNC_SECRET_KEYS" in ran.error["message"]
    assert rekey(database, only) == 0
    database.close()


def test_the_place_of_a_stored_answer_is_the_servers() -> None:
    from gitsync.web.idempotency import _place

    key = {"user_id": "us_1", "method": "POST", "path": "/x", "key": "k"}
    assert idempotency_place(**key) == _place(key)


def test_no_variable_of_the_developer_leaks_in() -> None:
    assert not [name for name in os.environ if name.startswith("GITSYNC_")]
