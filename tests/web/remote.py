"""An external remote: bare repositories behind a real `git http-backend`."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

HOSTILE = Path(__file__).resolve().parents[1] / "hostile"
if str(HOSTILE) not in sys.path:
    sys.path.insert(0, str(HOSTILE))

import servers  # noqa: E402 (from the folder above)


class Remote(servers.GitProxy):
    """Serves `root`; requests in flight end by themselves before it stops."""

    def __exit__(self, *error: object) -> None:
        end = time.monotonic() + 2
        while self._tasks and time.monotonic() < end:
            time.sleep(0.005)
        super().__exit__(*error)


def bare(root: Path, name: str) -> Path:
    """A new empty repository below `root`."""
    path = root / name
    subprocess.run(
        ["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True
    )
    return path


def deliver(
    url: str,
    secret: str,
    payload: Any,
    *,
    event: str = "push",
    delivery_id: str | None = None,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """Send what GitHub would send."""
    raw = json.dumps(payload).encode() if body is None else body
    signature = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return httpx.post(
        url,
        content=raw,
        headers={
            "Content-Type": "application/json",
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": delivery_id or str(uuid.uuid4()),
            "X-Hub-Signature-256": f"sha256={signature}",
            **(headers or {}),
        },
        timeout=30,
        trust_env=False,
        verify=False,
    )


def push_payload(
    before: str, after: str, *, repository: str, ref: str = "refs/heads/main", number: int = 7
) -> dict[str, Any]:
    """The part of a push event that matters."""
    return {
        "ref": ref,
        "before": before,
        "after": after,
        "deleted": set(after) == {"0"},
        "repository": {"full_name": repository, "id": number},
    }
