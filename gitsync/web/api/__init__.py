"""The service's own API, `/api/v1`: one module per group of paths."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from gitsync.web.answers import ALWAYS
from gitsync.web.api import (
    artifacts,
    datasets,
    events,
    executors,
    people,
    runs,
    secrets,
    skills,
    syncs,
    templates,
    tokens,
    versions,
    workspaces,
)

PREFIX = "/api/v1"
_MODULES = (
    workspaces,
    syncs,
    versions,
    artifacts,
    templates,
    skills,
    tokens,
    runs,
    executors,
    datasets,
    secrets,
    people,
    events,
)


def router() -> APIRouter:
    """All paths below `/api/v1`."""
    api = APIRouter(prefix=PREFIX, responses=ALWAYS)
    for module in _MODULES:
        api.include_router(module.router)
    return api


def routes() -> dict[tuple[str, str], APIRoute]:
    """Every route by method and full path, for descriptions and for the access matrix."""
    return {
        (method, PREFIX + route.path): route
        for module in _MODULES
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
