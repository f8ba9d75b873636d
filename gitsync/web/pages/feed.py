"""The newest events, and the open pages they are told to.

All open pages share one reader: each commit costs one look at the events and one text per event,
however many people watch. Pages that look the same are one audience: their page is made once, and
what they are told is written to their connections one after the other, a few at a time, so that
other requests pass between.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio.to_thread
from starlette.types import Send

from gitsync.instance import Instance
from gitsync.records import Event, Role
from gitsync.store import events
from gitsync.web import wire
from gitsync.web.auth import Waits
from gitsync.web.pages.fresh import LOOK, Fresh, Look, Made

log = logging.getLogger(__name__)

ROUND_S = 15.0
KEPT = 1000
STREAMS = 60  # of one person at once
# What comes in this time after news is told together: longer, the more pages have to be told, so
# that telling them takes the same share of the server's time.
PAUSE_S, PER_PAGE_S, LONGEST_S = 0.1, 0.002, 0.38
GROUP, STEP_S = 4, 0.001  # pages told at once, and the pause before the next ones


@dataclass(frozen=True, slots=True)
class News:
    """An event and its text on the wire."""

    id: int
    workspace_id: str | None
    type: str
    text: bytes

    @classmethod
    def of(cls, event: Event) -> News:
        """Made once for all pages."""
        data = json.dumps(wire.event_json(event))
        return cls(event.id, event.workspace_id, event.type, message(data, id=event.id))


def message(data: str, *, id: int, event: str | None = None) -> bytes:
    """A message of a stream; the browser comes back with its id."""
    head = "" if event is None else f"event: {event}\n"
    return f"{head}id: {id}\ndata: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Sight:
    """What a viewer sees; whose rights are older than a new workspace have to be read again."""

    workspaces: frozenset[str] | None  # None for all
    role: Role | None = None  # in the workspace, if it is one
    read_at: int = 0  # the newest event when it was read

    def sees(self, news: News) -> bool:
        """True if the event is theirs to know."""
        return self.workspaces is None or news.workspace_id in self.workspaces

    def is_outdated_by(self, news: News) -> bool:
        """True if it may be about a workspace they just became a member of."""
        is_new = news.type == "workspace.created" and news.id > self.read_at
        return is_new and self.role is None and self.workspaces is not None


@dataclass(eq=False, slots=True)
class Line:
    """The connection of one open page. While the feed holds it, only the feed writes to it."""

    send: Send  # of the server itself: an event need not pass the middlewares
    sight: Sight
    after: int  # the last event that was told
    csrf: str
    look: Look | None = None  # at the page that comes with the events
    has_page: bool = False  # or it only listens
    missed: bytes = b""  # older events, and when they were read
    read_at: float = 0.0
    shown: int = 0  # the number of the page that was sent last, 0 for none
    returned: asyncio.Event = field(default_factory=asyncio.Event)
    writing: asyncio.Task[None] | None = None  # what the connection did not take yet
    is_broken: bool = False  # something could not be written: the browser comes back for it

    def write(self, text: bytes) -> bool:
        """Send it; False if the connection takes no more for now, `writing` ends once it does."""
        loop = asyncio.get_running_loop()
        task = asyncio.Task(self._write(text), loop=loop, eager_start=True)
        if not task.done():
            self.writing = task
            return False
        self.is_broken = task.cancelled() or task.exception() is not None
        return not self.is_broken

    async def _write(self, text: bytes) -> None:
        await self.send({"type": "http.response.body", "body": text, "more_body": True})


class Audience:
    """Lines to which the page looks the same."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._lines: dict[Line, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, line: Line) -> None:
        """One more; what it has not heard is told at once."""
        self._lines[line] = None
        self.tell()

    def remove(self, line: Line) -> bool:
        """One less; True if it was the last."""
        self._lines.pop(line, None)
        if not self._lines and self._task is not None:
            self._task.cancel()
        return not self._lines

    def tell(self) -> None:
        """Tell what is new, unless that is being done."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell(), name="news for pages")

    async def _tell(self) -> None:
        while due := self._due():
            last = self._feed.last
            made = await self._newest([line for line, _, _, _ in due])
            pages: dict[str, bytes] = {}
            number = 0
            for line, before, sight, text in due:
                if line not in self._lines or line.after != before or line.sight is not sight:
                    continue  # its own task told it something meanwhile
                page = _page(line, made, pages)
                text, line.missed = page + line.missed + text, b""
                line.after, line.shown = max(before, last), 0 if made is None else made.number
                if not line.write(text):
                    self._give_back(line)
                number += 1
                if number % GROUP == 0:
                    await asyncio.sleep(STEP_S)

    async def _newest(self, lines: list[Line]) -> Made | None:
        """Their page, asked for by one of them, or by a second one if it was not theirs to see."""
        looks = {line.look.viewer.user.id: line.look for line in lines if line.look is not None}
        since = max(self._feed.told_at, *(line.read_at for line in lines))
        for look in list(looks.values())[:2]:
            made = await self._feed.fresh.newest(look, since)
            if made is not None:
                return made
        return None

    def _due(self) -> list[tuple[Line, int, Sight, bytes]]:
        """Who has to be told what, and the last they heard; lines we cannot tell go back."""
        texts: dict[tuple[int, Sight], bytes | None] = {}
        found: list[tuple[Line, int, Sight, bytes]] = []
        for line in list(self._lines):
            key = line.after, line.sight
            if key not in texts:
                texts[key] = self._feed.text(*key)
            text = texts[key]
            if text is None:
                self._give_back(line)
            elif text or line.missed:
                found.append((line, line.after, line.sight, text))
            else:
                line.after = max(line.after, self._feed.last)
        return found

    def _give_back(self, line: Line) -> None:
        self._lines.pop(line, None)
        line.returned.set()


def _page(line: Line, made: Made | None, known: dict[str, bytes]) -> bytes:
    """The page for one line; nothing if it shows that already."""
    if made is None:
        return LOOK if line.has_page else b""
    if made.number == line.shown:
        return b""
    if line.csrf not in known:
        known[line.csrf] = made.message(line.csrf)
    return known[line.csrf]


class Feed:
    """The newest events, read once for all pages of this process."""

    def __init__(self, instance: Instance, closing: Waits) -> None:
        self._instance = instance
        self._closing = closing
        self._kept: deque[News] = deque(maxlen=KEPT)
        self._start = 0  # every event after this id is in `_kept`
        self.last = 0
        self.told_at = 0.0  # when the newest were read, by the clock of the event loop
        self._reader: asyncio.Task[None] | None = None
        self._watchers = 0
        self._audiences: dict[Hashable, Audience] = {}
        self._held: dict[Line, Hashable] = {}
        self.waits = Waits(most=STREAMS)
        self.fresh = Fresh()
        self.late = asyncio.Lock()  # pages far behind read the store one after the other

    @property
    def held(self) -> int:
        """How many pages are told what is new."""
        return len(self._held)

    @property
    def is_closing(self) -> bool:
        """True once the server stops."""
        return self._closing.is_closed

    def knows(self, after: int) -> bool:
        """True if it is the id of an event, and all events after it are here."""
        return self._start <= after <= self.last

    def text(self, after: int, sight: Sight) -> bytes | None:
        """What somebody has to be told; None if their own task has to see to it."""
        if after < self._start:
            return None
        news = [news for news in self._kept if news.id > after] if after < self.last else []
        if any(map(sight.is_outdated_by, news)):
            return None
        return b"".join(one.text for one in news if sight.sees(one))

    async def enter(self) -> None:
        """One more page watches."""
        self._watchers += 1
        if self._reader is None or self._reader.done():
            read = await anyio.to_thread.run_sync(self._latest)
            if self._reader is None or self._reader.done():
                self._kept = deque(read, maxlen=KEPT)
                self.told_at = asyncio.get_running_loop().time()
                self._start = read[0].id - 1 if read else 0
                self.last = read[-1].id if read else 0
                self._reader = asyncio.create_task(self._read(), name="events of pages")

    def leave(self) -> None:
        """One less."""
        self._watchers -= 1
        if not self._watchers and self._reader is not None:
            self._reader.cancel()
            self._reader = None

    @contextmanager
    def holding(self, line: Line) -> Iterator[None]:
        """Tell this line what it has not heard, until `line.returned` is set."""
        line.returned.clear()
        key = (None, line.has_page) if line.look is None else line.look.key
        audience = self._audiences.setdefault(key, Audience(self))
        self._held[line] = key
        audience.add(line)
        if self.is_closing:
            line.returned.set()
        try:
            yield
        finally:
            del self._held[line]
            if audience.remove(line) and self._audiences.get(key) is audience:
                del self._audiences[key]

    def _latest(self) -> list[News]:
        """After a start of the server all pages come back at once, each a little behind."""
        with self._instance.database.read() as db:
            found = events.latest_events(db, limit=KEPT // 2)
        return [News.of(event) for event in found]

    def _more(self) -> list[News] | None:
        with self._instance.database.read() as db:
            found = events.events_after(db, self.last, workspaces=None, limit=KEPT // 2)
        return [News.of(event) for event in found] or ([] if self._closing.is_closed else None)

    async def _read(self) -> None:
        while not self._closing.is_closed:
            try:
                found = await self._instance.signals.wait_for(self._more, seconds=ROUND_S)
            except Exception:  # whatever it is: pages that hear nothing any more look alive
                log.exception("events of pages cannot be read")
                await asyncio.sleep(1)
                continue
            for news in found or ():
                if len(self._kept) == KEPT:
                    self._start = self._kept[0].id
                self._kept.append(news)
                self.last = news.id
            if found:
                loop = asyncio.get_running_loop()
                self.told_at = loop.time()
                for audience in list(self._audiences.values()):
                    audience.tell()
                pause = min(max(PAUSE_S, PER_PAGE_S * self._watchers), LONGEST_S)
                await asyncio.sleep(pause)
        for line in list(self._held):
            line.returned.set()
