"""What the store keeps about data sets and secrets, as plain frozen values; times are aware UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class DatasetState(StrEnum):
    """How far an upload is; the words are the client's."""

    PENDING = "pending"
    UPLOADING = "uploading"
    PROCESSING = "processing"
    UPLOADED = "uploaded"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """True while bytes or the end of the check are awaited."""
        return self in {self.PENDING, self.UPLOADING, self.PROCESSING}


@dataclass(frozen=True, slots=True)
class Dataset:
    """One upload of a data set; its content never changes, another upload takes over the name.

    `shown_name` is the name while people mean this upload by it. `digest`, `row_count`, `preview`
    and `object_key` are known once it is `uploaded`; a list comes without `preview`.
    """

    seq: int
    id: str
    workspace_id: str
    name: str
    shown_name: str | None
    state: DatasetState
    format: str
    size: int
    method: str
    part_size: int
    total_parts: int
    replaces: str | None
    object_key: str | None
    digest: str | None
    row_count: int | None
    preview: tuple[dict[str, Any], ...] | None
    error: dict[str, Any] | None
    created_by: str | None
    creator_name: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    deleted_at: datetime | None
    attempts: int


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """One part of an upload that has arrived."""

    number: int
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log; ids grow in the order of writing."""

    id: int
    at: datetime
    level: str
    step: str
    message: str
    details: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret without its value; `scope` is workspace, or user for a personal one."""

    id: str
    workspace_id: str
    name: str
    scope: str
    created_by: str | None
    creator_name: str | None
    created_at: datetime
    updated_by: str | None
    updater_name: str | None
    updated_at: datetime
