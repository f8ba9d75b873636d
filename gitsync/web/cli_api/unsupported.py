"""What the CLI knows and this service does not provide: one sentence, after all other checks."""

from __future__ import annotations

from fastapi import APIRouter

from gitsync.errors import NotSupported
from gitsync.web.cli_api.scope import CliRoute, ScopedReader

router = APIRouter(route_class=CliRoute)
routers = (router,)
_ANY = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@router.api_route("/benchmarks", methods=_ANY)
@router.api_route("/benchmarks/{rest:path}", methods=_ANY)
@router.api_route("/benchmark-runs", methods=_ANY)
@router.api_route("/benchmark-runs/{rest:path}", methods=_ANY)
def benchmarks(scoped: ScopedReader) -> None:
    """Benchmarks."""
    raise NotSupported("Benchmarks are not provided by this service.")


@router.post("/models/{name:segment}/deploy")
@router.post("/models/{name:segment}/undeploy")
def deploy(scoped: ScopedReader) -> None:
    """Serving of trained models."""
    raise NotSupported("This service deploys no models; serve them where they were trained.")


@router.post("/eval-runs/{ref:segment}/retry")
def retry(scoped: ScopedReader) -> None:
    """Retries."""
    raise NotSupported("Runs are not retried by this service; submit the config again.")


@router.get("/eval-runs/{ref:segment}/samples/manifest")
@router.post("/eval-runs/{ref:segment}/samples/download-urls")
@router.get("/eval-runs/{ref:segment}/samples/download-urls")
def samples(scoped: ScopedReader) -> None:
    """Downloads of samples."""
    raise NotSupported("This service offers no download of samples.")


@router.post("/eval-runs/imports")
@router.post("/eval-runs/imports/{rest:path}")
def imports(scoped: ScopedReader) -> None:
    """Uploads of finished evaluations."""
    raise NotSupported("This service takes no finished evaluations; submit them here instead.")
