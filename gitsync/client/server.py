"""One gitsync server over HTTP.

Promise: the token goes to this server only (redirects are not followed); what may succeed a moment
later is tried again with backoff, writes under one idempotency key; every failure is a
`GitSyncError` that says whether the server was reached.
"""

from __future__ import annotations

import re
import ssl
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx
import tenacity

import gitsync
from gitsync.client.failures import (
    AnswerMalformed,
    NotAuthorised,
    ServerRefused,
    ServerUnreachable,
)
from gitsync.errors import ConfigError, GitSyncError, InvalidInput, NotFound

ATTEMPTS = 4
LONGEST_PAUSE_S = 20.0
WRITE_S = 90.0  # a check of a commit, or a trial of a remote, may take a minute
WAIT_S = 60  # the longest `?wait=` a server takes
_GATEWAY = {502, 503, 504}
_WORKSPACE_ID = re.compile(r"ws_[a-z0-9]{16}")

_BACKOFF = tenacity.wait_exponential(multiplier=0.2, max=5) + tenacity.wait_random(0, 0.2)

type Json = dict[str, Any]


def normal_url(text: str) -> str:
    """The server's URL without a final slash; the API's own URL is taken for the server's."""
    url = text.strip().rstrip("/").removesuffix("/api/v1")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput("A server is an http or https URL, such as https://gitsync.example.com.")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("The server's URL must not hold a user, a password, a query or a '#'.")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def segment(text: str) -> str:
    """One segment of a path, whatever it holds."""
    return quote(text, safe="")


def pause(state: tenacity.RetryCallState) -> float:
    """What the server asked for, else doubling pauses with jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.details.get("retry_after") if isinstance(error, GitSyncError) else None
    if isinstance(asked, int | float):
        return min(float(asked), LONGEST_PAUSE_S)
    return _BACKOFF(state)


def helps_to_wait(error: BaseException) -> bool:
    """True if the same request may succeed a moment later."""
    if isinstance(error, ServerRefused):
        # an earlier attempt of ours may still run in the server
        return error.status in {429, *_GATEWAY} or error.server_code == "IN_PROGRESS"
    return isinstance(error, ServerUnreachable)


def transport_failure(error: httpx.HTTPError, url: str) -> ServerUnreachable:
    """A failure below HTTP in words; httpx names no secrets."""
    if isinstance(error, httpx.TimeoutException):
        reason = "it did not answer in time"
    elif isinstance(error, httpx.ConnectError):
        reason = str(error) or "no connection"
    else:
        reason = str(error) or type(error).__name__
    return ServerUnreachable(f"The server {url} cannot be reached: {reason}.", server=url)


def answer_failure(response: httpx.Response, url: str) -> GitSyncError:
    """The error an answer stands for; its body has been read."""
    status = response.status_code
    body: Json = {}
    try:
        parsed = response.json()
        body = parsed if isinstance(parsed, dict) else {}
    except ValueError:
        pass
    said = next((body[k] for k in ("message", "error") if isinstance(body.get(k), str)), None)
    after = response.headers.get("retry-after", "")
    pause_s = int(after) if after.isdecimal() else None
    if 300 <= status < 400:
        return AnswerMalformed(
            f"The server {url} answered with a redirect ({status}) to "
            f"{response.headers.get('location', 'nowhere')[:300]}; use the address it moved to."
        )
    if status in _GATEWAY and not said:
        return ServerUnreachable(
            f"The server {url} is not ready ({status}).", server=url, retry_after=pause_s
        )
    if not said:
        return AnswerMalformed(
            f"{url} answered {status} without an explanation; is a gitsync server there?"
        )
    details = {k: body[k] for k in body if k not in {"message", "error", "status"}}
    if pause_s is not None:
        details["retry_after"] = pause_s
    kind = NotAuthorised if status in {401, 403} else ServerRefused
    return kind(said, status=status, **details)


class Server:
    """A server and the token to use there; a context manager."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ca_bundle: Path | None = None,
        timeout_s: float = 30.0,
        attempts: int = ATTEMPTS,
    ) -> None:
        self.url = normal_url(url)
        self.token = token
        self.timeout_s = timeout_s
        self.attempts = attempts
        headers = {"User-Agent": f"gitsync/{gitsync.__version__}", "Accept": "application/json"}
        if token:
            if not token.isascii() or not token.isprintable() or " " in token:
                raise InvalidInput("The token holds characters that no token has.")
            headers["Authorization"] = f"Bearer {token}"
        verify: ssl.SSLContext | bool = True
        if ca_bundle is not None:
            try:
                verify = ssl.create_default_context(cafile=str(ca_bundle))
            except (OSError, ssl.SSLError) as e:
                raise ConfigError(f"The CA bundle {ca_bundle} cannot be read: {e}") from e
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/", headers=headers, timeout=timeout_s, verify=verify
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def retrying(self, attempts: int | None = None) -> tenacity.Retrying:
        """The policy for whatever talks to this server."""
        return tenacity.Retrying(
            stop=tenacity.stop_after_attempt(attempts or self.attempts),
            wait=pause,
            retry=tenacity.retry_if_exception(helps_to_wait),
            reraise=True,
        )

    def get(self, path: str, *, wait: float | None = None, **params: Any) -> Json:
        """A JSON object; `wait` lets the server hold the answer back for so many seconds."""
        asked = {key: str(value) for key, value in params.items() if value is not None}
        timeout = self.timeout_s
        if wait is not None:
            asked["wait"] = f"{wait:g}"
            timeout += wait
        return self.retrying()(self._once, "GET", path, params=asked, timeout=timeout)

    def send(self, method: str, path: str, body: Json | None = None) -> Json:
        """A write; repeating it after a broken connection does it once."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self.retrying()(
            self._once,
            method,
            path,
            json={} if body is None else body,
            headers=headers,
            timeout=max(self.timeout_s, WRITE_S),
        )

    def post(self, path: str, body: Json | None = None) -> Json:
        """`send` with POST."""
        return self.send("POST", path, body)

    def delete(self, path: str) -> Json:
        """A DELETE; an empty answer is an empty object."""
        return self.retrying()(self._once, "DELETE", path)

    def pages(self, path: str, *, most: int | None = None, **params: Any) -> Iterator[Json]:
        """All items of a list, page by page, at most `most`."""
        after: str | None = None
        given = 0
        while True:
            left = 200 if most is None else min(200, most - given)
            if left < 1:
                return
            page = self.get(path, limit=left, after=after, **params)
            items = page.get("items")
            if not isinstance(items, list):
                raise AnswerMalformed(f"{self.url} answered with something that is no list.")
            yield from items
            given += len(items)
            following = page.get("next")
            if not items or not page.get("has_more") or following in {None, after}:
                return
            after = str(following)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """An answer whose body is read by the caller; one attempt, errors of answers raised."""
        url = f"{self.url}/api/v1/{path}"
        request = self._client.build_request(
            "GET", url, headers={"Accept-Encoding": "identity", "Accept": "*/*", **headers}
        )
        try:
            response = self._client.send(request, stream=True)
            try:
                if response.status_code not in {200, 206, 416}:
                    response.read()
                    raise answer_failure(response, self.url)
                yield response
            finally:
                response.close()
        except httpx.HTTPError as e:
            raise transport_failure(e, self.url) from e

    def _once(self, method: str, path: str, **options: Any) -> Json:
        try:
            response = self._client.request(method, f"{self.url}/api/v1/{path}", **options)
        except httpx.HTTPError as e:
            raise transport_failure(e, self.url) from e
        if not response.is_success:
            raise answer_failure(response, self.url)
        if not response.content:
            return {}
        try:
            answer = response.json()
        except ValueError as e:
            raise AnswerMalformed(
                f"{self.url} answered with something that is no JSON; is a gitsync server there?"
            ) from e
        if not isinstance(answer, dict):
            raise AnswerMalformed(f"{self.url} answered with something that is no object.")
        return answer

    def workspace_id(self, ref: str) -> str:
        """The id of the workspace with this id, name or identity; an id is not looked up."""
        return ref if _WORKSPACE_ID.fullmatch(ref) else str(self.find_workspace(ref)["id"])

    def find_workspace(self, ref: str) -> Json:
        """The workspace with this id, name or identity."""
        if _WORKSPACE_ID.fullmatch(ref):
            return self.get(f"workspaces/{ref}")
        key = "identity" if "/" in ref else "name"
        found = next(iter(self.pages("workspaces", most=1, **{key: ref})), None)
        if found is None:
            raise NotFound(f"There is no workspace {ref} that you may see on {self.url}.")
        return found
