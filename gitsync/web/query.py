"""Parameters that many paths share."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gitsync.errors import InvalidInput
from gitsync.model import Sha

MAX_PARAMETER = 10_000
_AFTER = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


class Body(BaseModel):
    """A request body: unknown keys are refused, so that a typo is not silently ignored."""

    model_config = ConfigDict(extra="forbid", str_max_length=100_000)

    @model_validator(mode="before")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        if isinstance(value, dict) and any("\0" in v for v in value.values() if isinstance(v, str)):
            raise ValueError("text may not hold NUL characters")
        return value


def example(*bodies: dict[str, Any]) -> ConfigDict:
    """The settings of a body that is described with examples."""
    return ConfigDict(json_schema_extra={"examples": list(bodies)})


def _parameter(value: Any) -> Any:
    """One message instead of one for each type that it could have been."""
    if isinstance(value, str) and len(value) <= MAX_PARAMETER:
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"must be text of at most {MAX_PARAMETER} characters, a number, true or false")


def _dated(value: datetime) -> datetime:
    if not 1970 <= value.year <= 2999:
        raise ValueError("must lie between the years 1970 and 2999")
    return value


# at the ends of the calendar a time cannot be reckoned into another zone, or out of a row
DATED = AfterValidator(_dated)

# values for a template: the template itself says which type each has
Parameters = dict[
    Annotated[str, Field(max_length=100)],
    Annotated[bool | int | float | str, BeforeValidator(_parameter)],
]


class Window:
    """`?limit=&after=`: which piece of a list."""

    def __init__(
        self,
        limit: Annotated[int, Query(ge=1, le=200, description="Most items to return.")] = 50,
        after: Annotated[
            str | None, Query(description="`next` of the piece before.", max_length=200)
        ] = None,
    ) -> None:
        if after is not None and not _AFTER.fullmatch(after):
            raise InvalidInput("after must be the value of `next`.", field="after")
        self.limit, self.after = limit, after


WindowDep = Annotated[Window, Depends()]
Wait = Annotated[
    float, Query(ge=0, le=3600, description="Seconds to wait for an outcome; at most 60 count.")
]


def full_sha(
    sha: Annotated[str, Path(description="A full commit sha.", pattern="^[0-9a-fA-F]{40}$")],
) -> Sha:
    """The commit sha of the path."""
    return Sha.parse(sha)


ShaDep = Annotated[Sha, Depends(full_sha)]
