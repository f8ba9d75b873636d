"""Log lines: one per outcome, `key=value` text or JSON, every field escaped (decision 43)."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from gitsync.settings import Settings
from gitsync.text import printable

_SECRET_PATHS = ("/uploads/", "/downloads/", "/login/")


def loggable(path: str) -> str:
    """A path without what makes it a secret: links that prove themselves by their text."""
    return next((f"{start}…" for start in _SECRET_PATHS if path.startswith(start)), path)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = f"{when} {record.levelname.lower()} {record.name} "
        line += printable(record.getMessage(), limit=8000)
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {printable(part)}" for part in trace)
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        value = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage(), limit=8000),
        }
        if record.exc_info:
            value["exception"] = self.formatException(record.exc_info)
        return json.dumps(value)


def configure_logging(settings: Settings) -> None:
    """Log to stderr in the form the settings ask for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.log_format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for name in ("httpx", "httpcore", "alembic", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
