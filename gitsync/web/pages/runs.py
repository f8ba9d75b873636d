"""`/workspaces/{id}/runs`: what is evaluated and trained, why one waits, how two compare."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from gitsync.instance import Instance
from gitsync.records import User
from gitsync.run_records import Run, RunKind, RunLog, RunState
from gitsync.runs import life
from gitsync.store import (
    Connection,
    datasets,
    events,
    people,
    run_life,
    run_output,
    run_pages,
    run_pairs,
    runs,
)
from gitsync.web.api import runs as api
from gitsync.web.auth import InstanceDep
from gitsync.web.pages import run_charts, run_words
from gitsync.web.pages.access import MemberRoom, PageRoute, ReaderRoom, Room, back_to, notice_of
from gitsync.web.pages.render import page, path_to
from gitsync.web.pages.run_live import mark_of
from gitsync.web.pages.workspace import Start, live_link
from gitsync.web.query import WindowDep
from gitsync.web.session import FormDep

router = APIRouter(include_in_schema=False, route_class=PageRoute)
RUNS = "/workspaces/{workspace_id}/runs"
LOG_LINES, SAMPLES, METRICS, IN_CHART, OTHERS, PAIRS = 60, 25, 8, 40, 50, 25
Choice = Annotated[str, Query(max_length=20)]  # empty as a form sends it: all of them
RolloutChoice = Annotated[str, Query(max_length=1000)]
Picked = Annotated[str, Query(max_length=100)]


@router.get(RUNS)
def list_runs(
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    window: WindowDep,
    kind: Choice = "",
    state: Choice = "",
    rollout: RolloutChoice = "",
) -> Response:
    """Newest first; with a rollout chosen, its rewards over time."""
    workspace = room.workspace
    kinds = RunKind(kind) if kind in RunKind else None
    states = RunState(state) if state in RunState else None
    wanted = rollout.replace("\0", "").strip() or None
    with instance.database.read() as db:
        last = events.last_event_id(db)
        found = runs.page_runs(
            db,
            workspace.id,
            kind=kinds,
            state=states,
            rollout=wanted,
            limit=window.limit,
            after=window.after,
        )
        by = runs.people_of(db, found.items)
        scored = run_pages.scored(db, workspace.id, wanted, limit=IN_CHART) if wanted else []
        lonely = _lonely(db, instance, found.items)
    return page(
        request,
        "runs.html",
        viewer=room.viewer,
        room=room,
        ws=workspace,
        tab="runs",
        live=live_link(room),
        last=last,
        found=found,
        by=by,
        kind=kinds,
        state=states,
        rollout=wanted,
        kinds=list(RunKind),
        states=list(RunState),
        lonely=lonely,
        rewards=run_charts.reward_line(scored),
        outcome_of=run_words.outcome_of,
        progress_of=run_words.progress_of,
        filtered=path_to(
            "workspaces", workspace.id, "runs", kind=kinds, state=states, rollout=wanted
        ),
        notice=notice_of(request),
    )


def _lonely(db: Connection, instance: Instance, found: tuple[Run, ...]) -> list[str]:
    """Kinds of which runs wait here while nobody is there for them."""
    window = life.executor_window(instance)
    waiting = {run.kind.value: run for run in found if run.state is RunState.PENDING}
    return [
        kind
        for kind, run in sorted(waiting.items())
        if not run_life.is_anybody_there(db, run.workspace_id, kind, within_s=window)
    ]


# -- two runs -------------------------------------------------------------------------------------


@router.get(RUNS + "/compare")
def compare(
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    a: Picked = "",
    b: Picked = "",
    start: Start = 0,
) -> Response:
    """Two runs side by side; without them, the choice."""
    workspace = room.workspace
    with instance.database.read() as db:
        others = runs.page_runs(db, workspace.id, kind=None, state=None, limit=OTHERS, after=None)
    one = api.find(instance, workspace, a) if a else None
    two = api.find(instance, workspace, b) if b else None
    known = {run.name: run for run in (*(r for r in (one, two) if r), *others.items)}
    values: dict[str, Any] = {"is_both": False}
    if one is not None and two is not None:
        with instance.database.read() as db:
            values = _compared(db, one, two, start=start)
    return page(
        request,
        "compare.html",
        viewer=room.viewer,
        room=room,
        ws=workspace,
        tab="runs",
        one=one,
        two=two,
        choices=list(known.values()),
        number=run_charts.number,
        said=run_words.said,
        start=start,
        filtered=path_to(
            "workspaces", workspace.id, "runs", "compare", a=one and one.name, b=two and two.name
        ),
        **values,
    )


def _compared(db: Connection, one: Run, two: Run, *, start: int) -> dict[str, Any]:
    shown, is_same = [one, two], one.number == two.number
    range_ = run_pages.bounds(db, shown)
    found = {} if range_ is None else run_pages.spreads(db, shown, *range_)
    spread = None
    if len(found) == 2:
        names = (one.name, two.name)
        spread = run_charts.spread_bars(found[one.number], found[two.number], names=names)
    rewards = [found[run.number].total if run.number in found else 0 for run in shown]
    is_same_data = one.dataset_id == two.dataset_id
    sums, pairs = None, []
    if len(found) == 2 and is_same_data and not is_same:
        sums = run_pairs.sums(db, one, two)
        pairs = run_pairs.pairs(db, one, two, limit=PAIRS, offset=start)
    series = [{s.key: s for s in run_pages.series(db, run, most=METRICS)} for run in shown]
    common = [key for key in series[0] if key in series[1]]
    results = [run_words.results_of(run) for run in shown]
    return {
        "is_both": True,
        "is_same": is_same,
        "is_same_data": is_same_data,
        "differences": run_words.differences(one, two),
        "results": [
            (name, results[0].get(name), results[1].get(name))
            for name in dict.fromkeys((*results[0], *results[1]))
        ],
        # a mean of fewer rewards may be better only because the others are missing
        "rewards": rewards if len(set(rewards)) == 2 else None,
        "spread": spread,
        "metrics": [
            run_charts.metric_line(place, series[0][key], series[1][key])
            for place, key in enumerate(common)
        ],
        "titles": [series[0][key].title for key in common],
        "sums": sums,
        "pairs": pairs,
    }


# -- one run --------------------------------------------------------------------------------------


@router.get(RUNS + "/{run}")
def show(
    run: api.Ref,
    room: ReaderRoom,
    request: Request,
    instance: InstanceDep,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
    start: Start = 0,
    order: Choice = "",
) -> Response:
    """Its code for good, how far it is and why, what it gave, what it said."""
    found = api.find(instance, room.workspace, run)
    is_worst = order == "worst"
    window = life.executor_window(instance)
    with instance.database.read() as db:
        found = runs.get_run(db, found.id)
        last = mark_of(db, instance, found)
        waits = run_pages.waiting(db, found, within_s=window) if _is_pending(found) else None
        words = run_pages.first_words(db, found)
        lines, older = run_output.logs_of(db, found, limit=LOG_LINES, before=before)
        samples = run_pages.samples(db, found, worst_first=is_worst, limit=SAMPLES, offset=start)
        range_ = run_pages.bounds(db, [found])
        spreads = {} if range_ is None else run_pages.spreads(db, [found], *range_)
        series = run_pages.series(db, found, most=METRICS)
        others = run_pages.comparable(db, found, limit=OTHERS)
        by = runs.people_of(db, [found]).get(found.created_by, ("somebody", ""))[0]
        executor = life.executor_name(db, found)
        stopper = _person(db, found.stopped_by)
        dataset = datasets.find_dataset(db, room.workspace.id, found.dataset_id)
    path = path_to("workspaces", room.workspace.id, "runs", found.name)
    following: dict[str, Any] = {"live": f"{path}/live", "last": last}
    return page(
        request,
        "run.html",
        viewer=room.viewer,
        room=room,
        ws=room.workspace,
        tab="runs",
        **({} if found.state.is_over else following),
        run=found,
        why=None if waits is None else run_words.why_pending(found, waits, window_s=window),
        is_alone=waits is not None and not waits.executors,
        heard=run_words.heard_of(found, lease_s=instance.settings.executor_lease_s),
        outcome=run_words.outcome_of(found),
        progress=run_words.progress_of(found),
        steps=run_words.life_of(
            found,
            by=by,
            executor=executor,
            stopper=None if stopper is None else stopper.name,
        ),
        accepted=words[0] if words else None,
        warnings=_warnings(words),
        lines=lines,
        older=older,
        before=before,
        samples=samples,
        start=start,
        order="worst" if is_worst else None,
        threshold=life.threshold_of(found),
        spread=run_charts.spread_bars(spreads[found.number]) if spreads else None,
        metrics=[
            (one.title, one.count, run_charts.metric_line(place, one))
            for place, one in enumerate(series)
        ],
        results=run_words.results_of(found),
        settings=run_words.settings_of(found),
        secrets=run_words.secrets_of(found),
        dataset=dataset,
        others=others,
        document=run_words.document,
        number=run_charts.number,
        said=run_words.said,
        page_path=path,
        notice=notice_of(request),
    )


def _is_pending(run: Run) -> bool:
    return run.state is RunState.PENDING


def _warnings(words: list[RunLog]) -> list[RunLog]:
    return [entry for entry in words[1:] if entry.level in ("warning", "error")]


def _person(db: Connection, user_id: str | None) -> User | None:
    return None if user_id is None else people.get_user(db, user_id)


@router.post(RUNS + "/{run}/stop")
def stop(form: FormDep, run: api.Ref, room: MemberRoom, instance: InstanceDep) -> RedirectResponse:
    """End a run because a person says so."""
    found = api.find(instance, room.workspace, run)
    life.stop(instance, found, by=form.session.user)
    return _to(room, found)


def _to(room: Room, run: Run) -> RedirectResponse:
    return back_to(path_to("workspaces", room.workspace.id, "runs", run.name), "stopped")
