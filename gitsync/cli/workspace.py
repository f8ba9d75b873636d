"""`gitsync workspace`: look at workspaces, change and end them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gitsync.cli import output, workspace_new, workspace_remote
from gitsync.cli.adopt import adopt
from gitsync.cli.delivery import delivery_app
from gitsync.cli.member import member_app
from gitsync.cli.options import YesOption, confirm
from gitsync.cli.target import (
    Target,
    about_workspace,
    in_workspace,
    of_named_workspace,
    on_server,
)
from gitsync.cli.workspace_new import IdentityOption, given
from gitsync.client.server import WAIT_S, Json, Server, segment
from gitsync.errors import InvalidInput

app = typer.Typer(help="Create, connect, look at and end workspaces.", no_args_is_help=True)
app.command()(workspace_new.create)
app.command()(workspace_new.connect)
app.command()(adopt)
app.add_typer(member_app, name="member")
app.add_typer(delivery_app, name="delivery")


@app.command("list")
@on_server
def list_workspaces(server: Server) -> None:
    """The workspaces you may see."""
    items = list(server.pages("workspaces"))
    rows = [
        (w["name"], w["identity"], w["provider"], w["state"], w.get("default_branch"), w["id"])
        for w in items
    ]
    columns = ["name", "identity", "provider", "state", "branch", "id"]
    empty = "There is no workspace that you may see."
    output.listed(items, lambda: output.table(columns, rows, empty=empty))


@app.command()
@about_workspace
def show(target: Target) -> None:
    """One workspace with its branches, and its last error if there is one."""
    found = target.get()
    output.answer(found, lambda: _show(found))


def _show(found: Json) -> None:
    error = found.get("last_error") or {}
    output.fields(
        [
            ("name", found["name"]),
            ("identity", found["identity"]),
            ("before", ", ".join(found.get("aliases") or ())),
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
@about_workspace
def sync(
    target: Target,
    wait: Annotated[bool, typer.Option("--wait", help="Until the sync has ended.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", metavar="S", min=0)] = 300,
) -> None:
    """Look at the remote now. With --wait, exit 1 if the sync failed, 5 if it took too long."""
    found = target.post("sync")
    if not wait:
        output.answer(found, f"Sync {found['sync_id']} is asked for.")
        return
    with output.waiting("syncing"):
        found = _wait_for(target, f"syncs/{found['sync_id']}", timeout)
    output.answer(found, lambda: _show_sync(found))
    if not found.get("finished_at"):
        raise typer.Exit(5)
    raise typer.Exit(1 if found["status"] == "failed" else 0)


def _wait_for(target: Target, path: str, timeout: float) -> Json:
    end = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        found = target.get(path, wait=max(0.0, min(WAIT_S, end - begun)))
        if found.get("finished_at") or time.monotonic() >= end:
            return found
        if time.monotonic() - begun < 1:
            time.sleep(0.2)


def _show_sync(found: Json) -> None:
    said = (found.get("error") or {}).get("message", "")
    output.say(f"Sync {found['id']}: {found.get('outcome') or found['status']}. {said}".strip())
    rows = [
        (b["name"], output.short(b["from_sha"]), output.short(b["to_sha"]))
        for b in found.get("branches") or ()
    ]
    output.table(["branch", "from", "to"], rows, empty="No branch moved.")
    output.findings(found.get("findings") or ())


@app.command()
@in_workspace
def check(
    target: Target,
    ref: Annotated[str, typer.Argument(metavar="REF", help="A branch, or a full sha.")],
) -> None:
    """Check a branch or commit in the server without publishing anything."""
    found = target.post("check", {"ref": ref})
    report: Json = found.get("report") or found
    output.answer(found, lambda: _show_report(ref, report))
    raise typer.Exit(0 if report.get("verdict") == "ok" else 1)


def _show_report(ref: str, report: Json) -> None:
    output.say(f"{ref}: {report.get('verdict')}")
    for rollout in report.get("rollouts") or ():
        output.findings(rollout.get("findings") or ())
    output.findings(report.get("findings") or ())


@app.command()
@of_named_workspace
def rename(
    target: Target,
    name: Annotated[str | None, typer.Option("--name", help="The new name.")] = None,
    identity: IdentityOption = None,
) -> None:
    """Change the name or the identity; the old identity works on until it is released."""
    changes = given({"name": name, "identity": identity})
    if not changes:
        raise InvalidInput("Say what to change: --name, --identity.")
    found = target.send("PATCH", "", changes)
    for warning in found.get("warnings") or ():
        output.note(warning)
    output.answer(found, f"Now {found['name']} ({found['identity']}).")


@app.command()
@of_named_workspace
def release(
    target: Target,
    identity: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="One it had before.")],
    yes: YesOption = False,
) -> None:
    """Give up an identity the workspace had before; others may take it then."""
    owner, _, name = identity.partition("/")
    confirm(f"Give up {identity}? Clones that use it stop working.", is_sure=yes)
    target.delete(f"aliases/{segment(owner)}/{segment(name)}")
    output.answer({"schema_version": 1, "released": identity}, f"{identity} is released.")


@app.command()
@about_workspace
def suspend(target: Target) -> None:
    """Stop following the repository for a while; what is published stays."""
    _change(target, "suspend")


@app.command()
@about_workspace
def resume(target: Target) -> None:
    """Follow the repository again."""
    _change(target, "resume")


@app.command()
@about_workspace
def disconnect(target: Target, yes: YesOption = False) -> None:
    """Forget the repository and its credential; published versions stay readable."""
    confirm("Disconnect the workspace and forget its credential?", is_sure=yes)
    _change(target, "disconnect")


def _change(target: Target, verb: str) -> None:
    found = target.post(verb)
    output.answer(found, f"{found['name']} is {found['state']}.")


@app.command()
@of_named_workspace
def delete(target: Target, yes: YesOption = False) -> None:
    """Delete a disconnected workspace with all its versions."""
    found = target.get()
    confirm(f"Delete {found['name']} with everything it published?", is_sure=yes)
    target.delete()
    document = {"schema_version": 1, "id": target.workspace_id, "deleted": True}
    output.answer(document, f"{found['name']} is deleted.")


app.command("rotate-secret")(workspace_remote.rotate_secret)
app.command()(workspace_remote.credential)
