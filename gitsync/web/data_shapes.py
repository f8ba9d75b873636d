"""Answers about data sets and secrets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gitsync.data_records import DatasetState
from gitsync.web.shapes import Count, DigestText, Moment, Plain, Shape, Shown


class Issue(Shape):
    """One thing that is wrong."""

    key: str = Field(examples=["sums.jsonl:3"])
    message: str


class DatasetError(Shape):
    """Why a data set was refused."""

    code: str
    message: str
    issues: list[Issue]


class Dataset(Shape):
    """An upload of a data set; another upload may take over its name."""

    id: str = Field(examples=["ds_7h3k9m2p4q6r8s1t"])
    name: Shown
    state: DatasetState
    format: Literal["csv", "jsonl", "parquet"]
    size: Count = Field(description="Bytes.")
    digest: DigestText | None = Field(description="sha256 of the content, once it is uploaded.")
    row_count: Count | None
    replaces: str | None = Field(description="The upload it took the name from.")
    error: DatasetError | None
    created_by: str | None = Field(description="The name of the person.")
    created_at: Moment
    updated_at: Moment
    expires_at: Moment = Field(description="When an upload ends that is not complete.")
    preview: list[dict[str, Any]] | None = Field(None, description="The first rows, shortened.")


class UploadPart(Shape):
    """Where one part is sent with PUT, and how many bytes it has; the answer's ETag names it."""

    number: Count
    url: str
    size: Count


class NewDataset(Shape):
    """An announced upload."""

    dataset: Dataset
    parts: list[UploadPart]


class LogLine(Shape):
    """One entry of a log."""

    at: Moment
    level: str
    step: str
    message: Shown
    details: Plain = None


class LogPage(Shape):
    """A piece of a log, oldest first."""

    items: list[LogLine]
    next: str | None = Field(description="Send it as `after` to get older entries.")


class Secret(Shape):
    """A secret; its value is never given back."""

    id: str
    name: str
    scope: Literal["workspace", "user"]
    created_by: str | None = Field(description="The name of the person.")
    created_at: Moment
    updated_by: str | None
    updated_at: Moment
