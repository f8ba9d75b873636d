"""The `gitsync` command.

Promise: with `--json` standard output holds one JSON object and nothing else, and a failure is one
JSON object on standard error. Each command is a module that is imported only when it is asked for,
so that `gitsync status` starts without the server's libraries. Exit codes: `docs/cli.md`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import gitsync
from gitsync.cli import output
from gitsync.errors import GitSyncError

# name → module of this package, and the command or group in it; the order is that of the help
COMMANDS: dict[str, tuple[str, str]] = {
    "quickstart": ("quickstart", "quickstart"),
    "clone": ("clone", "clone"),
    "status": ("status", "status"),
    "check": ("check", "check"),
    "explain": ("check", "explain"),
    "pull": ("pull", "pull"),
    "login": ("login", "login"),
    "logout": ("login", "logout"),
    "workspace": ("workspace", "app"),
    "version": ("version", "app"),
    "template": ("template", "template_app"),
    "skills": ("skills", "skills_app"),
    "token": ("token", "app"),
    "user": ("user", "app"),
    "serve": ("serve", "serve"),
    "db": ("db", "app"),
}
INTERRUPTED = 130
# typer ships its own click since 0.26 and used the other one before: take what it raises
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
_CLICK_ERROR: type[Exception] = _USAGE_ERROR.__bases__[0]


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands whose module is installed."""
        return [
            name
            for name, (module, _) in COMMANDS.items()
            if importlib.util.find_spec(f"gitsync.cli.{module}") is not None
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the one that is asked for."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module, attribute = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"gitsync.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(cmd_name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


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


def run(args: list[str]) -> int:
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
    sys.exit(run(sys.argv[1:]))
