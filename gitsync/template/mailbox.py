"""A plan as a mail that `git am` takes: for those whose repository we may not write to.

Promise: `git am` on the commit the plan was made for gives the planned tree, the author, the time
and the message; nothing in the message or in a file can end the mail early.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from email.header import Header
from email.utils import format_datetime, formataddr

from gitsync import __version__
from gitsync.model import ZERO_SHA, Signature
from gitsync.text import storable

# lines of a message that `git am` takes for its end, or for headers
_TAKEN = re.compile(
    r"(?mi)^(?=---|diff |Index: |>?From |\[PATCH\]"
    r"|(?:From|Subject|Date|Message-Id|Content-Type|Content-Transfer-Encoding):)"
)


def mailbox(
    patches: Iterable[tuple[str, bytes]], *, author: Signature, message: str, sha: str = ZERO_SHA
) -> str:
    """The mail for patches as `gitsync.template.diff.file_patches` makes them."""
    subject, _, text = storable(message).strip().partition("\n")
    subject = " ".join(subject.split()) or "Change"
    parts = [_TAKEN.sub(" ", text.strip("\n")), "---\n"]
    body = "\n".join(part for part in parts if part).encode("utf-8", "replace")
    body += b"".join(patch for _, patch in patches)
    body += f"-- \ngitsync {__version__}\n".encode()
    encoding = "8bit"
    if b"\r" in body:  # `git am` drops carriage returns from what is sent as it is
        encoding, body = "base64", base64.encodebytes(body)
    head = [
        f"From {sha} Mon Sep 17 00:00:00 2001",
        f"From: {_person(author)}",
        f"Date: {_moment(author)}",
        f"Subject: {_encoded('[PATCH] ' + subject)}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        f"Content-Transfer-Encoding: {encoding}",
    ]
    return "\n".join(head) + "\n\n" + body.decode("utf-8", "replace")


def _encoded(text: str) -> str:
    return text if text.isascii() else Header(text, "utf-8").encode()


def _person(who: Signature) -> str:
    clean = {ord(c): None for c in '<>"\\\r\n\0'}
    name = storable(who.name).translate(clean).strip()
    email = who.email.translate(clean).encode("ascii", "replace").decode()
    return formataddr((name or "gitsync", email), charset="utf-8")


def _moment(who: Signature) -> str:
    zone = timezone(timedelta(minutes=who.offset)) if abs(who.offset) < 1440 else UTC
    try:
        return format_datetime(datetime.fromtimestamp(who.time, zone))
    except (OverflowError, ValueError, OSError):
        return format_datetime(datetime.fromtimestamp(0, UTC))
