"""Where server, workspace and token come from, and that a token goes to its own server only."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gitsync.client.credentials import Credentials, credentials_path
from gitsync.client.place import find_place
from gitsync.client.server import Server, normal_url
from gitsync.errors import ConfigError, InvalidInput
from tests.cli.kit import IDENTITY, TOKEN, Stage, git, gitsync

A, B = "https://a.example.com", "https://b.example.com"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def checkout(tmp_path: Path, env: dict[str, str]) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git("init", "-q", cwd=folder)
    git("config", "gitsync.server", A, cwd=folder)
    git("config", "gitsync.workspace", "ws_kept", cwd=folder)
    helper = "!f() { echo username=x; echo password=kept-token; }; f"
    git("config", f"credential.{A}.helper", helper, cwd=folder)
    return folder


def test_the_checkout_knows_everything(checkout: Path, env: dict[str, str]) -> None:
    found = find_place(folder=checkout, env=env)
    assert (found.server, found.workspace, found.token) == (A, "ws_kept", "kept-token")
    (checkout / "deep").mkdir()
    assert find_place(folder=checkout / "deep", env=env) == found


def test_the_environment_wins_over_the_checkout(checkout: Path, env: dict[str, str]) -> None:
    env |= {"GITSYNC_WORKSPACE": "other", "GITSYNC_TOKEN": "from-env"}
    found = find_place(folder=checkout, env=env)
    assert (found.server, found.workspace, found.token) == (A, "other", "from-env")


def test_options_win_over_the_environment(tmp_path: Path, env: dict[str, str]) -> None:
    env |= {"GITSYNC_SERVER": A, "GITSYNC_WORKSPACE": "w", "GITSYNC_TOKEN": "t"}
    (tmp_path / "token").write_text("from-file\n")
    found = find_place(
        server=B, workspace="x", token_file=str(tmp_path / "token"), folder=tmp_path, env=env
    )
    assert (found.server, found.workspace, found.token) == (B, "x", "from-file")


def test_another_server_gets_nothing_of_the_checkout(checkout: Path, env: dict[str, str]) -> None:
    found = find_place(server=B, folder=checkout, env=env)
    assert (found.server, found.workspace, found.token) == (B, None, None)


def test_the_users_file_comes_last_and_is_per_server(
    checkout: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    kept = Credentials(credentials_path(env))
    kept.keep(A, "user-a", email=None)
    kept.keep(B, "user-b", email="robin@example.com")
    assert (credentials_path(env).stat().st_mode & 0o777) == 0o600
    assert find_place(folder=checkout, env=env).token == "kept-token"
    outside = find_place(folder=tmp_path, env=env)
    assert (outside.server, outside.token) == (B, "user-b")
    assert find_place(server=A, folder=tmp_path, env=env).token == "user-a"
    assert find_place(server="https://c.example.com", folder=tmp_path, env=env).token is None


def test_nothing_names_a_server(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="GITSYNC_SERVER"):
        find_place(folder=tmp_path, env=env)


def test_no_prompt_ever_appears(tmp_path: Path, env: dict[str, str]) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    git("init", "-q", cwd=folder)
    git("config", "gitsync.server", A, cwd=folder)
    asked = tmp_path / "asked"
    script = tmp_path / "askpass"
    script.write_text(f"#!/bin/sh\ntouch {asked}\necho x\n")
    script.chmod(0o755)
    git("config", "core.askPass", str(script), cwd=folder)
    env |= {"GIT_ASKPASS": str(script), "SSH_ASKPASS": str(script)}
    assert find_place(folder=folder, env=env).token is None
    assert not asked.exists()


def test_a_damaged_credentials_file_is_named(tmp_path: Path, env: dict[str, str]) -> None:
    path = credentials_path(env)
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"servers": {"x": {}}}', '{"servers": []}', "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(ConfigError, match=r"credentials\.json"):
            find_place(folder=tmp_path, env=env)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("http://H:80/", "http://h:80"),
        ("https://h/pre/api/v1/", "https://h/pre"),
        (" https://h ", "https://h"),
    ],
)
def test_server_urls_are_normalised(text: str, expected: str) -> None:
    assert normal_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "ftp://h",
        "http://",
        "http://u:p@h",
        "http://h?x=1",
        "http://h:0",
        "http://[",
        "http://h:x",
    ],
)
def test_other_urls_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        normal_url(text)
    assert "p@h" not in caught.value.message


def test_a_token_with_line_breaks_is_refused() -> None:
    with pytest.raises(InvalidInput):
        Server(A, "a\r\nX-Evil: 1")


def test_login_checks_and_keeps_the_token(stage: Stage, tmp_path: Path) -> None:
    who = {"user": {"id": "us_1", "email": "robin@example.com"}, "token": {"name": "t"}}
    stage.on("GET whoami", 200, who)
    ran = gitsync("login", stage.url, "--token-file", "-", cwd=tmp_path, given=TOKEN + "\n")
    assert ran.code == 0 and "robin@example.com" in ran.out and TOKEN not in ran.out + ran.err
    kept = tmp_path / ".home/.config/gitsync/credentials.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["servers"][stage.url]["token"] == TOKEN
    cloned = gitsync("clone", IDENTITY, "--json", cwd=tmp_path)
    assert cloned.code == 0
    wrong = gitsync("login", stage.url, "--token-file", "-", "--json", cwd=tmp_path, given="bad")
    assert (wrong.code, wrong.error["code"]) == (6, "TOKEN_INVALID")
    assert json.loads(kept.read_text())["servers"][stage.url]["token"] == TOKEN
    assert gitsync("logout", "--json", cwd=tmp_path).json["forgotten"] is True
    assert TOKEN not in kept.read_text()


def test_login_without_a_terminal_says_how(stage: Stage, tmp_path: Path) -> None:
    ran = gitsync("login", stage.url, "--json", cwd=tmp_path)
    assert ran.code == 2 and "--token-file" in ran.error["message"]
