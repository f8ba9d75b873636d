"""The `gitsync` command.

Promise: with `--json` standard output holds one JSON object and nothing else, and a failure is one
JSON object on standard error. Each command is a module that is imported only when it is asked for,
so that `gitsync status` starts without the server's libraries. Exit codes: `docs/cli.md`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import gitsync
from gitsync.cli import output
from gitsync.errors import GitSyncError

# name → module of this package, the command or group in it, and its line in the help; in the order
# of the help
COMMANDS: dict[str, tuple[str, str, str]] = {
    "quickstart": (
        "quickstart",
        "quickstart",
        "Start the service here, push a first rollout, wait until it is published.",
    ),
    "clone": ("clone", "clone", "Clone a workspace so that Git and osmosis work in it at once."),
    "status": ("status", "status", "Tell whether a commit is live, and why not."),
    "check": ("check", "check", "Check a working copy, or a commit of it, without a server."),
    "explain": ("check", "explain", "Explain the code of a finding."),
    "pull": ("pull", "pull", "Fetch the artifact of a rollout version, verify it and unpack it."),
    "login": ("login", "login", "Check a token and keep it for this server."),
    "logout": ("login", "logout", "Forget the token kept for a server."),
    "workspace": ("workspace", "app", "Create, connect, look at and end workspaces."),
    "version": ("version", "app", "Published code versions: immutable, by commit."),
    "dataset": ("dataset", "app", "Data sets: upload, look at, fetch, delete."),
    "secret": ("secret", "app", "Secrets that runs get as environment variables."),
    "template": ("template", "template_app", "Starters and updates for a local checkout."),
    "skills": ("skills", "skills_app", "Agent Skills of a local checkout."),
    "run": ("run", "app", "Evaluation and training runs, and what they said."),
    "token": ("token", "app", "Your tokens, and those of machines."),
    "user": ("user", "app", "The people of a server; for administrators."),
    "serve": ("serve", "serve", "Run the service."),
    "db": ("db", "app", "The database: schema, soundness, keys."),
}
INTERRUPTED = 130
# typer ships its own click since 0.26 and used the other one before: take what it raises
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
_CLICK_ERROR: type[Exception] = _USAGE_ERROR.__bases__[0]


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used; the help needs none of them."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the one that is asked for."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, summary = COMMANDS[cmd_name]
        if self._is_listing:
            return TyperCommand(cmd_name, help=summary)
        found = getattr(importlib.import_module(f"gitsync.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(cmd_name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of commands, from the lines above."""
        self._is_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._is_listing = False


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"gitsync {gitsync.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Git Sync and workspace templates for reinforcement-learning rollouts."""


def execute(args: list[str]) -> int:
    """Run one command line; its exit code."""
    output.use_json("--json" in args)
    command = typer.main.get_command(app)
    try:
        code = command.main(args=args, prog_name="gitsync", standalone_mode=False)
    except GitSyncError as e:
        output.fail(e)
        return output.exit_code(e)
    except typer.Abort:
        output.complain("ABORTED", "Stopped.")
        return 1
    except _CLICK_ERROR as e:
        return _usage(e)
    except KeyboardInterrupt:
        output.complain("INTERRUPTED", "Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever reads has had enough; keep the interpreter from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as e:
        if not output.is_json():
            raise
        output.complain("INTERNAL", f"This is a bug in gitsync: {type(e).__name__}: {e}")
        return 1
    if code == INTERRUPTED:  # typer makes Ctrl-C an exit code
        output.complain("INTERRUPTED", "Interrupted.")
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return 2
    where = context.command_path if context is not None else "gitsync"
    output.complain("USAGE", error.format_message(), hint=f"See `{where} --help`.")
    return int(getattr(error, "exit_code", 2))


def main() -> None:
    """The console script."""
    sys.exit(execute(sys.argv[1:]))
