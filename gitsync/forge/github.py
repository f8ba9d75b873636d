"""GitHub deliveries: `X-Hub-Signature-256` over the raw body, events push, ping and the rest.

Source: GitHub's webhook documentation; see the vectors in `tests/forges/signatures.json`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from gitsync.forge.delivery import Malformed, Parsed, load, sha, table, text

_SIGNATURE = re.compile(rb"sha256=([0-9A-Fa-f]{64})")
_NAME = re.compile(rb"[A-Za-z0-9_.-]{1,80}")
_ID = re.compile(rb"[A-Za-z0-9_.:-]{1,200}")


def verify(headers: Mapping[str, bytes], body: bytes, secrets: Sequence[str]) -> bool:
    """True if one of the secrets signed exactly these bytes; an empty secret never does."""
    found = _SIGNATURE.fullmatch(headers.get("x-hub-signature-256", b""))
    given = found[1].lower() if found else b""
    good = False
    for secret in secrets:
        expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode()
        good |= hmac.compare_digest(expected, given) and bool(secret)
    return good


def parse(headers: Mapping[str, bytes], body: bytes) -> Parsed:
    """Read a verified delivery; what it says is only a hint."""
    event_bytes, id_bytes = (
        headers.get("x-github-event", b""),
        headers.get("x-github-delivery", b""),
    )
    if not _NAME.fullmatch(event_bytes):
        raise Malformed("The header X-GitHub-Event is missing or malformed.")
    if not _ID.fullmatch(id_bytes):
        raise Malformed("The header X-GitHub-Delivery is missing or malformed.")
    event, delivery_id = event_bytes.decode(), id_bytes.decode()
    value, twice = load(_json(headers, body))
    repository = table(value.get("repository"), "repository")
    number = repository.get("id")
    common = Parsed(
        event=event,
        delivery_id=delivery_id,
        repository=text(repository.get("full_name"), "repository.full_name"),
        repository_id=str(number) if isinstance(number, int) else None,
    )
    if event == "ping":
        return replace(common, ignored="A ping: the webhook works.")
    if event == "repository":
        action = text(value.get("action"), "action") or ""
        return replace(
            common, event=f"repository.{action}"[:80], formerly=_formerly(value, common.repository)
        )
    if event != "push":
        return replace(common, ignored=f"Events of the kind {event} change nothing here.")
    ref = text(value.get("ref"), "ref")
    if ref is None:
        raise Malformed("A push without `ref`.")
    before, after = sha(value.get("before"), "before"), sha(value.get("after"), "after")
    if after is None:
        raise Malformed("A push without `after`.")
    if repository.get("full_name") is None:
        raise Malformed("A push without `repository.full_name`.")
    if twice:
        return common  # parsers may disagree about its values: look, believe nothing
    return replace(common, ref=ref, before_sha=before, after_sha=after)


def _formerly(value: dict[str, Any], full_name: str | None) -> str | None:
    """The name before a rename or a transfer."""
    owner, _, name = (full_name or "").partition("/")
    changes = table(value.get("changes"), "changes")
    renamed = table(table(changes.get("repository"), "repository").get("name"), "name")
    if old := text(renamed.get("from"), "changes.repository.name.from"):
        return f"{owner}/{old}"
    moved = table(table(changes.get("owner"), "owner").get("from"), "from")
    for kind in ("user", "organization"):
        if old := text(table(moved.get(kind), kind).get("login"), f"{kind}.login"):
            return f"{old}/{name}"
    return None


def _json(headers: Mapping[str, bytes], body: bytes) -> bytes:
    """The JSON in a body; GitHub may also send a form with one field."""
    kind = headers.get("content-type", b"").split(b";")[0].strip().lower()
    if kind != b"application/x-www-form-urlencoded":
        return body
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=10)
        return fields["payload"][0].encode()
    except (ValueError, KeyError):
        raise Malformed("The form has no field `payload`.") from None
