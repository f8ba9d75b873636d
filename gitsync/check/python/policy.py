"""Policy calls: the exposed workflow must reach the model through the SDK's integrations.

While its methods are rehearsed, calls whose origin is a provider library, a framework's own agent
or a literal provider host are noticed.
"""

from __future__ import annotations

import ast
import re

from gitsync.check.python import routing
from gitsync.check.python.machine import Machine
from gitsync.check.python.seen import Rehearsal
from gitsync.check.python.values import Place, Value
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
    routing.BEDROCK,
)
_AGENTS = (
    "strands.Agent",
    "strands.agent.Agent",
    "strands.agent.agent.Agent",
    "agents.Agent",
    "agents.agent.Agent",
)
_CLIENT = re.compile(
    r"(Async)?(Azure)?(OpenAI|Anthropic(Bedrock|Vertex|Foundry)?|Groq|Together|Client(V2)?)$|"
    r"(Mistral|MistralClient|MistralAsyncClient|GenerativeModel|Router)$"
)
# Calls that send nothing although they are named like a request.
_QUIET = re.compile(r"(\.types\b|\.chats\.create$)")
_REQUEST = re.compile(
    r"\.(create|acreate|completion|acompletion|completions|responses|aresponses|chat|generate|"
    r"generate_content|generate_content_async|generate_content_stream|complete|acomplete|stream|"
    r"parse|invoke_model|invoke_model_with_response_stream|converse|converse_stream|embedding|"
    r"aembedding|embeddings|send_message|send_message_async|send_message_stream|messages|"
    r"text_completion|atext_completion|request|post|complete_async|chat_stream|stream_async|"
    r"retrieve|list|count_tokens|batch_completion|generate_images|image_generation|"
    r"aimage_generation|edit|moderation|amoderation|transcription|atranscription|speech|aspeech|"
    r"rerank|arerank|batch_completion_models|embed_content|embed)$"
)
_SENDS = re.compile(r"\.(get|post|put|request|send|stream)$")


def provider_of(path: str) -> str | None:
    """The provider library a dotted origin belongs to."""
    for provider in PROVIDERS:
        if path == provider or path.startswith((provider + ".", provider + "(")):
            return provider
    return None


def is_request(path: str) -> bool:
    """True if calling what has this origin sends something to a provider."""
    provider = provider_of(path)
    if provider is None or _QUIET.search(path) or not _REQUEST.search(path):
        return False
    # what a request gave is no client any more
    steps = path.split("()")[:-1]
    return not any(_REQUEST.search(s) and not _QUIET.search(s) for s in steps)


def notice(
    m: Machine,
    frame: Frame,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    kwrest: Value | None,
    node: ast.AST,
) -> None:
    """A call during a rehearsal."""
    text = _kind_of(m, path, args, keywords, kwrest)
    if text and m.rehearsal is not None:
        m.rehearsal.calls.append((m.place(frame, node), f"{text}:{path}"))


def _kind_of(
    m: Machine,
    path: str,
    args: list[Value],
    keywords: dict[str, Value],
    kwrest: Value | None,
) -> str:
    if path.removesuffix("[]") in _AGENTS:
        return "agent"
    top = path.partition(".")[0]
    if top in routing.HTTP:
        if routing.HOST in path:
            return "host" if _SENDS.search(path) else ""
        if not routing.names_provider(args, keywords):
            return ""
        return "client" if path.endswith(("Client", "Session")) else "host"
    if routing.is_bedrock(path, args, keywords):
        return "" if routing.is_routed(m, keywords) else "client"
    if provider_of(path) is None:
        return ""
    is_first = "()" not in path  # of the library itself: it takes the URL
    if routing.is_routed(m, keywords, kwrest if is_first else None):
        if not is_first and m.rehearsal is not None:
            m.rehearsal.routed.add(path)  # `client.with_options(base_url=…)`
        return ""
    if routing.is_set(m, path):
        return ""
    if is_request(path):
        return "request"
    return "client" if is_first and _CLIENT.match(path.rpartition(".")[2]) else ""


def findings(seen: Rehearsal) -> list[tuple[Place, str]]:
    """The calls to warn about; a construction only if no request was seen from it."""
    kept = [
        (place, text)
        for place, text in seen.calls
        if not any(f"{text.partition(':')[2]}()".startswith(owner) for owner in seen.routed)
    ]
    clients = {p: t for p, t in kept if t.startswith("client:")}
    chosen = {p: t for p, t in kept if not t.startswith("client:")}
    providers = {_owner(t) for t in chosen.values()}
    for place, text in clients.items():
        made = f"{text.partition(':')[2]}()"
        if _owner(text) not in providers and not any(r.startswith(made) for r in seen.routed):
            chosen[place] = text
    return sorted(chosen.items(), key=lambda i: (i[0].path, i[0].line, i[0].column))


def _owner(text: str) -> str | None:
    """The provider, or the library, that a noticed call belongs to."""
    path = text.partition(":")[2]
    top = path.partition(".")[0]
    if top in routing.HTTP:
        return top
    return routing.BEDROCK if routing.is_aws(path) else provider_of(path)
