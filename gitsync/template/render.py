"""The sandbox: text with `{{ name }}` becomes text, and nothing else can happen.

Promise: a template sees plain strings only. It cannot read attributes, call anything, include or
import another file, or grow without bound; an unknown name is an error, not an empty string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gitsync.errors import GitSyncError

MAX_OUTPUT = 1024 * 1024
_FORBIDDEN = (
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Extends,
    nodes.Block,
    nodes.Macro,
    nodes.CallBlock,
    nodes.FilterBlock,
    nodes.For,
    nodes.Call,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Mul,
    nodes.Pow,
)


class TemplateBroken(GitSyncError):
    """A template cannot be loaded or rendered; its author has to mend it."""

    code = "TEMPLATE_BROKEN"


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without attributes, calls, loaders, globals and stock filters."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """No attribute is safe: the context holds strings, and a template needs their text."""
        return False

    def is_safe_callable(self, obj: Any) -> bool:
        """Nothing is called from a template."""
        return False


def _toml(text: str) -> str:
    """A TOML basic string; TOML's escapes contain JSON's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _only_text(value: object) -> str:
    """What is put out must be text already; Jinja's own objects are not."""
    if not isinstance(value, str):
        raise TemplateBroken(f"A template may put out text only, not {type(value).__name__}.")
    return value


def _environment() -> _Sandbox:
    env = _Sandbox(
        undefined=StrictUndefined,
        finalize=_only_text,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # the output is TOML, Python and Markdown, never HTML
        loader=None,
        cache_size=0,
    )
    env.globals.clear()
    env.filters.clear()
    env.tests.clear()
    env.filters["toml"] = _toml
    return env


@lru_cache(maxsize=256)
def _compile(source: str) -> Template:
    env = _environment()
    for node in env.parse(source).find_all(_FORBIDDEN):
        what = type(node).__name__
        raise TemplateBroken(f"A template may not use {what} (line {node.lineno}).")
    return env.from_string(source)


def render_text(source: str, context: Mapping[str, str], *, name: str) -> str:
    """The rendered text; `name` tells which template an error is about."""
    plain = {}
    for key, value in context.items():
        if type(value) is not str:
            raise TemplateBroken(f"{name}: '{key}' is no plain string.")
        plain[key] = value
    try:
        pieces, size = [], 0
        for piece in _compile(source).generate(plain):
            size += len(piece)
            if size > MAX_OUTPUT:
                raise TemplateBroken(f"{name}: the result is larger than {MAX_OUTPUT} characters.")
            pieces.append(piece)
    except TemplateBroken as e:
        raise TemplateBroken(f"{name}: {e.message.removeprefix(f'{name}: ')}") from e
    except (TemplateError, RecursionError, TypeError) as e:
        raise TemplateBroken(f"{name}: {type(e).__name__}: {e}") from e
    return "".join(pieces)
