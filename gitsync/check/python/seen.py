"""What is noticed while code runs abstractly, for the warnings."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from gitsync.check.python.state import State
from gitsync.check.python.values import Opaque, Place, Value


@dataclass(slots=True)
class Seen:
    """What was noticed from the import on."""

    backends: list[BackendCall] = field(default_factory=list)
    server_created: bool = False
    started: list[Place] = field(default_factory=list)
    calls: list[tuple[Place, Opaque]] = field(default_factory=list)


@dataclass(slots=True)
class BackendCall:
    """A call of an SDK backend with the arguments that name components."""

    path: str
    place: Place
    arguments: dict[str, tuple[Value, Place]]
    complete: bool
    state: State
    origin: str = "import"


@dataclass(slots=True)
class Rehearsal:
    """What was noticed while methods of an exposed class were tried out.

    `reads` are attributes that the warnings ask for, with their owner; `entered` the functions that
    were run, by their node; `routed` the clients that are given a URL afterwards; `handed_on` is
    set where the context went to code that cannot be followed, `finished` where a method came to
    its end, `cut_short` where not all ways were gone.
    """

    calls: list[tuple[Place, str]] = field(default_factory=list)
    reads: list[tuple[Value, str, Place]] = field(default_factory=list)
    entered: dict[ast.AST, str] = field(default_factory=dict)
    routed: set[str] = field(default_factory=set)
    handed_on: bool = False
    finished: bool = False
    cut_short: bool = False
