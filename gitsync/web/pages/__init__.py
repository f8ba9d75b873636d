"""The dashboard: pages made on the server, live through events, complete without script."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from gitsync.instance import Instance
from gitsync.web.pages import (
    account,
    admin,
    assets,
    deliveries,
    live,
    rollout,
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
    deliveries,
    settings,
    account,
    admin,
)


def install(app: FastAPI, instance: Instance) -> None:
    """All pages, and the one reader of events they share."""
    app.state.feed = live.Feed(instance)
    pages = APIRouter()
    for module in _MODULES:
        pages.include_router(module.router)
    app.include_router(pages)


def routes() -> set[tuple[str, str]]:
    """Every method and path, for the access matrix."""
    return {
        (method, route.path)
        for module in _MODULES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
