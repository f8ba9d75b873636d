"""`docs/api.md` tells the truth; `python -m tests.web.test_docs` writes its table of paths."""

from __future__ import annotations

import re
from pathlib import Path

from gitsync.web import answers, api, auth

PAGE = Path(__file__).parents[2] / "docs/api.md"
MARKS = re.compile(r"(<!-- paths -->\n).*?(<!-- /paths -->)", re.DOTALL)


def who(route) -> str:
    """The least role of a route."""
    calls = list(answers._calls(route.dependant))
    roles = [call.role.value for call in calls if isinstance(call, auth.Needs)]
    if auth.require_admin in calls:
        return "administrator"
    person = "person" if auth.require_person in calls else ""
    return ", ".join([*roles, *([person] if person else [])]) or "anybody"


def table() -> str:
    lines = ["| method, path | least role | what |", "|---|---|---|"]
    for (method, path), route in api.routes().items():
        first = (route.endpoint.__doc__ or "").strip().splitlines()[0]
        short = path.removeprefix(api.PREFIX)
        lines.append(f"| {method} `{short}` | {who(route)} | {first} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    return MARKS.sub(lambda found: found[1] + table() + found[2], page)


def test_the_table_of_paths_is_up_to_date():
    page = PAGE.read_text()
    assert written(page) == page, "run `python -m tests.web.test_docs`"


def test_every_code_on_the_page_exists():
    from gitsync.errors import GitSyncError
    from gitsync.web import hooks, idempotency

    assert hooks and idempotency

    def codes(kind: type[GitSyncError]) -> set[str]:
        return {kind.code}.union(*(codes(sub) for sub in kind.__subclasses__()))

    page = PAGE.read_text()
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", page)) - {
        name for name in re.findall(r"`(GITSYNC_[A-Z_]+)`", page)
    }
    assert named <= codes(GitSyncError) and len(named) > 10


def test_every_setting_on_the_page_exists():
    from gitsync.settings import Settings

    for name in re.findall(r"`GITSYNC_([A-Z_]+)`", PAGE.read_text()):
        assert name.lower() in Settings.model_fields, name


def test_every_link_of_the_page_leads_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
