"""`gitsync workspace`: create, connect, look at and end workspaces."""

from __future__ import annotations

from typing import Annotated, Any

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
from gitsync.cli.delivery import delivery_app
from gitsync.cli.member import member_app
from gitsync.cli.options import (
    JsonOption,
    ServerOption,
    TokenOption,
    WorkspaceArgument,
    YesOption,
    confirm,
    connected,
    place_of,
)
from gitsync.client.server import Json, Server
from gitsync.errors import InvalidInput

app = typer.Typer(help="Create, connect, look at and end workspaces.", no_args_is_help=True)
app.add_typer(member_app, name="member")
app.add_typer(delivery_app, name="delivery")

IdentityOption = Annotated[
    str | None,
    typer.Option("--identity", metavar="OWNER/NAME", help="What `osmosis` calls it."),
]
BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="Instead of the remote's default.")
]
WatchOption = Annotated[str, typer.Option("--watch", metavar="default|all", help="Branches.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name people see.")],
    identity: IdentityOption = None,
    watch: WatchOption = "default",
    branch: BranchOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Create a workspace whose repository the server itself hosts."""
    body = {
        "name": name,
        "identity": identity,
        "provider": "embedded",
        "watch": watch,
        "default_branch": branch,
    }
    with place_of(server, token_file).open() as connection:
        made = connection.post("workspaces", _given(body))
    if json:
        output.emit(made)
        return
    output.say(f"Created {made['name']} ({made['identity']}).")
    output.say(f"  gitsync clone {made['identity']}")


@app.command()
def connect(
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
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
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
    remote = _given({"clone_url": clone_url, "credential": credential})
    with place_of(server, token_file).open(timeout_s=90) as connection:
        if test:
            _show_trial(connection.post("workspaces/test", remote), json)
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
        made = connection.post("workspaces", _given(body))
    if json:
        output.emit(made)
        return
    webhook = made.get("webhook") or {}
    output.say(f"Connected {made['name']} ({made['identity']}) to {made['clone_url']}.")
    output.fields(
        [
            ("webhook URL", webhook.get("url")),
            ("webhook secret, shown only now", webhook.get("secret")),
            ("public key, to be allowed to read", made.get("public_key")),
        ]
    )
    for warning in made.get("warnings") or ():
        output.note(f"Warning: {warning}")


def _show_trial(found: Json, is_json: bool) -> None:
    steps = found.get("steps") or []
    if is_json:
        output.emit(found)
    else:
        rows = [(s["name"], "ok" if s["ok"] else "FAILED", s["ms"], s["message"]) for s in steps]
        output.table(["step", "result", "ms", "message"], rows, empty="Nothing was tried.")
    if not steps or not all(step["ok"] for step in steps):
        raise typer.Exit(1)


@app.command("list")
def list_workspaces(
    server: ServerOption = None, token_file: TokenOption = None, json: JsonOption = False
) -> None:
    """The workspaces you may see."""
    with place_of(server, token_file).open() as connection:
        items = list(connection.pages("workspaces"))
    if json:
        output.emit({"schema_version": 1, "items": items, "total_count": len(items)})
        return
    rows = [
        (w["name"], w["identity"], w["provider"], w["state"], w.get("default_branch"), w["id"])
        for w in items
    ]
    columns = ["name", "identity", "provider", "state", "branch", "id"]
    output.table(columns, rows, empty="There is no workspace that you may see.")


@app.command()
def show(
    workspace: WorkspaceArgument = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """One workspace with its branches, and its last error if there is one."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.get(f"workspaces/{workspace_id}")
    if json:
        output.emit(found)
        return
    error = found.get("last_error") or {}
    output.fields(
        [
            ("name", found["name"]),
            ("identity", found["identity"]),
            ("id", found["id"]),
            ("provider", found["provider"]),
            ("clone URL", found["clone_url"]),
            ("state", found["state"]),
            ("watches", found.get("watch")),
            ("webhook", (found.get("webhook") or {}).get("url")),
            ("last look", found.get("last_look_at")),
            ("last error", error.get("message")),
            ("page", found.get("url")),
        ]
    )
    rows = [
        (b["name"], output.short(b["head_sha"]), output.short(b["published_sha"]), b["state"])
        for b in found["branches"]
    ]
    output.table(["branch", "head", "published", "state"], rows, empty="No branch was seen yet.")


@app.command()
def sync(
    workspace: WorkspaceArgument = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until the sync has ended.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=0)] = 300,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Look at the remote now. With --wait, exit 1 if the sync failed, 5 if it took too long."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        path = f"workspaces/{workspace_id}/sync"
        found: Json = connection.post(path)
        if wait:
            with output.waiting("syncing"):
                found = _wait_for(connection, f"{path}s/{found['sync_id']}", timeout)
    outcome = found.get("outcome")
    if json:
        output.emit(found)
    elif not wait:
        output.say(f"Sync {found['sync_id']} is asked for.")
    else:
        error = found.get("error") or {}
        output.say(
            f"Sync {found['id']}: {outcome or found['status']}. {error.get('message', '')}".strip()
        )
        rows = [
            (b["name"], output.short(b["from_sha"]), output.short(b["to_sha"]))
            for b in found.get("branches") or ()
        ]
        output.table(["branch", "from", "to"], rows, empty="No branch moved.")
        output.findings(found.get("findings") or ())
    if wait and not found.get("finished_at"):
        raise typer.Exit(5)
    raise typer.Exit(1 if wait and found["status"] == "failed" else 0)


def _wait_for(connection: Server, path: str, timeout: float) -> Json:
    import time

    from gitsync.client.server import WAIT_S

    end = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        found = connection.get(path, wait=max(0.0, min(WAIT_S, end - begun)))
        if found.get("finished_at") or time.monotonic() >= end:
            return found
        if time.monotonic() - begun < 1:
            time.sleep(0.2)


@app.command()
def suspend(
    workspace: WorkspaceArgument = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Stop following the repository for a while; what is published stays."""
    _change("suspend", workspace, server, token_file, json)


@app.command()
def resume(
    workspace: WorkspaceArgument = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Follow the repository again."""
    _change("resume", workspace, server, token_file, json)


@app.command()
def disconnect(
    workspace: WorkspaceArgument = None,
    yes: YesOption = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Forget the repository and its credential; published versions stay readable."""
    confirm("Disconnect the workspace and forget its credential?", is_sure=yes)
    _change("disconnect", workspace, server, token_file, json)


def _change(
    verb: str, workspace: str | None, server: str | None, token_file: str | None, json: bool
) -> None:
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.post(f"workspaces/{workspace_id}/{verb}")
    if json:
        output.emit(found)
    else:
        output.say(f"{found['name']} is {found['state']}.")


@app.command()
def delete(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Name or OWNER/NAME.")],
    yes: YesOption = False,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Delete a disconnected workspace with all its versions."""
    confirm(f"Delete {workspace} with everything it published?", is_sure=yes)
    with connected(server, token_file, workspace) as (connection, workspace_id):
        connection.delete(f"workspaces/{workspace_id}")
    if json:
        output.emit({"schema_version": 1, "id": workspace_id, "deleted": True})
    else:
        output.say(f"{workspace} is deleted.")


@app.command()
def rename(
    workspace: Annotated[str, typer.Argument(metavar="WORKSPACE", help="Name or OWNER/NAME.")],
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    identity: IdentityOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Change the name or the identity."""
    changes = _given({"name": name, "identity": identity})
    if not changes:
        raise InvalidInput("Say what to change: --name, --identity.")
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.send("PATCH", f"workspaces/{workspace_id}", changes)
    if json:
        output.emit(found)
    else:
        output.say(f"Now {found['name']} ({found['identity']}).")


@app.command("rotate-secret")
def rotate_secret(
    workspace: WorkspaceArgument = None,
    overlap: Annotated[
        float, typer.Option("--overlap", metavar="S", min=0, help="Seconds the old one still works")
    ] = 86_400,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Make a new webhook secret; the old one works until the overlap ends."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        path = f"workspaces/{workspace_id}/webhook-secret/rotate"
        found = connection.post(path, {"overlap_s": overlap})
    if json:
        output.emit(found)
    else:
        output.fields([("webhook URL", found["url"]), ("secret, shown only now", found["secret"])])


@app.command()
def credential(
    workspace: WorkspaceArgument = None,
    git_token_file: SecretOption = None,
    git_password_file: PasswordOption = None,
    git_username: UserOption = None,
    ssh_key_file: KeyOption = None,
    generate_key: GenerateOption = False,
    credential_path: ReferenceOption = None,
    known_hosts_file: HostsOption = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Replace the credential with which the server reads the repository."""
    given = credential_of(
        token=git_token_file,
        password=git_password_file,
        username=git_username,
        key=ssh_key_file,
        generate=generate_key,
        reference=credential_path,
        known_hosts=known_hosts_file,
    )
    if given is None:
        raise InvalidInput("Give a credential: --git-token-file, --ssh-key-file, …")
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.send("PUT", f"workspaces/{workspace_id}/credential", given)
    if json:
        output.emit(found)
    else:
        output.say("The credential is replaced; the remote is looked at now.")
        output.fields([("public key", found.get("public_key"))])


@app.command()
def check(
    ref: Annotated[str, typer.Argument(metavar="REF", help="A branch, or a full sha.")],
    workspace: Annotated[str | None, typer.Option("--workspace", "-w")] = None,
    server: ServerOption = None,
    token_file: TokenOption = None,
    json: JsonOption = False,
) -> None:
    """Check a branch or commit in the server without publishing anything."""
    with connected(server, token_file, workspace) as (connection, workspace_id):
        found = connection.post(f"workspaces/{workspace_id}/check", {"ref": ref})
    report: dict[str, Any] = found.get("report") or found
    if json:
        output.emit(found)
    else:
        output.say(f"{ref}: {report.get('verdict')}")
        for rollout in report.get("rollouts") or ():
            output.findings(rollout.get("findings") or ())
        output.findings(report.get("findings") or ())
    raise typer.Exit(0 if report.get("verdict") == "ok" else 1)


def _given(body: Json) -> Json:
    return {key: value for key, value in body.items() if value is not None}
