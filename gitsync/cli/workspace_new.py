"""`gitsync workspace create`, `connect`: how a workspace begins."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gitsync.cli import output
from gitsync.cli.credential import (
    GenerateOption,
    HostsOption,
    KeyOption,
    PasswordOption,
    ReferenceOption,
    SecretOption,
    UserOption,
    credential_of,
)
from gitsync.cli.target import on_server
from gitsync.client.server import WAIT_S, Json, Server
from gitsync.errors import InvalidInput

IdentityOption = Annotated[
    str | None,
    typer.Option("--identity", metavar="OWNER/NAME", help="What `osmosis` calls it."),
]
BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="Instead of the remote's default.")
]
WatchOption = Annotated[str, typer.Option("--watch", metavar="default|all", help="Branches.")]


@on_server
def create(
    server: Server,
    called: Annotated[
        str,
        typer.Argument(metavar="OWNER/NAME", help="What `osmosis` calls it; or a name for people."),
    ],
    starters: Annotated[
        list[str] | None,
        typer.Option(
            "--starter", metavar="NAME", help="Begin with this starter; repeatable. See `template`."
        ),
    ] = None,
    skills: Annotated[
        list[str] | None,
        typer.Option(
            "--skill", metavar="NAME", help="Install this skill; default: the standard ones."
        ),
    ] = None,
    without_skills: Annotated[bool, typer.Option("--no-skills", help="Install none.")] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A template parameter; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The name people see; default: OWNER/NAME.")
    ] = None,
    identity: IdentityOption = None,
    watch: WatchOption = "default",
    branch: BranchOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until the first version is published.")
    ] = False,
) -> None:
    """Create a workspace whose repository the server itself hosts.

    With --starter, --skill, --no-skills or --set its first commit is made from the template;
    without any of them the repository is empty.
    """
    if "/" in called and identity is None:
        identity = called
    template = _template(starters, skills, without_skills, parameters)
    body = {
        "name": name or called,
        "identity": identity,
        "provider": "embedded",
        "create": template,
        "watch": watch,
        "default_branch": branch,
    }
    made = server.post("workspaces", given(body))
    if wait and made.get("commit_sha"):
        with output.waiting("publishing"):
            made["first_version"] = _published(server, made)
    output.answer(made, lambda: _show_made(made))
    first = made.get("first_version")
    if first is not None and first["state"] != "published":
        raise typer.Exit(1)


def _template(
    starters: list[str] | None,
    skills: list[str] | None,
    without_skills: bool,
    parameters: list[str] | None,
) -> Json | None:
    if skills and without_skills:
        raise InvalidInput("Choose --skill or --no-skills.", field="skills")
    if not (starters or skills or without_skills or parameters):
        return None
    chosen: Json = {"starters": starters or []}
    if skills or without_skills:
        chosen["skills"] = skills or []
    if parameters:
        from gitsync.cli.changing import parse_set  # loads what only templates need

        chosen["parameters"] = parse_set(parameters)
    return chosen


def _published(server: Server, made: Json, timeout: float = 300) -> Json:
    """Why the first commit is live, or not, once that is settled."""
    end = time.monotonic() + timeout
    while True:
        path = f"workspaces/{made['id']}/commits/{made['commit_sha']}"
        found = server.get(path, wait=WAIT_S)
        is_open = found["state"] in {"unknown", "queued", "syncing"}
        if not is_open or time.monotonic() >= end:
            return found
        time.sleep(0.2)


def _show_made(made: Json) -> None:
    output.say(f"Created {made['name']} ({made['identity']}).")
    first = made.get("first_version")
    if first is not None:
        said = f": {first['reason']}" if first.get("reason") else "."
        output.say(f"Commit {output.short(made['commit_sha'])} is {first['state']}{said}")
    elif made.get("commit_sha"):
        output.say(f"Its first commit is {output.short(made['commit_sha'])}.")
    output.say(f"  {made.get('clone_command') or 'gitsync clone ' + made['identity']}")
    _warn(made)


@on_server
def connect(
    server: Server,
    clone_url: Annotated[str, typer.Argument(metavar="URL", help="An http(s) or ssh clone URL.")],
    name: Annotated[str | None, typer.Option("--name", help="The name people see.")] = None,
    identity: IdentityOption = None,
    provider: Annotated[
        str, typer.Option("--provider", metavar="github|generic", help="Who hosts it.")
    ] = "generic",
    test: Annotated[
        bool, typer.Option("--test", help="Only try: DNS, TCP, TLS, authentication, ref.")
    ] = False,
    git_token_file: SecretOption = None,
    git_password_file: PasswordOption = None,
    git_username: UserOption = None,
    ssh_key_file: KeyOption = None,
    generate_key: GenerateOption = False,
    credential_path: ReferenceOption = None,
    known_hosts_file: HostsOption = None,
    watch: WatchOption = "default",
    branch: BranchOption = None,
) -> None:
    """Follow a repository that lies elsewhere."""
    credential = credential_of(
        token=git_token_file,
        password=git_password_file,
        username=git_username,
        key=ssh_key_file,
        generate=generate_key,
        reference=credential_path,
        known_hosts=known_hosts_file,
    )
    remote = given({"clone_url": clone_url, "credential": credential})
    if test:
        _show_trial(server.post("workspaces/test", remote))
        return
    if not name:
        raise InvalidInput("A workspace needs a name: --name NAME.", field="name")
    body = {
        "name": name,
        "identity": identity,
        "provider": provider,
        "connect": remote,
        "watch": watch,
        "default_branch": branch,
    }
    made = server.post("workspaces", given(body))
    output.answer(made, lambda: _show_connected(made))


def _show_connected(made: Json) -> None:
    webhook = made.get("webhook") or {}
    output.say(f"Connected {made['name']} ({made['identity']}) to {made['clone_url']}.")
    output.fields(
        [
            ("webhook URL", webhook.get("url")),
            ("webhook secret, shown only now", webhook.get("secret")),
            ("public key, to be allowed to read", made.get("public_key")),
        ]
    )
    output.say(f"See what it lacks of a workspace: gitsync workspace adopt {made['identity']}")
    _warn(made)


def _warn(made: Json) -> None:
    for warning in made.get("warnings") or ():
        output.note(f"Warning: {warning}")


def _show_trial(found: Json) -> None:
    steps = found.get("steps") or []
    rows = [(s["name"], "ok" if s["ok"] else "FAILED", s["ms"], s["message"]) for s in steps]
    columns = ["step", "result", "ms", "message"]
    output.answer(found, lambda: output.table(columns, rows, empty="Nothing was tried."))
    if not steps or not all(step["ok"] for step in steps):
        raise typer.Exit(1)


def given(body: Json) -> Json:
    """A body without what was not said."""
    return {key: value for key, value in body.items() if value is not None}
