"""Calls of the SDK while a module is imported: they are noted, and backends load strings.

Only the local backend is followed; the Harbor backend needs more than the repository to be built.
"""

from __future__ import annotations

import ast

from gitsync.check.python import attributes, classes, dynamic, expressions, models
from gitsync.check.python.facts import HARBOR_BACKEND, LOCAL_BACKEND
from gitsync.check.python.machine import Machine, Rule
from gitsync.check.python.seen import BackendCall
from gitsync.check.python.values import NONE, Const, Opaque, Ref, Value
from gitsync.check.python.worlds import Frame

CONTEXT = "osmosis_ai.rollout.context.get_rollout_context"


def record(
    m: Machine,
    frame: Frame,
    path: str,
    keywords: dict[str, Value],
    unknown: Value | None,
    node: ast.AST,
) -> None:
    """Remember a call of an SDK backend for the warnings that are given at the end."""
    if path not in (LOCAL_BACKEND, HARBOR_BACKEND):
        return
    places: dict[str, ast.AST] = {}
    if isinstance(node, ast.Call):
        places = {k.arg: k.value for k in node.keywords if k.arg is not None}
    m.seen.backends.append(
        BackendCall(
            path,
            m.place(frame, node),
            {
                name: (value, m.place(frame, places.get(name, node)))
                for name, value in keywords.items()
            },
            unknown is None,
            m.state.fork() if m.speculative or keywords else m.state,
            m.origin,
        )
    )


def resolve_object(m: Machine, frame: Frame, value: Value, node: ast.AST) -> Value:
    """`resolve_object`: a string `module:attribute` is loaded, everything else is what it is."""
    if not isinstance(value, Const) or not isinstance(value.value, str):
        return value
    module, colon, attribute = value.value.rpartition(":")
    if not colon or not module:
        raise m.error(frame, node, "ValueError", f"'{value.value}' names no module and attribute")
    if module.startswith("."):
        raise m.error(frame, node, "TypeError", f"'{value.value}' names its module relatively")
    loaded = m.importer.load_here(frame, module, node)
    read = dynamic.FRAME_CALLS["builtins.getattr"]
    found = m.concrete(read(m, frame, [loaded, Const(attribute), NONE], {}, node))
    if found == NONE:
        raise m.error(frame, node, "ImportError", f"{module} does not export '{attribute}'")
    return found


def build(m: Machine, frame: Frame, path: str, keywords: dict[str, Value], node: ast.AST) -> None:
    """Raise what the constructor of the local backend raises."""
    if path != LOCAL_BACKEND:
        return
    for word in ("workflow", "workflow_config", "grader", "grader_config"):
        value = keywords.get(word, NONE)
        if word != "workflow" and expressions.known_truth(m, frame, value, node) is False:
            continue
        found = resolve_object(m, frame, value, node)
        if word == "workflow_config" and expressions.known_truth(m, frame, found, node):
            if any(models.is_model(p) for p in classes.mro_of(m, found)):
                reason = "the workflow's config is given as a class, not as an object of it"
                raise m.error(frame, node, "AttributeError", reason)
            if isinstance(found, Ref | Const):
                attributes.get(m, frame, found, "concurrency", node)


def _context(
    m: Machine, frame: Frame, args: list[Value], keywords: dict[str, Value], node: ast.AST
) -> Value:
    """There is a rollout only while a workflow runs."""
    return Opaque(f"{CONTEXT}()") if m.speculative else NONE


RULES: dict[str, Rule] = {CONTEXT: _context}
