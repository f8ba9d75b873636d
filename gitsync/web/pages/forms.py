"""Forms and the API's bodies: the same checks; a refused form comes back as it was filled in.

Promise: what was typed into a field for secrets is never sent back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from gitsync.errors import GitSyncError, InvalidInput
from gitsync.web import wire
from gitsync.web.session import CheckedForm

_NEVER_BACK = {"csrf", "secret"}


def checked[T: BaseModel](kind: Callable[..., T], /, **given: object) -> T:
    """A body of the API from a form; what is wrong with it is a refusal."""
    try:
        return kind(**given)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][-1])
        raise InvalidInput(f"{name}: {first['msg']}.", field=name) from None


@dataclass(frozen=True, slots=True)
class Refused:
    """A form that changed nothing; `field` is the one to mend, empty if it is none of them."""

    form: str
    message: str
    status: int
    fields: Mapping[str, str]
    field: str = ""

    @classmethod
    def of(cls, name: str, form: CheckedForm, error: GitSyncError, **called: str) -> Refused:
        """`called`: fields of the API that the form calls otherwise."""
        field = str(error.details.get("field", ""))
        field = called.get(field, field)
        fields = {
            key: value
            for key, value in form.fields.multi_items()
            if isinstance(value, str) and key not in _NEVER_BACK
        }
        is_shown = field in form.fields
        return cls(name, error.message, wire.status_of(error), fields, field if is_shown else "")
