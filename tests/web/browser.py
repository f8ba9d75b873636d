"""A browser without a screen: cookies, forms and their tokens, as real ones send them."""

from __future__ import annotations

import re
from html import unescape
from types import TracebackType

import httpx

FIELD = re.compile(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


class Browser:
    """Pages of one server, looked at by one person."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"Accept": "text/html", "User-Agent": "test browser"},
            trust_env=False,
            verify=False,
            timeout=30,
        )

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def send(self, path: str, *, form_of: str | None = None, **fields: str) -> httpx.Response:
        """The form of a page with its hidden fields, some of them filled in."""
        page = self.get(form_of or path)
        hidden = {name: unescape(value) for name, value in FIELD.findall(page.text)}
        return self.http.post(path, data={**hidden, **fields})

    def sign_in(self, link: str) -> None:
        """By a one-time link."""
        path = "/" + link.split("/", 3)[3]
        answer = self.send(path, then="dashboard")
        assert answer.status_code == 303, answer.text
