"""What the unmodified `osmosis` CLI asks of its platform, `/api/cli`: one module per topic.

Promise: every path checks version, authentication, scope, role and input, in this order, and
nothing is read of a body before the first four passed (see `scope`).
"""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from gitsync.web.cli_api import (
    account,
    datasets,
    device,
    models,
    rollouts,
    runs,
    secrets,
    unsupported,
)

PREFIX = "/api/cli"
# `unsupported` is the last one: what another module provides wins
_MODULES = (account, device, rollouts, models, runs, datasets, secrets, unsupported)


def router() -> APIRouter:
    """All paths below `/api/cli`; they are another project's contract, so no part of ours."""
    api = APIRouter(prefix=PREFIX, include_in_schema=False)
    for module in _MODULES:
        for part in module.routers:
            api.include_router(part)
    return api


def routes() -> dict[tuple[str, str], APIRoute]:
    """Every route by method and path below the prefix, for the access matrix."""
    return {
        (method, route.path): route
        for module in _MODULES
        for part in module.routers
        for route in part.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
