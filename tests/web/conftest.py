"""A published workspace that many tests read, and people with every role in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.live import GOOD_MAIN, NO_GRADER, Checkout, Live, workspace_files
from tests.web.dashboard import enter


@dataclass
class Published:
    """A workspace with two versions: `good`, where all runs, and `bad`, where `beta` does not."""

    live: Live
    workspace: dict[str, Any]
    checkout: Checkout
    good: str
    bad: str
    digest: str

    @property
    def path(self) -> str:
        return f"/workspaces/{self.workspace['id']}"


def publish_two(live: Live, **more: Any) -> Published:
    workspace = live.create(**more)
    checkout = live.checkout(workspace)
    good = checkout.commit(workspace_files(alpha=GOOD_MAIN, beta=GOOD_MAIN), "First")
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, good)["state"] == "published"
    bad = checkout.commit({"rollouts/beta/main.py": NO_GRADER}, "Second")
    checkout.push("-q", "origin", "main")
    assert live.status(workspace, bad)["state"] == "published_with_errors"
    found = live.post(f"/workspaces/{workspace['id']}/resolve", {"rollout": "alpha"})
    return Published(live, workspace, checkout, good, bad, found["digest"])


@pytest.fixture(scope="session")
def published(live) -> Published:
    """Only read this one; tests that change something make their own."""
    return publish_two(live)


@pytest.fixture(scope="module")
def chief(live):
    """The browser of an administrator."""
    with enter(live) as browser:
        yield browser


ROLES = ("reader", "member", "admin", "owner")


@dataclass
class Crowd:
    """Everybody who may knock: tokens by who they are, for one workspace."""

    live: Live
    workspace: dict[str, Any]
    tokens: dict[str, str]
    emails: dict[str, str]

    @property
    def path(self) -> str:
        return f"/workspaces/{self.workspace['id']}"


def people_of(live: Live, *workspaces: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """A person per role in all these workspaces: tokens and addresses by role."""
    tokens, emails = {}, {}
    for role in ROLES:
        live._count += 1
        emails[role] = f"{role}-{live._count}@example.com"
        _, tokens[role] = live.user(emails[role])
        for workspace in workspaces:
            path = f"/workspaces/{workspace['id']}/members/{emails[role]}"
            assert live.call("PUT", path, json={"role": role}).status_code == 200
    return tokens, emails


@pytest.fixture(scope="session")
def crowd(live, published) -> Crowd:
    """Everybody, for the published workspace."""
    workspace, other = published.workspace, live.create()
    tokens, emails = people_of(live, workspace)
    _, tokens["outsider"] = live.user("outsider@example.com")
    path = f"/workspaces/{other['id']}/members/outsider@example.com"
    assert live.call("PUT", path, json={"role": "owner"}).status_code == 200
    _, tokens["instance admin"] = live.user("chief@example.com", is_admin=True)
    for role in ("read", "push", "executor"):
        for where, place in (("this", workspace), ("another", other)):
            made = live.post(
                "/tokens", {"name": role, "role": role, "workspaces": [place["id"]]}, status=201
            )
            tokens[f"machine {role} of {where}"] = made["secret"]
    tokens["unknown"] = "gs_" + "x" * 43
    tokens["expired"] = live.post("/tokens", {"name": "old", "expires_in_days": 1e-8})["secret"]
    made = live.post("/tokens", {"name": "lost"})
    tokens["revoked"] = made["secret"]
    assert live.call("DELETE", f"/tokens/{made['token']['id']}").status_code == 204
    return Crowd(live, workspace, tokens, emails)
