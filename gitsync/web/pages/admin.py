"""`/admin`: does work flow? Queue, workers, staleness, limits, storage."""

from __future__ import annotations

import shutil
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from gitsync.settings import Settings
from gitsync.store import events, glance, measures, turns
from gitsync.web.auth import InstanceDep
from gitsync.web.health import STUCK_AFTER
from gitsync.web.pages.access import ChiefDep, PageRoute
from gitsync.web.pages.render import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)
SHOWN = 20
_LIMITS = ("concurrent_", "check_", "max_", "keep_", "poll_", "wait_", "push_wait", "fetch_")


@router.get("/admin")
def show(request: Request, instance: InstanceDep, viewer: ChiefDep) -> Response:
    """The whole instance on one page, read from the rows."""
    with instance.database.read() as db:
        last = events.last_event_id(db)
        counts = measures.counts(db)
        steps = measures.steps(db)
        outcomes, deliveries = measures.syncs(db), measures.deliveries(db)
        depth, stuck = turns.depth(db), set(turns.stuck(db, older_than=STUCK_AFTER))
        owed = glance.queue(db, limit=SHOWN)
        quiet = glance.quiet_longest(db, limit=10)
        stored = glance.storage(db)
    disk = shutil.disk_usage(instance.settings.data_dir)
    return page(
        request,
        "admin.html",
        viewer=viewer,
        live="/live",
        last=last,
        counts=counts,
        steps={name: 1000 * total / count for name, (total, count) in steps.items()},
        outcomes=dict(sorted(outcomes.items())),
        deliveries=dict(sorted(deliveries.items())),
        depth=depth,
        stuck=stuck,
        owed=owed,
        quiet=quiet,
        stored=stored,
        free=disk.free,
        total=disk.total,
        running=request.app.state.running(),
        processes=instance.settings.check_processes,
        slots=instance.settings.concurrent_syncs,
        limits=_limits(instance.settings),
        is_sqlite=instance.settings.sqlalchemy_url.startswith("sqlite"),
    )


def _limits(settings: Settings) -> list[tuple[str, Any, str]]:
    """Every limit: the name of its setting, its value, what it bounds."""
    return [
        (f"GITSYNC_{name.upper()}", getattr(settings, name), field.description or "")
        for name, field in type(settings).model_fields.items()
        if name.startswith(_LIMITS)
    ]
