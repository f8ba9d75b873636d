"""`gitsync status`: is this commit live, and if not, why?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.options import JsonOption, ServerOption, TokenOption, WorkspaceOption, place_of
from gitsync.client.commit import CommitStatus, commit_status
from gitsync.client.localgit import Checkout
from gitsync.errors import GitSyncError, InvalidInput

LIVE, NOT_GOOD, SUPERSEDED, FAILED, TIMED_OUT = 0, 1, 3, 4, 5
_PHRASES = {
    "unknown": "is not known to the server yet; has it been pushed?",
    "queued": "waits for its turn.",
    "syncing": "is being read right now.",
    "refused": "was refused.",
    "unreachable": "is in no branch that the workspace follows.",
    "error": "could not be read.",
}


def status(
    sha: Annotated[str, typer.Argument(metavar="[SHA]", help="A commit or a name of it.")] = "HEAD",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the answer is final.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0, help="Seconds to wait at most.")
    ] = 300,
    server: ServerOption = None,
    workspace: WorkspaceOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Tell whether a commit is live, and why not.

    Exit 0: live, all runnable. 1: published with errors, or refused. 2: usage. 3: superseded.
    4: error or unreachable. 5: not final in time. 6: server unreachable or not authorised.
    """
    place = place_of(server, token_file, workspace)
    full = commit_of(sha)
    try:
        with (
            output.waiting(f"{full[:10]}: waiting for {place.server}") as tell,
            place.open() as connection,
        ):
            found = commit_status(
                connection,
                connection.workspace_id(place.need_workspace()),
                full,
                wait_s=timeout if wait else 0,
                on_change=lambda now: tell(f"{full[:10]} {phrase(now)}"),
            )
    except GitSyncError as e:
        output.fail(e)
        code = output.exit_code(e)
        raise typer.Exit(FAILED if code == 1 else code) from e
    if json:
        output.emit(found.to_json())
    else:
        show(found)
    raise typer.Exit(exit_code(found))


def commit_of(text: str) -> str:
    """The full sha of a name in this checkout; a full sha is one anywhere, even without git."""
    if re.fullmatch(r"[0-9a-fA-F]{40}", text):
        return text.lower()
    full = Checkout(Path.cwd()).resolve(text)
    if full is None:
        raise InvalidInput(
            f"{text!r} is no commit here. Name one, or give its full sha of 40 digits.", field="sha"
        )
    return full


def exit_code(found: CommitStatus) -> int:
    """The exit code that a state stands for."""
    if not found.is_final:
        return TIMED_OUT
    if found.state == "published":
        return LIVE if found.live else SUPERSEDED
    if found.state in {"published_with_errors", "refused"}:
        return NOT_GOOD
    return SUPERSEDED if found.state == "superseded" else FAILED


def phrase(found: CommitStatus) -> str:
    """The rest of the sentence that starts with the commit."""
    where = f" on {found.branch}" if found.branch else ""
    after = f"; {output.short(found.superseded_by)} is newer" if found.superseded_by else ""
    count = len(found.rollouts)
    rollouts = f"{count} rollout{'' if count == 1 else 's'}"
    if found.state == "superseded":
        return f"was replaced{where} before it was read{after}."
    if found.state in {"published", "published_with_errors"}:
        bad = sum(1 for rollout in found.rollouts if rollout["verdict"] != "ok")
        live = f"is live{where}" if found.live else f"was published{where}, but is not live{after}"
        if found.state == "published":
            return f"{live}: {rollouts}, all runnable."
        return f"{live}: {rollouts}, {bad} not runnable." if bad else f"{live}, with errors."
    text = _PHRASES.get(found.state, f"is {found.state}.")
    return f"{text} {found.reason}" if found.reason else text


def show(found: CommitStatus) -> None:
    """One sentence, the rollouts, the findings and where to read more."""
    output.say(f"{found.commit_sha[:10]} {phrase(found)}")
    if found.rollouts:
        output.table(
            ["rollout", "verdict", "digest", "changed"],
            [
                (r["name"], r["verdict"], output.short(r["digest"]), r["changed"])
                for r in found.rollouts
            ],
            empty="",
        )
    seen: list[dict[str, object]] = []
    for rollout in found.rollouts:
        seen += [item for item in rollout["findings"] if item not in seen]
    seen += [item for item in found.findings if item not in seen]
    output.findings(seen)
    if found.url:
        output.say(found.url)
