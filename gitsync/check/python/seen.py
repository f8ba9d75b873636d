"""What was noticed while the code ran, for the warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

from gitsync.check.python.state import State
from gitsync.check.python.values import Opaque, Place, Value


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
class Seen:
    """What was noticed while running, for the warnings."""

    backends: list[BackendCall] = field(default_factory=list)
    server_created: bool = False
    started: list[Place] = field(default_factory=list)
    calls: list[tuple[Place, Opaque]] = field(default_factory=list)
    provider: list[tuple[Place, str]] = field(default_factory=list)
