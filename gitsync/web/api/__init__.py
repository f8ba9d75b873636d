"""The service's own API, `/api/v1`: one module per group of paths."""

from typing import Any

from fastapi import APIRouter

from gitsync.web.api import artifacts, events, people, syncs, tokens, versions, workspaces

DOCUMENTED = {
    400: "The request is malformed, or asks for something that cannot be.",
    401: "No token, or one that is unknown, expired or revoked.",
    403: "The caller may not do this.",
    404: "There is no such thing, or the caller may not know of it.",
    408: "The request body did not arrive in time.",
    409: "The request does not fit the present state.",
    413: "The request body is too large.",
    429: "Too many requests; see Retry-After.",
    502: "A remote refused or did not answer.",
    503: "Something the service needs is away; repeat the request.",
}


def documented() -> dict[int | str, dict[str, Any]]:
    """The error answers every path may give, for OpenAPI."""
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        status: {"description": text, "content": {"application/json": {"schema": schema}}}
        for status, text in DOCUMENTED.items()
    }


def router() -> APIRouter:
    """All paths below `/api/v1`."""
    api = APIRouter(prefix="/api/v1", responses=documented())
    for module in (workspaces, syncs, versions, artifacts, tokens, people, events):
        api.include_router(module.router)
    return api
