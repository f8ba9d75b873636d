"""`status`: one sentence, one JSON object, one exit code for each state."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gitsync.client import ServerUnreachable, commit_status
from gitsync.client.place import Place
from tests.cli.kit import TOKEN, WORKSPACE, Call, Stage, git, gitsync, serving

SHA = "0123456789abcdef0123456789abcdef01234567"
ROUTE = f"GET workspaces/{WORKSPACE}/commits/{SHA}"
BAD = {
    "code": "no-grader",
    "severity": "error",
    "path": "rollouts/chess/main.py",
    "line": 3,
    "column": 1,
    "subject": "main.py",
    "message": "The entrypoint exposes no Grader.",
}


def entry(verdict: str, *findings: dict[str, Any]) -> dict[str, Any]:
    return {
        "entrypoint": "main.py",
        "verdict": verdict,
        "workflow": None,
        "grader": None,
        "findings": list(findings),
    }


def rollout(name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "digest": "d" * 64, "changed": True, "entrypoints": list(entries)}


def answer(state: str, **more: Any) -> dict[str, Any]:
    return {
        "commit_sha": SHA,
        "branch": "main",
        "state": state,
        "live": state.startswith("published"),
        "superseded_by": None,
        "reason": None,
        "sync_id": 1,
        "url": "http://example.com/c",
        "rollouts": [],
        "findings": [],
        "trace": [],
    } | more


def env(stage: Stage) -> dict[str, str]:
    return {
        "GITSYNC_SERVER": stage.url + "/api/v1",
        "GITSYNC_TOKEN": TOKEN,
        "GITSYNC_WORKSPACE": WORKSPACE,
    }


CASES = [
    ("published", {}, 0, "is live on main"),
    ("published", {"live": False, "superseded_by": "f" * 40}, 3, "ffffffffff is newer"),
    ("published_with_errors", {"rollouts": [rollout("chess", entry("error", BAD))]}, 1, "1 not"),
    ("refused", {"reason": "A link leaves the repository."}, 1, "was refused. A link"),
    ("superseded", {"live": False, "superseded_by": "f" * 40}, 3, "replaced"),
    ("unreachable", {}, 4, "no branch"),
    ("error", {"reason": "The remote is away."}, 4, "could not be read. The remote is away."),
    ("unknown", {}, 5, "pushed"),
    ("queued", {}, 5, "waits"),
    ("syncing", {}, 5, "right now"),
]


@pytest.mark.parametrize("state, more, code, words", CASES)
def test_each_state_has_a_sentence_and_a_code(
    stage: Stage, tmp_path: Path, state: str, more: dict[str, Any], code: int, words: str
) -> None:
    stage.on(ROUTE, 200, answer(state, **more))
    ran = gitsync("status", SHA, cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.err) == (code, "")
    assert words in ran.out.splitlines()[0]
    assert "http://example.com/c" in ran.out


def test_json_has_the_worst_verdict_of_each_rollout(stage: Stage, tmp_path: Path) -> None:
    rollouts = [
        rollout("chess", entry("ok"), entry("error", BAD), entry("unresolvable")),
        rollout("go", entry("ok")),
        {**rollout("outer", entry("ok")), "verdict": "error", "findings": [BAD]},
        rollout("none"),
    ]
    stage.on(ROUTE, 200, answer("published_with_errors", rollouts=rollouts))
    ran = gitsync("status", SHA.upper(), "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.err) == (1, "")
    found = ran.json
    assert found["schema_version"] == 1 and found["live"] is True
    assert [(r["name"], r["verdict"], r["findings"]) for r in found["rollouts"]] == [
        ("chess", "error", [BAD]),
        ("go", "ok", []),
        ("outer", "error", [BAD]),
        ("none", "unresolvable", []),
    ]
    assert set(found) >= {"commit_sha", "branch", "state", "superseded_by", "url"}


def test_findings_name_their_place(stage: Stage, tmp_path: Path) -> None:
    rollouts = [rollout("chess", entry("error", BAD))]
    stage.on(ROUTE, 200, answer("published_with_errors", rollouts=rollouts, findings=[BAD]))
    ran = gitsync("status", SHA, cwd=tmp_path, env=env(stage))
    assert ran.out.count("rollouts/chess/main.py:3:1  error no-grader") == 1
    assert "    The entrypoint exposes no Grader." in ran.out


def test_hostile_text_is_escaped(stage: Stage, tmp_path: Path) -> None:
    evil = {**BAD, "path": "rollouts/\x1b[31m\u202e[bold]x", "message": "a\r\nb\x07[/bold]"}
    rollouts = [{**rollout("\x1b]0;x\x07", entry("error", evil)), "digest": None}]
    stage.on(ROUTE, 200, answer("refused", rollouts=rollouts, reason="\x1b[2J"))
    ran = gitsync("status", SHA, cwd=tmp_path, env=env(stage))
    assert not any(c in ran.out for c in "\x1b\x07\r\u202e")
    assert "\\x1b[31m\\u202e[bold]x" in ran.out and "[/bold]" in ran.out
    raw = gitsync("status", SHA, "--json", cwd=tmp_path, env=env(stage))
    assert raw.out.isascii() and raw.json["reason"] == "\x1b[2J"


def test_head_is_looked_up_in_the_checkout(stage: Stage, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    git("init", "-q", "-b", "main", cwd=repo)
    empty = gitsync("status", "--json", cwd=repo, env=env(stage))
    assert (empty.code, empty.error["code"]) == (2, "VALIDATION")
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=repo)
    sha = git("rev-parse", "HEAD", cwd=repo).strip()
    stage.on(f"GET workspaces/{WORKSPACE}/commits/{sha}", 200, answer("published"))
    for args in ([], ["main"], [sha[:8]]):
        assert gitsync("status", *args, cwd=repo, env=env(stage)).code == 0
    assert gitsync("status", "no-such", cwd=repo, env=env(stage)).code == 2


def test_a_full_sha_needs_no_git(stage: Stage, tmp_path: Path) -> None:
    stage.on(ROUTE, 200, answer("published"))
    nothing = env(stage) | {"PATH": str(tmp_path)}
    assert gitsync("status", SHA, cwd=tmp_path, env=nothing).code == 0
    kept = {key: value for key, value in nothing.items() if key != "GITSYNC_WORKSPACE"}
    assert gitsync("status", SHA, "-w", WORKSPACE, cwd=tmp_path, env=kept).code == 0
    ran = gitsync("status", "HEAD", "--json", cwd=tmp_path, env=nothing)
    assert ran.code == 1 and "git is not installed" in ran.error["message"]


def test_waiting_asks_until_the_answer_is_final(stage: Stage, tmp_path: Path) -> None:
    states = iter(["unknown", "queued", "syncing"])

    def route(call: Call) -> tuple[int, Any]:
        return 200, answer(next(states, "published"))

    stage.routes[ROUTE] = route
    ran = gitsync(
        "status", SHA, "--wait", "--timeout", "30", "--json", cwd=tmp_path, env=env(stage)
    )
    assert (ran.code, ran.json["state"]) == (0, "published")
    waits = [float(call.query["wait"]) for call in stage.asked("commits")]
    assert len(waits) == 4 and all(0 < wait <= 30 for wait in waits)


def test_waiting_ends_at_the_time_out(stage: Stage, tmp_path: Path) -> None:
    stage.on(ROUTE, 200, answer("queued"))
    begun = time.monotonic()
    ran = gitsync("status", SHA, "--wait", "--timeout", "1", "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.json["state"]) == (5, "queued")
    assert time.monotonic() - begun < 10
    assert len(stage.asked("commits")) <= 6


def test_a_restart_of_the_server_is_waited_out(tmp_path: Path) -> None:
    with serving() as first:
        first.on(ROUTE, 200, answer("queued"))
        port = int(first.url.rpartition(":")[2])
        place = first.place()
        seen: list[str] = []
        found: list[Any] = []

        def wait() -> None:
            with place.open() as server:
                found.append(
                    commit_status(
                        server, WORKSPACE, SHA, wait_s=20, on_change=lambda s: seen.append(s.state)
                    )
                )

        thread = threading.Thread(target=wait)
        thread.start()
        while not seen:
            time.sleep(0.01)
    time.sleep(0.5)
    with serving(port=port) as second:
        second.on(ROUTE, 200, answer("published"))
        thread.join(20)
    assert [status.state for status in found] == ["published"]


def test_a_wait_outlasts_too_many_requests(stage: Stage, tmp_path: Path) -> None:
    busy = {"message": "Too many waits.", "code": "RATE_LIMITED", "retry_after": 0}
    answers = iter([(429, busy)] * 6)
    stage.routes[ROUTE] = lambda _call: next(answers, (200, answer("published")))
    ran = gitsync("status", SHA, "--wait", "--timeout", "30", cwd=tmp_path, env=env(stage))
    assert (ran.code, len(stage.asked("commits"))) == (0, 7)
    stage.on(ROUTE, 429, busy)
    ran = gitsync("status", SHA, "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.error["code"]) == (4, "RATE_LIMITED")


def test_a_server_that_is_away_is_exit_6(tmp_path: Path) -> None:
    away = {
        "GITSYNC_SERVER": "http://127.0.0.1:1",
        "GITSYNC_TOKEN": TOKEN,
        "GITSYNC_WORKSPACE": WORKSPACE,
    }
    ran = gitsync("status", SHA, "--wait", "--json", cwd=tmp_path, env=away)
    assert (ran.code, ran.out, ran.error["code"]) == (6, "", "SERVER_UNREACHABLE")
    nobody = Place("http://127.0.0.1:1", WORKSPACE, TOKEN)
    with nobody.open() as server, pytest.raises(ServerUnreachable):
        commit_status(server, WORKSPACE, SHA)


def test_a_wrong_token_is_exit_6_and_says_what_to_do(stage: Stage, tmp_path: Path) -> None:
    wrong = env(stage) | {"GITSYNC_TOKEN": "gs_other"}
    ran = gitsync("status", SHA, cwd=tmp_path, env=wrong)
    assert ran.code == 6 and "gitsync login" in ran.err and "gs_other" not in ran.err
    none = gitsync("status", SHA, "--json", cwd=tmp_path, env=env(stage) | {"GITSYNC_TOKEN": ""})
    assert (none.code, none.error["code"]) == (6, "NOT_AUTHORISED")


def test_an_unknown_workspace_is_exit_4(stage: Stage, tmp_path: Path) -> None:
    ran = gitsync("status", SHA, "-w", "nope", "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.error["code"]) == (4, "NOT_FOUND")


@pytest.mark.parametrize("body", [b"<html>login</html>", b"[]", {"commit_sha": SHA}, b""])
def test_something_that_is_no_gitsync_server_is_exit_6(stage: Stage, tmp_path: Path, body) -> None:
    stage.on(ROUTE, 200, body)
    ran = gitsync("status", SHA, "--json", cwd=tmp_path, env=env(stage))
    assert (ran.code, ran.error["code"]) == (6, "ANSWER_MALFORMED")


def test_a_redirect_is_not_followed(stage: Stage, tmp_path: Path) -> None:
    with serving() as other:
        stage.on(ROUTE, 302, {"location": other.url})
        ran = gitsync("status", SHA, "--json", cwd=tmp_path, env=env(stage))
        assert ran.error["code"] == "ANSWER_MALFORMED"
        assert other.calls == []
