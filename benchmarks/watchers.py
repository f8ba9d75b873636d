"""Many open pages, as `app.js` keeps them: each loads and follows its events with its new texts.

What they get is counted and not read further, as browsers do that on machines of their own.
"""

from __future__ import annotations

import asyncio
import re
import sys
from html import unescape
from urllib.parse import quote

import httpx

LIVE = re.compile(r'data-live="([^"]+)" data-last="(\d+)"')
TAIL = 12  # bytes of a read that a mark may begin in


class Page:
    """One open page of one person."""

    def __init__(self) -> None:
        self.events = self.shown = 0

    async def live(self, host: str, port: int, head: bytes, opened: asyncio.Event) -> None:
        """Follow the events until cancelled."""
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head)
        assert b" 200 " in await reader.readline()
        opened.set()
        before = b""
        while data := await reader.read(1 << 20):
            seen = before + data
            self.shown += seen.count(b"event: page\n") - before.count(b"event: page\n")
            self.events += seen.count(b"\nid: ") + seen.startswith(b"id: ")
            self.events -= before.count(b"\nid: ")
            assert b"event: look" not in seen
            before = seen[-TAIL:]


async def watch(url: str, path: str, count: int, cookies: list[str]) -> None:
    """Open the pages, say so, and close them at a line of stdin."""
    host, _, port = url.removeprefix("http://").partition(":")
    pages, streams = [], []
    for number in range(count):
        cookie = cookies[number % len(cookies)]
        async with httpx.AsyncClient(headers={"Cookie": cookie}, trust_env=False) as http:
            text = (await http.get(url + path)).raise_for_status().text
        found = LIVE.search(text)
        assert found is not None
        live = unescape(found[1])
        live += ("&" if "?" in live else "?") + f"after={found[2]}&page={quote(path, safe='')}"
        head = f"GET {live} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n".encode()
        page, opened = Page(), asyncio.Event()
        streams.append(asyncio.create_task(page.live(host, int(port), head, opened)))
        pages.append(page)
        await opened.wait()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.sleep(1)
    assert not any(task.done() for task in streams)  # the server cut it
    for task in streams:
        task.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    print(sum(page.events for page in pages), sum(page.shown for page in pages))
    assert all(page.events and page.shown for page in pages)


if __name__ == "__main__":
    address, what, number, *people = sys.argv[1:]
    asyncio.run(watch(address, what, int(number), people))
