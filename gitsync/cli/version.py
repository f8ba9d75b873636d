"""`gitsync version`: published code versions."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli import output
from gitsync.cli.target import Target, in_workspace
from gitsync.client.localgit import Checkout
from gitsync.client.server import Json, Server, segment
from gitsync.errors import InvalidInput, NotFound

app = typer.Typer(help="Published code versions: immutable, by commit.", no_args_is_help=True)
ShaArgument = Annotated[
    str, typer.Argument(metavar="SHA", help="A commit, or the first 7 digits or more of one.")
]
MOST_SEARCHED = 2000


def version_sha(target: Target, text: str) -> str:
    """The full sha: as given, as a name in this checkout, or the one version that starts so."""
    if re.fullmatch(r"[0-9a-fA-F]{40}", text):
        return text.lower()
    local = Checkout(Path.cwd()).resolve(text)
    if local is not None:
        return local
    if not re.fullmatch(r"[0-9a-fA-F]{7,39}", text):
        raise InvalidInput(f"{text!r} is no commit here, nor 7 or more digits of one.", field="sha")
    items = target.items("versions", most=MOST_SEARCHED)
    found = {v["commit_sha"] for v in items if v["commit_sha"].startswith(text.lower())}
    if len(found) > 1:
        raise InvalidInput(f"{text} is ambiguous: {', '.join(sorted(found)[:5])}", field="sha")
    if not found:
        raise NotFound(f"No published version starts with {text}.")
    return str(found.pop())


@app.command("list")
@in_workspace
def list_versions(
    target: Target,
    branch: Annotated[str | None, typer.Option("--branch", metavar="NAME")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
) -> None:
    """Published versions, newest first."""
    items = target.items("versions", most=limit, branch=branch)
    rows = [
        (
            output.short(v["commit_sha"]),
            v["published_at"],
            v["branches"],
            (v.get("author") or {}).get("name"),
            (str(v.get("message") or "").splitlines() or [""])[0][:72],
        )
        for v in items
    ]
    columns = ["commit", "published", "branches", "author", "message"]
    output.listed(items, lambda: output.table(columns, rows, empty="Nothing is published yet."))


@app.command()
@in_workspace
def show(target: Target, sha: ShaArgument = "HEAD") -> None:
    """The manifest of a version: every rollout, digest and finding."""
    found = target.get(f"versions/{version_sha(target, sha)}")
    output.answer(found, lambda: _show(found))


def _show(found: Json) -> None:
    author = found.get("author") or {}
    output.fields(
        [
            ("commit", found["commit_sha"]),
            ("branches", found["branches"]),
            ("author", f"{author.get('name')} <{author.get('email')}>"),
            ("committed", found["committed_at"]),
            ("published", found["published_at"]),
            ("pins", [pin["name"] for pin in found.get("pins") or ()]),
            ("message", (str(found.get("message") or "").splitlines() or [""])[0]),
        ]
    )
    rows = [
        (r["name"], e["entrypoint"], e["verdict"], e["workflow"], e["grader"], r["digest"])
        for r in found["rollouts"]
        for e in r["entrypoints"]
        or [dict.fromkeys(("entrypoint", "verdict", "workflow", "grader"))]
    ]
    columns = ["rollout", "entrypoint", "verdict", "workflow", "grader", "digest"]
    output.table(columns, rows, empty="This version has no rollouts.")
    for rollout in found["rollouts"]:
        for entry in rollout["entrypoints"]:
            output.findings(entry.get("findings") or ())
    output.findings(found.get("findings") or ())


@app.command()
@in_workspace
def archive(
    target: Target,
    sha: ShaArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A new file, or - for stdout.")],
) -> None:
    """Download the full tree of a version as a .tar.gz."""
    if output.is_json() and file == "-":
        raise InvalidInput("With --json the archive cannot go to standard output.")
    full = version_sha(target, sha)
    path = target.path(f"versions/{full}/archive.tar.gz")
    if file == "-":
        _download(target.server, path, sys.stdout.fileno())
        return
    size = _save(target.server, path, Path(file))
    document = {"schema_version": 1, "commit_sha": full, "path": file, "size": size}
    output.answer(document, f"{size} bytes of {full[:10]} in {file}")


def _save(connection: Server, path: str, target: Path) -> int:
    """Write beside the target, then rename: no half archive under its name."""
    from gitsync.client.failures import TargetExists

    if target.exists():
        raise TargetExists(f"{target} exists.")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as e:
        raise InvalidInput(f"{target} cannot be written: {e.strerror}.") from e
    try:
        try:
            size = connection.retrying()(_download, connection, path, descriptor)
        finally:
            os.close(descriptor)
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
    return size


def _download(connection: Server, path: str, descriptor: int) -> int:
    done = 0
    if os.path.isfile(f"/dev/fd/{descriptor}"):  # noqa: PTH113 - a descriptor, not a path
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
    with output.progress("archive") as on_progress, connection.stream(path, {}) as response:
        for piece in response.iter_raw():
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
            done += len(piece)
            on_progress(done, None)
    return done


@app.command()
@in_workspace
def diff(
    target: Target,
    old: Annotated[str, typer.Argument(metavar="FROM")],
    new: Annotated[str, typer.Argument(metavar="TO")] = "HEAD",
) -> None:
    """What changed between two versions: rollouts, classes, config keys, files."""
    base, full = (version_sha(target, text) for text in (old, new))
    wanted: Json = {"from": base}
    found = target.get(f"versions/{full}/diff", **wanted)
    rows = list(_changes(found))
    columns = ["what", "change", "details"]
    output.answer(found, lambda: output.table(columns, rows, empty="Nothing changed."))


def _changes(found: Json) -> Any:
    rollouts = found["rollouts"]
    for word in ("added", "removed"):
        for name in rollouts[word]:
            yield f"rollout {name}", word, ""
    for rollout in rollouts["changed"]:
        parts = [
            f"{e['entrypoint']}: {_assessment(e['from'])} → {_assessment(e['to'])}"
            for e in rollout["entrypoints"]
        ]
        yield f"rollout {rollout['name']}", "changed", "; ".join(parts) or "contents"
    for config in found["configs"]:
        keys = [f"{k['key']}: {k['from']} → {k['to']}" for k in config["keys"][:20]]
        yield config["path"], config["change"], "; ".join(keys)
    for file in found["files"]:
        yield file["path"], file["change"], ""


def _assessment(value: Json | None) -> str:
    if value is None:
        return "none"
    return " ".join(str(value[key]) for key in ("verdict", "workflow", "grader") if value[key])


@app.command()
@in_workspace
def pin(
    target: Target,
    sha: ShaArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the pin.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it is kept.")] = "",
    expires_at: Annotated[
        datetime | None,
        typer.Option("--until", metavar="TIME", help="ISO 8601, taken as UTC; default: never."),
    ] = None,
) -> None:
    """Keep a version, whatever happens to its branch."""
    body: Json = {"reason": reason}
    if expires_at is not None:
        body["expires_at"] = expires_at.replace(tzinfo=UTC).isoformat()
    full = version_sha(target, sha)
    found = target.send("PUT", f"versions/{full}/pins/{segment(name)}", body)
    output.answer(found, f"{full[:10]} is kept as {name}.")


@app.command()
@in_workspace
def unpin(
    target: Target,
    sha: ShaArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the pin.")],
) -> None:
    """Let go of a version."""
    full = version_sha(target, sha)
    target.delete(f"versions/{full}/pins/{segment(name)}")
    document = {"schema_version": 1, "commit_sha": full, "name": name, "removed": True}
    output.answer(document, f"{full[:10]} is not kept as {name} any more.")


@app.command()
@in_workspace
def recheck(target: Target, sha: ShaArgument = "HEAD") -> None:
    """Assess a version with the server's present checker; bytes and digests stay."""
    found = target.post(f"versions/{version_sha(target, sha)}/recheck")
    rows = [
        (r["name"], e["entrypoint"], e["verdict"])
        for r in found["rollouts"]
        for e in r["entrypoints"]
    ]
    columns = ["rollout", "entrypoint", "verdict"]
    output.answer(found, lambda: output.table(columns, rows, empty="There are no rollouts."))
