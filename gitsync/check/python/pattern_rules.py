"""Mistakes in the patterns of `match` that Python's compiler finds after parsing."""

from __future__ import annotations

import ast

Found = tuple[ast.AST, str]


def pattern_mistakes(pattern: ast.pattern) -> list[Found]:
    """What the compiler refuses in one `case`."""
    found: list[Found] = []
    for node in ast.walk(pattern):
        if isinstance(node, ast.MatchOr):
            names = [_names(p) for p in node.patterns]
            if any(n != names[0] for n in names):
                found.append((node, "alternative patterns bind different names"))
            for part in node.patterns[:-1]:
                if is_irrefutable(part):
                    found.append((part, "this pattern makes remaining patterns unreachable"))
        elif isinstance(node, ast.MatchSequence):
            if sum(isinstance(p, ast.MatchStar) for p in node.patterns) > 1:
                found.append((node, "multiple starred names in sequence pattern"))
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.JoinedStr):
            found.append((node, "patterns may only match literals and attribute lookups"))
        elif isinstance(node, ast.MatchMapping):
            keys = [(type(k.value), k.value) for k in node.keys if isinstance(k, ast.Constant)]
            if len(set(keys)) < len(keys):
                found.append((node, "mapping pattern checks duplicate key"))
        elif isinstance(node, ast.MatchClass):
            for at, name in enumerate(node.kwd_attrs):
                if name in node.kwd_attrs[:at]:
                    reason = f"attribute name repeated in class pattern: {name}"
                    found.append((node.kwd_patterns[at], reason))
    seen: set[str] = set()
    for node, name in _captures(pattern):
        if name == "__debug__":
            found.append((node, "cannot assign to __debug__"))
        if name in seen:
            found.append((node, f"multiple assignments to name '{name}' in pattern"))
        seen.add(name)
    return found


def is_irrefutable(pattern: ast.pattern) -> bool:
    """True for a pattern that anything matches: `_` or a bare name."""
    while isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        pattern = pattern.pattern
    return isinstance(pattern, ast.MatchAs)


def _names(pattern: ast.pattern) -> set[str]:
    return {name for _, name in _captures(pattern)}


def _captures(pattern: ast.pattern) -> list[tuple[ast.AST, str]]:
    """What a pattern binds, in order; of alternatives the first stands for all."""
    out: list[tuple[ast.AST, str]] = []
    stack: list[ast.AST] = [pattern]
    while stack:
        node = stack.pop()
        name = getattr(node, "rest" if isinstance(node, ast.MatchMapping) else "name", None)
        if isinstance(name, str):
            out.append((node, name))
        parts = node.patterns[:1] if isinstance(node, ast.MatchOr) else ast.iter_child_nodes(node)
        stack.extend(reversed([p for p in parts if isinstance(p, ast.pattern)]))
    return out
