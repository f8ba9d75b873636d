"""`POST /hooks/{provider}/{workspace}`: verify, store, answer (design section 3, step 1).

No Git here, nothing waits for a sync. An unknown workspace, a wrong provider and a wrong signature
get the same 401.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from gitsync.connect import webhook_secrets_of
from gitsync.errors import NotFound, Unauthenticated
from gitsync.forge import Parsed, github
from gitsync.git.remote import Remote
from gitsync.instance import Instance
from gitsync.records import Workspace
from gitsync.store import workspaces
from gitsync.sync import triggers
from gitsync.web import shapes, wire
from gitsync.web.answers import HOOK, Responses
from gitsync.web.auth import InstanceDep

log = logging.getLogger(__name__)
router = APIRouter(tags=["hooks"])

_TAKEN: Responses = {200: {"description": "Taken, and asks for no look.", "model": shapes.Delivery}}
_PROVIDERS = {"github": github}


class SignatureInvalid(Unauthenticated):
    """The delivery is not signed with a secret of this workspace, or there is no such hook."""

    code = "SIGNATURE_INVALID"


class ForeignRepository(NotFound):
    """A rightly signed delivery that speaks of another repository."""

    code = "FOREIGN_REPOSITORY"


@router.post(
    "/hooks/{provider}/{workspace_id}",
    status_code=202,
    response_model=shapes.Delivery,
    responses=_TAKEN | HOOK,
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
        "parameters": [
            {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
            for name in ("X-Hub-Signature-256", "X-GitHub-Event", "X-GitHub-Delivery")
        ],
    },
)
async def receive(
    provider: str, workspace_id: str, request: Request, instance: InstanceDep
) -> JSONResponse:
    """Take a delivery of a forge."""
    body = await request.body()
    headers = {name.decode("latin-1"): value for name, value in request.headers.raw}
    status, answer = await anyio.to_thread.run_sync(
        _take, instance, provider, workspace_id, headers, body
    )
    return JSONResponse(answer, status_code=status)


def _take(
    instance: Instance,
    provider: str,
    workspace_id: str,
    headers: Mapping[str, bytes],
    body: bytes,
) -> tuple[int, dict[str, object]]:
    forge = _PROVIDERS.get(provider)
    try:
        with instance.database.read() as db:
            workspace = workspaces.get_workspace(db, workspace_id[:60].replace("\0", ""))
        secrets = webhook_secrets_of(instance, workspace.id)
    except NotFound:
        workspace, secrets = None, []
    if forge is None or workspace is None or workspace.provider != provider:
        github.verify(headers, body, ["-"])  # takes as long
        raise SignatureInvalid("The signature does not fit.")
    if not forge.verify(headers, body, secrets):
        log.info("delivery refused workspace=%s reason=signature", workspace.id)
        raise SignatureInvalid("The signature does not fit.")
    instance.at("delivery.verified")
    parsed = forge.parse(headers, body)
    if parsed.repository is not None and not _is_ours(workspace, parsed):
        raise ForeignRepository("This hook belongs to another repository.")
    if parsed.repository_id is not None:
        _remember(instance, workspace, parsed.repository_id)
    delivery = triggers.take_delivery(
        instance,
        workspace,
        triggers.Announced(
            delivery_id=parsed.delivery_id,
            event=parsed.event,
            ref=parsed.ref,
            before_sha=parsed.before_sha,
            after_sha=parsed.after_sha,
            ignored=parsed.ignored,
        ),
    )
    status = 202 if delivery.sync_id is not None else 200
    return status, wire.delivery_json(delivery)


def _is_ours(workspace: Workspace, parsed: Parsed) -> bool:
    """By the name of the clone URL or the identity, or by the number that outlives renames."""
    known = workspace.settings.get("repository_id")
    if known is not None and known == parsed.repository_id:
        return True
    path = Remote.parse(workspace.clone_url or "").path.strip("/").removesuffix(".git").lower()
    names = [name.lower() for name in (parsed.repository, parsed.formerly) if name]
    return any(
        name in (path, workspace.identity.lower()) or path.endswith("/" + name) for name in names
    )


def _remember(instance: Instance, workspace: Workspace, repository_id: str) -> None:
    """The number that is seen now: a repository may be made anew under the same name."""
    if workspace.settings.get("repository_id") != repository_id:
        with instance.database.write() as db:
            current = workspaces.lock_workspace(db, workspace.id).settings
            settings = {**current, "repository_id": repository_id}
            workspaces.change_workspace(db, workspace.id, settings=settings)
