"""Which statuses a path may answer, worked out from what the path asks of its caller.

Promise: `document` describes every status a path can give and none that it cannot; a path adds by
hand (`responses=may(502)`) only what its own story may raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from gitsync.records import Role
from gitsync.web import auth

type Responses = dict[int | str, dict[str, Any]]

TEXTS = {
    400: "The request is malformed, or asks for something that cannot be.",
    401: "No token, or one that is unknown, expired or revoked.",
    403: "The caller may not do this.",
    404: "There is no such thing, or the caller may not know of it.",
    408: "The request body did not arrive in time.",
    409: "The request does not fit the present state, or the Idempotency-Key is in use.",
    413: "The request body is too large.",
    429: "Too many requests; see Retry-After.",
    502: "The repository cannot be read; the message says why.",
    503: "Something the service needs is away; repeat the request.",
}
_HEADERS = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: {"Retry-After": {"schema": {"type": "integer"}}},
    503: {"Retry-After": {"schema": {"type": "integer"}}},
}
ERROR_SCHEMA = {"$ref": "#/components/schemas/Error"}
WRITES = {"POST", "PUT", "PATCH", "DELETE"}


def may(*statuses: int) -> Responses:
    """The error answers a path may give."""
    found: Responses = {}
    for status in statuses:
        found[status] = {
            "description": TEXTS[status],
            "content": {"application/json": {"schema": ERROR_SCHEMA}},
        }
        if status in _HEADERS:
            found[status]["headers"] = _HEADERS[status]
    return found


ALWAYS = may(400, 401, 503)
HOOK = may(400, 401, 404, 408, 413, 503)


def _calls(dependant: Dependant) -> Iterator[Any]:
    for found in dependant.dependencies:
        yield found.call
        yield from _calls(found)


def of_route(route: APIRoute) -> Responses:
    """What follows from the parameters of a path below /api/v1."""
    calls = list(_calls(route.dependant))
    found: set[int] = set()
    if any(isinstance(call, auth.Needs) for call in calls):
        found.add(404)
    if any(isinstance(call, auth.Needs) and call.role is not Role.READER for call in calls):
        found.add(403)
    if auth.require_person in calls or auth.require_admin in calls:
        found.add(403)
    if any(name != "workspace_id" for name in _path_names(route)):
        found.add(404)
    if (route.methods or set()) & WRITES:
        found.add(409)
        if route.body_field is not None:
            found |= {408, 413}
    if any(field.name == "wait" for field in route.dependant.query_params):
        found.add(429)
    return may(*sorted(found))


def _path_names(route: APIRoute) -> list[str]:
    own = [field.name for field in route.dependant.path_params]
    deeper = [field.name for found in route.dependant.dependencies for field in found.path_params]
    return own + deeper


KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request with the same key within 24 hours gets the first answer "
    "again, with `Idempotent-Replay: true`; another body with the same key is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
    "example": "create-chess-2026-08-01",
}
