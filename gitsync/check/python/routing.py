"""Clients of model providers: where they are pointed at, and of whom a call's result is one."""

from __future__ import annotations

import re

from gitsync.check.python.heap import DictObj, ListObj, Namespace
from gitsync.check.python.machine import Machine
from gitsync.check.python.values import Const, Opaque, Ref, Value
from gitsync.check.python.worlds import REGISTRY

URL_WORDS = ("base_url", "api_base", "azure_endpoint", "endpoint_url", "server_url")
_OPTIONS = (
    "http_options",
    "client_options",
    "client_args",
    "http_client",
    "client",
    "model_list",
)
HTTP = ("httpx", "requests", "aiohttp", "urllib", "urllib3", "http")
# What stands in an origin for a client that a literal makes a provider's.
BEDROCK = "boto3.bedrock"
HOST = ".provider()"
_AWS = ("boto3.", "aioboto3.", "aiobotocore.")
_HOSTS = re.compile(
    r"https?://[^/]*(api\.openai\.com|api\.anthropic\.com|generativelanguage\.googleapis\.com|"
    r"api\.mistral\.ai|api\.cohere\.(ai|com)|api\.groq\.com|api\.together\.(xyz|ai)|"
    r"bedrock-runtime\.|bedrock[^/]*\.amazonaws\.com|openrouter\.ai|api\.deepseek\.com|"
    r"api\.x\.ai|[a-z0-9-]+\.openai\.azure\.com|api\.fireworks\.ai|api\.perplexity\.ai)",
)


def is_routed(m: Machine, keywords: dict[str, Value], kwrest: Value | None = None) -> bool:
    """True if a call may name a URL that is not written down literally."""
    if kwrest is not None:
        return True
    return any(
        (word in URL_WORDS and not isinstance(value, Const))
        or (word in _OPTIONS and _is_pointed(m, value))
        for word, value in keywords.items()
    )


def _is_pointed(m: Machine, value: Value, depth: int = 4) -> bool:
    """True for options that hold such a URL: `HttpOptions(base_url=…)`, dictionaries, lists."""
    if isinstance(value, Opaque):
        return value.routed
    obj = m.state.heap.get(value.oid) if isinstance(value, Ref) else None
    if isinstance(obj, ListObj):
        return depth > 0 and any(_is_pointed(m, item, depth - 1) for item in obj.items)
    if not isinstance(obj, DictObj):
        return False
    for key, item in obj.items.items():
        if isinstance(key, Const) and key.value in URL_WORDS and not isinstance(item, Const):
            return True
        if depth > 0 and _is_pointed(m, item, depth - 1):
            return True
    return False


def is_set(m: Machine, path: str) -> bool:
    """True if a client, or the module it is of, was given such a URL by assignment."""
    registry = m.state.heap.get(REGISTRY)
    if not isinstance(registry, Namespace):
        return False
    parts = path.split(".")
    return any(
        not isinstance(registry.values.get(f"attribute:{owner}.{word}", Const("")), Const)
        for owner in (".".join(parts[:size]) for size in range(1, len(parts)))
        for word in URL_WORDS
    )


def is_aws(path: str) -> bool:
    """True for calls of the libraries that reach Bedrock."""
    return path.startswith(_AWS)


def is_bedrock(path: str, args: list[Value], keywords: dict[str, Value]) -> bool:
    """True for a call that makes a client of Bedrock."""
    if not path.startswith(_AWS) or not path.endswith((".client", ".resource", ".create_client")):
        return False
    named = args[0] if args else keywords.get("service_name")
    return isinstance(named, Const) and str(named.value).startswith("bedrock")


def names_provider(args: list[Value], keywords: dict[str, Value]) -> bool:
    """True if an argument is a text that begins with the address of a provider."""
    for value in (*args, *keywords.values()):
        known = value.known if isinstance(value, Opaque) else value
        text = known.value if isinstance(known, Const) else None
        if isinstance(text, str) and _HOSTS.match(text):
            return True
    return False


def made_by(path: str, args: list[Value], keywords: dict[str, Value]) -> str:
    """The origin of what a call gives; it tells clients of a provider from others."""
    if is_bedrock(path, args, keywords):
        return f"{BEDROCK}()"
    if path.partition(".")[0] in HTTP and path.endswith(("Client", "Session")):
        return f"{path}(){HOST}" if names_provider(args, keywords) else f"{path}()"
    return f"{path}()"
