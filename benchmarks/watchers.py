"""Many open pages, as `app.js` keeps them: each loads and follows its events with its new texts."""

from __future__ import annotations

import asyncio
import re
import sys
from html import unescape
from urllib.parse import quote

import httpx

LIVE = re.compile(r'data-live="([^"]+)" data-last="(\d+)"')


class Page:
    """One open page of one person."""

    def __init__(self, url: str, path: str, cookie: str) -> None:
        self.path = path
        self.http = httpx.AsyncClient(
            base_url=url, headers={"Cookie": cookie}, trust_env=False, verify=False, timeout=60
        )
        self.events = self.shown = 0
        self.is_open = asyncio.Event()

    async def live(self) -> None:
        """Follow the events until cancelled."""
        text = (await self.http.get(self.path)).raise_for_status().text
        found = LIVE.search(text)
        assert found is not None
        path = unescape(found[1])
        path += ("&" if "?" in path else "?") + f"after={found[2]}&page={quote(self.path, safe='')}"
        async with self.http.stream("GET", path) as stream:
            stream.raise_for_status()
            async for line in stream.aiter_lines():
                self.is_open.set()
                assert line != "event: look"
                self.shown += line == "event: page"
                self.events += line.startswith("id:")


async def watch(url: str, path: str, count: int, cookies: list[str]) -> None:
    """Open the pages, say so, and close them at a line of stdin."""
    pages = [Page(url, path, cookies[number % len(cookies)]) for number in range(count)]
    streams = []
    for page in pages:
        streams.append(asyncio.create_task(page.live()))
        await page.is_open.wait()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    assert not any(task.done() for task in streams)  # the server cut it
    await asyncio.sleep(1)
    for task in streams:
        task.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    print(sum(page.events for page in pages), sum(page.shown for page in pages))
    assert all(page.events and page.shown for page in pages)


if __name__ == "__main__":
    address, what, number, *people = sys.argv[1:]
    asyncio.run(watch(address, what, int(number), people))
