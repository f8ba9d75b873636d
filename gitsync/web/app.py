"""The ASGI application: routes, error answers, OpenAPI.

Promise: every error, the framework's own included, is answered as `{error, message, code, …}`;
status 422 is never sent; an unhandled exception shows no detail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from gitsync import __version__
from gitsync.errors import GitSyncError, NotSupported
from gitsync.instance import MIB, Instance
from gitsync.store import DatabaseFailed, RowExists
from gitsync.web import (
    answers,
    api,
    cli_api,
    device,
    health,
    hooks,
    login,
    pages,
    security,
    session,
    uploads,
)
from gitsync.web.auth import Waits
from gitsync.web.cli_api.scope import WholeSegments
from gitsync.web.githost import GitHost
from gitsync.web.limits import BodyLimit, LastResort, SecurityHeaders
from gitsync.web.logs import loggable
from gitsync.web.rates import Rates
from gitsync.web.shapes import Error
from gitsync.web.wire import error_body, error_response

log = logging.getLogger(__name__)

BODY_SECONDS = 30.0
_CODES = {400: "VALIDATION", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "BODY_TOO_LARGE"}


def create_app(instance: Instance, *, running: Callable[[], int] = lambda: 0) -> FastAPI:
    """The application for one instance; `running` tells how many turns run."""
    app = FastAPI(
        title="gitsync",
        version=__version__,
        description="Git Sync and workspace templates for reinforcement-learning rollouts.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.instance = instance
    app.state.running = running
    app.state.waits = Waits()
    app.state.receiving = uploads.Receiving()
    app.state.rates = Rates()
    app.state.git_host = GitHost(instance)
    app.include_router(api.router())
    app.include_router(cli_api.router())
    app.include_router(hooks.router)
    app.include_router(health.router)
    app.include_router(login.router)
    app.include_router(device.router)
    app.include_router(security.router)
    app.include_router(uploads.router)
    app.mount("/git", _WholePath(app.state.git_host))

    _install_errors(app)
    session.install(app)
    pages.install(app, instance)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.add_middleware(WholeSegments, prefix=cli_api.PREFIX + "/")
    app.add_middleware(LastResort, page=pages.failed)
    app.add_middleware(
        BodyLimit,
        most=instance.settings.max_body_mb * MIB,
        seconds=BODY_SECONDS,
        other={"/git/": None, "/uploads/": None, "/hooks/": instance.settings.max_webhook_mb * MIB},
    )
    app.add_middleware(NoNul)
    app.add_middleware(SecurityHeaders)
    return app


def _operation_id(route: APIRoute) -> str:
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


class _WholePath:
    """Gives a mounted application the path as the client sent it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self.app({**scope, "root_path": ""}, receive, send)


class NoNul:
    """Refuses NUL characters in a URL: no database takes them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and (
            "\0" in scope["path"] or b"%00" in scope.get("query_string", b"")
        ):
            answer = JSONResponse(
                error_body("VALIDATION", "A URL may not hold NUL characters."), status_code=400
            )
            await answer(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _install_errors(app: FastAPI) -> None:
    @app.exception_handler(GitSyncError)
    async def known(request: Request, error: GitSyncError) -> JSONResponse:
        answer = error_response(error)
        if answer.status_code >= 500 and not isinstance(error, NotSupported):
            log.warning("request failed path=%s code=%s", loggable(request.url.path), error.code)
        return answer

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        problems = []
        for problem in error.errors():
            where = [str(part) for part in problem["loc"] if part not in ("body", "query", "path")]
            problems.append({"key": ".".join(where), "message": problem["msg"]})
        first = problems[0] if problems else {"key": "", "message": "malformed"}
        message = f"{first['key']}: {first['message']}." if first["key"] else first["message"]
        return JSONResponse(
            error_body("VALIDATION", message, field=first["key"] or None, issues=problems),
            status_code=400,
        )

    @app.exception_handler(HTTPException)
    async def framework(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405) and pages.is_for_people(request):
            return await pages.nowhere(request)
        texts = {404: "There is nothing at this path.", 405: "This path has no such method."}
        message = texts.get(error.status_code, str(error.detail))
        code = _CODES.get(error.status_code, "ERROR")
        return JSONResponse(
            error_body(code, message), status_code=error.status_code, headers=error.headers
        )

    @app.exception_handler(RowExists)
    async def overtaken(request: Request, error: RowExists) -> JSONResponse:
        log.warning("overtaken by another request path=%s", loggable(request.url.path))
        text = "Somebody changed the same thing at this moment; repeat the request."
        return JSONResponse(error_body("CONFLICT", text), status_code=409)

    @app.exception_handler(DatabaseFailed)
    async def database(request: Request, error: DatabaseFailed) -> JSONResponse:
        log.exception("database failed path=%s", loggable(request.url.path))
        return JSONResponse(
            error_body("STORE_UNAVAILABLE", "The database does not answer; repeat the request."),
            status_code=503,
            headers={"Retry-After": "5"},
        )


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema:
        return app.openapi_schema
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    error = Error.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= error.pop("$defs", {}) | {"Error": error}
    schema["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for (method, path), route in api.routes().items():
        operation = schema["paths"][path][method.lower()]
        operation["security"] = [{"bearer": []}]
        for status, described in answers.of_route(route).items():
            operation["responses"].setdefault(str(status), described)
        if method in answers.WRITES:
            operation.setdefault("parameters", []).append(answers.KEY_PARAMETER)
        operation["responses"] = dict(sorted(operation["responses"].items()))
    app.openapi_schema = schema
    return schema
