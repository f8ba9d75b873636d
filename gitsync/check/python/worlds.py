"""Possible worlds: runs code over possible worlds and keeps the budget.

Expressions are evaluated in direct style against `machine.state`. Where something is undecided they
call `choose`; `branches` then runs the same code once per alternative, each from the world as it
was before. Statements work on lists of worlds, which are joined again where that loses nothing.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from gitsync.check.python.facts import facts
from gitsync.check.python.heap import InstanceObj, ListObj, ModuleObj, Namespace, Obj
from gitsync.check.python.seen import Rehearsal, Seen
from gitsync.check.python.source import LimitHit, Refused, Sources
from gitsync.check.python.state import State, merge
from gitsync.check.python.values import Place, Ref, Union, Unknown, Value

if TYPE_CHECKING:
    from gitsync.check.python.imports import Importer
MAX_RUNS = 96
KEEP_APART = 8
MAX_WORLDS = 24
MAX_DEPTH = 220
MAX_STEPS = 600_000

SYS_MODULES = 1
SYS_PATH = 2
REGISTRY = 3
FIRST_OID = 10


class Kind(Enum):
    """How a statement ended."""

    NORMAL = auto()
    RETURN = auto()
    RAISE = auto()
    BREAK = auto()
    CONTINUE = auto()


class Raised(Exception):
    """The abstract program raises `value`.

    `implicit` marks exceptions that may happen (a library call failing) as opposed to those that
    certainly do; `refused` carries the parser's verdict on a file.
    """

    def __init__(
        self,
        value: Value,
        place: Place,
        reason: str,
        *,
        implicit: bool = False,
        refused: Refused | None = None,
    ) -> None:
        super().__init__(reason)
        self.value = value
        self.place = place
        self.reason = reason
        self.implicit = implicit
        self.refused = refused


@dataclass(slots=True)
class Outcome:
    """A world and how it came out of a statement."""

    state: State
    kind: Kind = Kind.NORMAL
    value: Value | None = None
    raised: Raised | None = None


class NeedMark(Exception):
    """A statement that was thought to be plain has to choose: run it again under a mark."""


class OutOfBudget(Exception):
    """A speculative execution has used up its steps."""


@dataclass(slots=True)
class Trail:
    """The choices of one run of `branches`."""

    script: list[int]
    mark: int
    path: tuple[tuple[Place, int, str], ...]
    loaded: frozenset[str]
    first_oid: int
    marked: bool = True
    cursor: int = 0
    base: State | None = None
    pending: list[list[int]] = field(default_factory=list)
    memo: dict[tuple[int, ...], tuple[list[Outcome], int]] = field(default_factory=dict)
    starts: dict[tuple[int, ...], int] = field(default_factory=dict)
    raise_seen: int = -1


@dataclass(slots=True)
class Frame:
    """Where names are looked up: the module, the scope and the scopes around it."""

    module: int
    path: str
    scope: int | None = None
    closure: tuple[int, ...] = ()
    prefix: str = ""
    kind: str = "module"
    handled: Raised | None = None
    function: Ref | None = None
    first_arg: Value | None = None
    class_ref: Value | None = None
    lazy_annotations: bool = False
    yields: int | None = None
    at_yield: Callable[[Value], Value] | None = None


class Worlds:
    """The present world, its choices and its budget; `Machine` adds the names."""

    def __init__(self, sources: Sources, *, minor: int, deadline: float, clock: Clock) -> None:
        self.sources = sources
        self.minor = minor
        self.deadline = deadline
        self.clock = clock
        self.state = State()
        self.trail: Trail | None = None
        self.next_oid = FIRST_OID
        self.top_oid = FIRST_OID
        self.arms: dict[tuple[int, int, int], int] = {}
        self.guards = 0
        self.import_guards = 0
        self.depth = 0
        self.steps = 0
        self.step_limit = MAX_STEPS
        self.speculative = False
        self.origin = "import"
        self.at = Place("", 1, 1)
        self.overflow: Place | None = None
        self.seen = Seen()
        self.rehearsal: Rehearsal | None = None
        self.importer: Importer
        self.facts = facts()
        self.calling: list[tuple[int, int]] = []
        self.awaiting = 0
        self.handling: list[Value] = []
        self.left: list[State] = []  # worlds in which a generator was left that waits

    def tick(self) -> None:
        """Count one step; every so often look at the clock."""
        self.steps += 1
        if self.steps & 63 == 0:
            if self.clock() > self.deadline:
                raise LimitHit(self.at.path, "the time limit for one entrypoint is used up")
            if self.steps > self.step_limit:
                if self.speculative:
                    raise OutOfBudget
                raise LimitHit(self.at.path, "the code runs too many steps while it is imported")

    def place(self, frame: Frame, node: ast.AST) -> Place:
        """Where a node stands."""
        return Place(frame.path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)

    def unknown(self, frame: Frame, node: ast.AST, reason: str) -> Unknown:
        """A value that may be anything because of this node."""
        return Unknown(self.place(frame, node), reason)

    def overflow_doubt(self) -> Unknown | None:
        """Set if there were too many possible worlds to follow them all."""
        if self.overflow is None:
            return None
        return Unknown(self.overflow, "there are too many possible ways through the code")

    def new(self, obj: Obj) -> Ref:
        """Put a new object into the present world."""
        oid = self.next_oid
        self.next_oid += 1
        if self.next_oid > self.top_oid:
            self.top_oid = self.next_oid
        return self.state.add(oid, obj)

    def obj(self, ref: Ref) -> Obj:
        """The object behind a reference, to be read only."""
        return self.state.heap[ref.oid]

    def space(self, oid: int) -> Namespace:
        """A namespace, to be read only."""
        found = cast(Namespace, self.state.heap[oid])
        return found

    def store(self, oid: int, name: str, value: Value) -> None:
        """Bind a name in a namespace."""
        target = cast(Namespace, self.state.change(oid))
        target.values[name] = value
        if type(target) is ModuleObj:
            target.places[name] = self.at

    def taint(self, oid: int, cause: Unknown) -> None:
        """Anything in this namespace may have been bound anew."""
        target = cast(Namespace, self.state.change(oid))
        if target.taint is None:
            target.taint = cause

    def arm(self, node: ast.AST, label: int) -> None:
        """Give the objects of one arm of a branch numbers that no other arm uses."""
        if label:
            key = (id(node), label, self.next_oid)
            self.next_oid = self.arms.setdefault(key, max(self.top_oid, self.next_oid))

    def doubt(self, cause: Unknown) -> None:
        """From here on anything may be bound anywhere."""
        if "doubt" not in self.space(REGISTRY).values:
            self.store(REGISTRY, "doubt", cause)

    def list_of(self, items: list[Value], kind: str = "list", rest: Value | None = None) -> Ref:
        """A new list-like object."""
        return self.new(ListObj(items, kind, rest))

    def choose(self, count: int, place: Place, text: str = "") -> int:
        """One of `count` alternatives; all of them are tried."""
        pick = self._next(count, place)
        self.state.path = (*self.state.path, (place, pick, text))
        return pick

    def _here(self) -> Trail:
        """The choices of the code that is being run; there always are some where code runs."""
        return cast(Trail, self.trail)

    def _next(self, count: int, place: Place) -> int:
        trail = self._here()
        if trail.cursor < len(trail.script):
            pick = trail.script[trail.cursor]
        else:
            if not trail.marked:
                raise NeedMark
            if trail.base is None:
                trail.base = self.state.rewound(trail.mark, trail.path, trail.loaded)
            pick = 0
            if len(trail.pending) + count > MAX_RUNS:
                if self.overflow is None:
                    self.overflow = place
            else:
                trail.pending.extend([*trail.script, other] for other in range(1, count))
            trail.script.append(pick)
        trail.cursor += 1
        if pick:
            # Alternatives make objects of their own; a replay makes the same ones again.
            key = tuple(trail.script[: trail.cursor])
            self.next_oid = trail.starts.setdefault(key, max(self.top_oid, self.next_oid))
        return pick

    def pick_outcome(self, run: Callable[[], list[Outcome]], place: Place) -> Outcome:
        """Run code that ends in several worlds and go on in one of them; all are tried."""
        trail = self._here()
        key = tuple(trail.script[: trail.cursor])
        known = trail.memo.get(key) if trail.cursor < len(trail.script) else None
        if known is None:
            outcomes = run()
            self.trail = trail
            if len(outcomes) > 1:
                if not trail.marked:
                    raise NeedMark
                trail.memo[key] = (
                    [Outcome(o.state.fork(), o.kind, o.value, o.raised) for o in outcomes],
                    self.next_oid,
                )
        else:
            outcomes = [Outcome(o.state.fork(), o.kind, o.value, o.raised) for o in known[0]]
            self.next_oid = known[1]
        if not outcomes:
            raise OutOfBudget
        if len(outcomes) == 1:
            self.state = outcomes[0].state
            return outcomes[0]
        if trail.base is None and trail.cursor >= len(trail.script):
            trail.base = outcomes[0].state.rewound(trail.mark, trail.path, trail.loaded)
        chosen = outcomes[self._next(len(outcomes), place)]
        self.state = chosen.state
        return chosen

    def branches[T](self, state: State, run: Callable[[], T]) -> list[tuple[State, T | Raised]]:
        """Run code once per combination of its choices; each with its own world."""
        outer = self.trail
        first_oid = self.next_oid
        last_oid = first_oid
        results: list[tuple[State, T | Raised]] = []
        trail = Trail([], state.mark(), state.path, state.loaded, first_oid)
        pending = trail.pending
        memo = trail.memo
        starts = trail.starts
        current: State | None = state
        runs = 0
        try:
            while current is not None:
                self.state = current
                self.trail = trail
                self.next_oid = first_oid
                try:
                    value: T | Raised = run()
                except Raised as raised:
                    value = raised
                results.append((self.state, value))
                last_oid = max(last_oid, self.next_oid)
                runs += 1
                if not pending:
                    break
                base = cast(State, trail.base)
                if runs >= MAX_RUNS:
                    if self.overflow is None:
                        self.overflow = self.at
                    break
                script = pending.pop(0)
                current = base.fork()
                trail = Trail(script, current.mark(), base.path, base.loaded, first_oid, base=base)
                trail.pending = pending
                trail.memo = memo
                trail.starts = starts
        finally:
            self.trail = outer
            self.next_oid = max(last_oid, self.next_oid)
        if outer is None and len(results) == 1:
            results[0][0].journal.clear()
        return results

    def plain[T](self, state: State, run: Callable[[], T]) -> list[tuple[State, T | Raised]]:
        """Like `branches` for code that hardly ever chooses: no mark, so nothing is copied."""
        outer = self.trail
        oid = self.next_oid
        self.state = state
        self.trail = Trail([], 0, state.path, state.loaded, oid, marked=False)
        try:
            return [(self.state, run())]
        except Raised as raised:
            return [(self.state, raised)]
        except NeedMark:
            self.trail = outer
            self.next_oid = oid
            return self.branches(state, run)
        finally:
            self.trail = outer

    def concrete(self, value: Value, place: Place | None = None) -> Value:
        """One option of a union; anything else as it is."""
        if not isinstance(value, Union):
            return value
        where = value.place or place or self.at
        return value.options[self.choose(len(value.options), where)]

    def join(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Fewer outcomes that mean the same; more than allowed are joined with loss."""
        if len(outcomes) < 2:
            return outcomes
        kept: list[Outcome] = []
        for outcome in outcomes:
            if not self._absorb(kept, outcome, force=False):
                kept.append(outcome)
        stuck: list[Outcome] = []
        # a rehearsal only notices what is done: in which world does not matter
        while len(kept) > (1 if self.rehearsal is not None else KEEP_APART):
            last = kept.pop()
            if not self._absorb(kept, last, force=True):
                stuck.append(last)
        kept += stuck
        if len(kept) > MAX_WORLDS:
            if self.overflow is None:
                self.overflow = self.at
            kept = kept[:MAX_WORLDS]
        return kept

    def _absorb(self, kept: list[Outcome], outcome: Outcome, *, force: bool) -> bool:
        from gitsync.check.python.reach import touches

        for at, other in enumerate(kept):
            if outcome.kind is not other.kind or _raise_key(outcome) != _raise_key(other):
                continue
            if outcome.kind is Kind.RETURN and outcome.value != other.value:
                continue
            joined = merge(other.state, outcome.state, force=force, harmful=touches)
            if joined is not None:
                kept[at] = replace(other, state=joined)
                return True
        return False


type Clock = Callable[[], float]
# Processor time of this thread: a busy machine does not change an answer.
spent: Clock = time.thread_time


def _raise_key(outcome: Outcome) -> object:
    """Equal for outcomes that raise the same thing; None for those that raise nothing."""
    raised = outcome.raised
    if raised is None:
        return None
    value: object = raised.value
    if isinstance(value, Ref):
        found = outcome.state.heap.get(value.oid)
        value = found.cls if isinstance(found, InstanceObj) else value
    return (value, raised.implicit, None if raised.implicit else raised.place, raised.refused)
