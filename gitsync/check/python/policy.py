"""Policy calls: the exposed workflow must reach the model through the SDK's integrations.

The workflow's methods are executed speculatively with an unknown context; calls whose origin is a
provider library, a framework's own agent or a literal provider host are noticed on the way.
"""

from __future__ import annotations

import ast
import re
from typing import cast

from gitsync.check.python import calls, classes, instances, invoking
from gitsync.check.python.heap import ClassObj, FunctionObj, InstanceObj
from gitsync.check.python.machine import Machine
from gitsync.check.python.state import State
from gitsync.check.python.values import Const, Coroutine, Opaque, Place, Ref, Value, Wrapped
from gitsync.check.python.wiring import speculate
from gitsync.check.python.worlds import Frame

PROVIDERS = (
    "openai",
    "anthropic",
    "litellm",
    "google.generativeai",
    "google.genai",
    "mistralai",
    "cohere",
    "groq",
    "together",
)
_AGENTS = ("strands.Agent", "strands.agent.Agent", "agents.Agent", "agents.agent.Agent")
_HTTP = ("httpx", "requests", "aiohttp", "urllib.request", "urllib3", "http.client")
_HOSTS = re.compile(
    r"https?://[^/]*(api\.openai\.com|api\.anthropic\.com|generativelanguage\.googleapis\.com|"
    r"api\.mistral\.ai|api\.cohere\.(ai|com)|api\.groq\.com|api\.together\.(xyz|ai)|"
    r"bedrock[^/]*\.amazonaws\.com|openrouter\.ai|api\.deepseek\.com|api\.x\.ai|"
    r"[a-z0-9-]+\.openai\.azure\.com|api\.fireworks\.ai|api\.perplexity\.ai)",
)
# Parts of a provider library that send nothing.
_QUIET = re.compile(
    r"(Error|Exception|types|Config|Schema|Timeout|NOT_GIVEN|Settings|token_counter|"
    r"set_verbose|drop_params|suppress_debug_info|configure|aclose|close|with_options|copy|"
    r"__enter__|__exit__|completion_cost|encode|decode|_turn_on_debug)$"
)
_REQUEST = re.compile(
    r"\.(create|acreate|completion|acompletion|completions|responses|aresponses|chat|generate|"
    r"generate_content|generate_content_async|generate_content_stream|complete|acomplete|stream|"
    r"parse|invoke_model|invoke_model_with_response_stream|converse|converse_stream|embedding|"
    r"aembedding|embeddings|send_message|send_message_async|messages|text_completion|"
    r"atext_completion|request|post|complete_async|chat_stream|stream_async|retrieve|list|"
    r"count_tokens|batch_completion|generate_images|edit|moderation|amoderation|transcription)$"
)


def provider_of(path: str) -> str | None:
    """The provider library a dotted origin belongs to."""
    for provider in PROVIDERS:
        if path == provider or path.startswith((provider + ".", provider + "(")):
            return provider
    return None


def notice(
    m: Machine,
    frame: Frame,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.AST,
) -> None:
    """A call during the speculative execution of a workflow's method."""
    if m.origin != "workflow":
        return
    place = m.place(frame, node)
    if path in _AGENTS:
        m.seen.provider.append((place, f"agent:{path}"))
        return
    head = path.split(".")[0].split("(")[0]
    if head in ("httpx", "requests", "aiohttp", "urllib", "urllib3", "http"):
        literal = [v.value for v in (*args, *keywords.values()) if isinstance(v, Const)]
        if any(isinstance(t, str) and _HOSTS.match(t) for t in literal):
            m.seen.provider.append((place, f"host:{path}"))
        return
    if path.startswith("boto3.") and path.endswith((".client", ".resource")):
        named = args[0] if args else keywords.get("service_name")
        if (
            isinstance(named, Const)
            and str(named.value).startswith("bedrock")
            and not calls.is_routed(keywords)
        ):
            m.seen.provider.append((place, "client:boto3"))
        return
    provider = provider_of(path)
    if provider is None:
        return
    last = path.rpartition(".")[2]
    if _QUIET.search(path.removesuffix("()")):
        return
    if calls.is_routed(keywords):
        return
    if _REQUEST.search(path) and not last[:1].isupper():
        m.seen.provider.append((place, f"request:{path}"))
    elif last[:1].isupper():
        m.seen.provider.append((place, f"client:{path}"))
    elif path.count(".") == provider.count(".") + 1:
        m.seen.provider.append((place, f"request:{path}"))


def findings(m: Machine, state: State, cls: Value, oid: int, path: str) -> list[tuple[Place, str]]:
    """The calls to warn about; a construction only if no request was seen from it."""
    m.seen.provider = []
    obj = state.heap.get(cls.oid) if isinstance(cls, Ref) else None
    if not isinstance(obj, ClassObj) or not isinstance(cls, Ref):
        return []

    def run() -> None:
        m.origin = "workflow"
        frame = Frame(module=oid, path=path)
        for name in _entry_methods(state, cls):
            _run_method(m, state.fork(), frame, cls, name)

    speculate(m, run)
    requests = {p: t for p, t in m.seen.provider if not t.startswith("client:")}
    clients = {p: t for p, t in m.seen.provider if t.startswith("client:")}
    providers = {provider_of(t.partition(":")[2]) for t in requests.values()}
    chosen = dict(requests)
    for place, text in clients.items():
        if provider_of(text.partition(":")[2]) not in providers:
            chosen[place] = text
    return sorted(chosen.items(), key=lambda i: (i[0].path, i[0].line, i[0].column))


def _entry_methods(state: State, cls: Ref) -> list[str]:
    """`run` first; other methods of the class and its local bases that nothing may have called."""
    names = ["run"]
    obj = cast(ClassObj, state.heap[cls.oid])
    for part in (cls, *obj.mro):
        other = state.heap.get(part.oid) if isinstance(part, Ref) else None
        if isinstance(other, ClassObj):
            names += [n for n in other.values if n not in names and not n.startswith("__")]
    return names


def _run_method(m: Machine, state: State, frame: Frame, cls: Ref, name: str) -> None:
    node = ast.parse("x").body[0]

    def run() -> Value:
        obj = cast(ClassObj, m.obj(cls))
        found = classes.find_in_mro(m, cls, name)
        if found is None:
            return Opaque()
        value = found[1]
        bound = 1
        while isinstance(value, Wrapped):
            bound = 0 if value.kind == "staticmethod" else bound
            value = value.function
        function = m.obj(value) if isinstance(value, Ref) else None
        if not isinstance(function, FunctionObj) or not isinstance(value, Ref):
            return Opaque()
        made: Value
        if "__init__" in _own_names(m, cls):
            made = instances.new_instance(
                m, frame, cls, obj, [Opaque("config")], {}, node, kwrest=Opaque("config")
            )
        else:
            made = m.new(InstanceObj(cls))
            if isinstance(made, Ref):
                m.store(made.oid, "config", Opaque("config"))
        args = [made] if bound else []
        more: Opaque | None = Opaque("argument")
        if name == "run":
            args.append(Opaque("ctx"))
            if function.node.args.vararg is not None:
                more = None  # what hands its arguments on hands on this one only
        result = invoking.run_function(
            m,
            frame,
            value,
            function,
            args,
            {},
            node,
            rest=more,
            kwrest=more,
        )[0]
        if isinstance(result, Coroutine):
            return invoking.run_coroutine(m, frame, result, node)
        return result

    m.branches(state, run)


def _own_names(m: Machine, cls: Ref) -> set[str]:
    names: set[str] = set()
    for part in classes.mro_of(m, cls):
        obj = m.obj(part) if isinstance(part, Ref) else None
        if isinstance(obj, ClassObj):
            names |= set(obj.values)
    return names
