"""The dashboard: pages made on the server, live through events, complete without script."""

from __future__ import annotations

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Scope

from gitsync.errors import NotFound
from gitsync.instance import Instance
from gitsync.web.pages import (
    access,
    account,
    admin,
    assets,
    changing,
    data,
    deliveries,
    feed,
    live,
    rollout,
    run_live,
    runs,
    settings,
    trace,
    version,
    workspace,
    workspaces,
)

_MODULES = (
    assets,
    live,
    workspaces,
    workspace,
    trace,
    version,
    rollout,
    changing,
    runs,
    run_live,
    data,
    deliveries,
    settings,
    account,
    admin,
)


def install(app: FastAPI, instance: Instance) -> None:
    """All pages, and the one reader of events they share."""
    app.state.feed = feed.Feed(instance, app.state.waits)
    pages = APIRouter()
    for module in _MODULES:
        pages.include_router(module.router)
    app.include_router(pages)


def is_for_people(request: Request) -> bool:
    """True if somebody at a browser asks for a page that is not there."""
    is_ours = not request.url.path.startswith(("/api/", "/git/", "/hooks/", "/static/"))
    return is_ours and "text/html" in request.headers.get("accept", "")


def failed(scope: Scope) -> Response | None:
    """The page for what nobody expected, None if no person asked; it reads nothing."""
    request = Request(scope)
    return access.failure(request) if is_for_people(request) else None


async def nowhere(request: Request) -> Response:
    """The page that says so."""
    error = NotFound("There is no such page.")
    return await anyio.to_thread.run_sync(access.problem, request, error)


def routes() -> set[tuple[str, str]]:
    """Every method and path, for the access matrix."""
    return {
        (method, route.path)
        for module in _MODULES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
