"""From values to HTML: one Jinja environment, the filters of all pages, the headers of all pages.

Promise: everything is escaped; text of repositories is shown without control or bidirectional
characters (`shown`, `block`); a page carries no inline script or style, so its
Content-Security-Policy can forbid them.

How a door makes a page: a template that extends `base.html` (signed in) or `card.html` (a single
box, for those who are not), and `page(request, "name.html", viewer=…, **values)`. A form that
changes something holds `{{ csrf_field }}`.
"""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import pass_context
from jinja2.runtime import Context
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from starlette.routing import Match

from gitsync import __version__
from gitsync.records import User
from gitsync.text import printable
from gitsync.web.pages.assets import asset_url

THEMES = ("auto", "light", "dark")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_TICKS = re.compile(r"`([^`]{1,300})`")
_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False, "typographer": False})
    .disable(["image", "autolink"])
    .enable("table")
)
_SCROLLS = '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'


class Viewer(Protocol):
    """Who looks at a page; `csrf` is the token their forms carry."""

    @property
    def user(self) -> User:
        """The person."""

    @property
    def csrf(self) -> str:
        """Bound to the session."""


def page(
    request: Request,
    name: str,
    /,
    *,
    viewer: Viewer | None = None,
    status: int = 200,
    **values: Any,
) -> HTMLResponse:
    """One template as an answer."""
    theme = request.cookies.get("theme", "auto")
    csrf = "" if viewer is None else viewer.csrf
    text = _ENVIRONMENT.get_template(name).render(
        {
            "viewer": viewer,
            "path": request.url.path,
            "here": _here(request),
            "is_first": "after" not in request.query_params,
            "theme": theme if theme in THEMES else "auto",
            "csrf_field": Markup('<input type="hidden" name="csrf" value="{}">').format(csrf),
            "now": datetime.now(UTC),
            "version": __version__,
            "status": status,
            **values,
        }
    )
    return HTMLResponse(text.encode("utf-8", "replace"), status_code=status, headers=HEADERS)


def _here(request: Request) -> str:
    """The address at which a page can be looked at again."""
    path = request.url.path
    if request.method in ("GET", "HEAD"):
        return path + (f"?{request.url.query}" if request.url.query else "")
    # an answer to a form may stand where only forms go: then what is above it
    while path and not any(
        route.matches({**request.scope, "method": "GET", "path": path})[0] is Match.FULL
        for route in request.app.routes
    ):
        path = path.rpartition("/")[0]
    return path or "/"


# -- times and numbers ----------------------------------------------------------------------------


def moment_of(value: datetime | str | None) -> datetime | None:
    """A time as records or documents give it."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def ago(value: datetime, now: datetime) -> str:
    """`3 min ago`, short enough for a column."""
    seconds = round((now - value).total_seconds())
    ahead = seconds < -5
    for size, word in ((86400 * 365, "y"), (86400 * 30, "mo"), (86400, "d"), (3600, "h")):
        if abs(seconds) >= size:
            text = f"{abs(seconds) // size} {word}"
            return f"in {text}" if ahead else f"{text} ago"
    if abs(seconds) >= 60:
        text = f"{abs(seconds) // 60} min"
    elif ahead:
        text = f"{-seconds} s"
    else:
        return "just now" if seconds < 5 else f"{seconds} s ago"
    return f"in {text}" if ahead else f"{text} ago"


@pass_context
def _when(context: Context, value: datetime | str | None) -> str:
    moment = moment_of(value)
    if moment is None:
        return Markup('<span class="muted">never</span>')
    exact = moment.astimezone(UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        exact.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        exact.strftime("%Y-%m-%d %H:%M:%S UTC"),
        ago(moment, context["now"]),
    )


def milliseconds(value: float | None) -> str:
    """A duration a person reads at a glance."""
    if value is None:
        return "–"
    if value < 9.95:
        return f"{value:.1f} ms"
    if value < 1000:
        return f"{value:.0f} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    return f"{value / 60_000:.0f} min" if value < 3_600_000 else f"{value / 3_600_000:.1f} h"


def size(value: int | None) -> str:
    """Bytes in a fitting unit."""
    if value is None:
        return "–"
    number, units = float(value), ["B", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return (
        f"{number:.0f} {units[0]}"
        if number >= 10 or units[0] == "B"
        else f"{number:.1f} {units[0]}"
    )


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}".replace(",", "\u202f")


# -- texts ----------------------------------------------------------------------------------------


def _shown(value: object, limit: int = 2000) -> str:
    return printable("" if value is None else str(value), limit=limit)


def _block(value: str, limit: int = 20_000) -> str:
    return "\n".join(printable(line) for line in value[:limit].strip().splitlines())


def _subject(message: str) -> str:
    return printable(message.strip().partition("\n")[0], limit=120) or "(no message)"


def _ticks(value: str) -> str:
    """A message of ours with `names` in backticks as code."""
    text = escape(printable(value, limit=4000))
    return Markup(_TICKS.sub(r"<code>\1</code>", str(text)))  # noqa: S704 - escaped above


@lru_cache(maxsize=256)
def _markdown(value: str, limit: int = 64 * 1024) -> str:
    """Markdown of anybody: no HTML, no images; links only to http(s), never followed for us."""
    rendered = _MARKDOWN.render(_block(value, limit))
    rendered = re.sub(r' style="[^"]*"', "", rendered)  # a column's side
    rendered = rendered.replace("<pre>", '<pre tabindex="0">')  # it may be wider than the page
    rendered = rendered.replace("<table>", _SCROLLS).replace("</table>", "</table></div>")
    rendered = re.sub(r'<a href="(?!https?://)[^"]*"', "<a", rendered)
    return Markup(  # noqa: S704 - html is off in the renderer
        rendered.replace("<a href=", '<a rel="nofollow noopener noreferrer" href=')
    )


def _short(sha: str | None) -> str:
    return "–" if sha is None else sha[:7]


def path_to(*parts: object, **query: object) -> str:
    """A path of ours: each part is quoted; `None` in the query is left out."""
    path = "/" + "/".join(
        quote(str(part).encode("utf-8", "surrogateescape"), safe="") for part in parts
    )
    given = {key.rstrip("_"): str(value) for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=200,
    )
    made.filters |= {
        "when": _when,
        "ms": milliseconds,
        "size": size,
        "shown": _shown,
        "block": _block,
        "subject": _subject,
        "ticks": _ticks,
        "markdown": _markdown,
        "short": _short,
        "plural": _plural,
        "quoted": lambda value: shlex.quote(printable(str(value), limit=200)),
    }
    made.globals |= {"asset": asset_url, "url": path_to}
    for name in ("icons.html", "pieces.html"):
        module = made.get_template(name).module
        made.globals |= {
            key: item for key, item in vars(module).items() if key.islower() and key[0] != "_"
        }
    return made


_ENVIRONMENT = _environment()
