"""Every hostile delivery gets an acceptable answer in time, and has only the effect it may have."""

from __future__ import annotations

import time

import pytest

from tests.crash.service import Service, eventually
from tests.hostile_runs import kit
from tests.hostile_runs.kit import servers

import webhook_clients as hooks  # isort: skip (from the folder that the kit puts on the path)

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


CASES = {case.name: case for case in hooks.CASES}
NOTHING = hooks.NOTHING
NOT_OURS = ("deletion", "hostile-ref", "gzip-body", "nul-text", "lone-surrogates")
FLOOD_LOOKS = 30  # 200 deliveries at once may ask for this many looks at most, not for 200


class Hooked:
    """A GitHub workspace behind a proxy, and the target that deliveries are sent to."""

    def __init__(self, folder, service: Service, host: servers.GitProxy) -> None:
        self.service, self.host = service, host
        (host.root / "acme").mkdir()
        self.origin = kit.Origin(host.root / "acme", "demo")
        self.first = self.origin.push()
        self.workspace = service.connect(
            "hooked", host.url_of("acme/demo.git"), provider="github", identity="acme/demo"
        )
        assert service.status(self.workspace, self.first)["state"] == "published"
        self.secret = self.workspace["webhook"]["secret"]

    def target(self, before: str, after: str) -> hooks.Target:
        return hooks.Target(
            self.workspace["webhook"]["url"],
            self.secret,
            clone_url=self.host.url_of("acme/demo.git"),
            before=before,
            after=after,
        )

    def rows(self) -> int:
        path = f"/workspaces/{self.workspace['id']}/deliveries?limit=1"
        return self.service.get(path)["total_count"]

    def versions(self) -> int:
        path = f"/workspaces/{self.workspace['id']}/versions?limit=1"
        return self.service.get(path)["total_count"]

    def run(self, name: str) -> list[str]:
        """Push a commit that nobody announces but this case; send it; compare the effect."""
        service, case = self.service, CASES[name]
        if name == "foreign-repository":
            # the kit gives it the number of the linked repository, which then has a new name
            return self.foreign()
        before = service.served(self.workspace)
        tip = self.origin.push()
        looks, rows, versions = self.host.count(""), self.rows(), self.versions()
        result = hooks.run_case(self.target(before, tip), case, pid=service.pid)
        faults = [f"{name}: {fault}" for fault in result["faults"]]
        was_taken = set(result["statuses"]) & set(hooks.OK)
        if case.effect == NOTHING:
            time.sleep(0.3)
            if self.host.count("") != looks or service.served(self.workspace) != before:
                faults.append(f"{name}: there was a look")
            if self.rows() != rows and not was_taken:
                faults.append(f"{name}: a refused delivery left a row")
        elif name in ("tag", "other-branch", "suffix-branch"):
            time.sleep(0.3)
            if self.versions() > versions + 1:
                faults.append(f"{name}: a version from another ref")
        elif (
            was_taken
            and name not in NOT_OURS
            and not _within(lambda: service.served(self.workspace) == tip)
        ):
            faults.append(f"{name}: not published: {service.workspace(self.workspace)}")
        if name == "burst" and self.host.count("") - looks > FLOOD_LOOKS:
            faults.append(f"burst: {self.host.count('') - looks} requests to the remote")
        # whatever came, the branch's own tip is what is served in the end
        service.sync(self.workspace)
        if service.served(self.workspace) != tip:
            faults.append(f"{name}: serves {service.served(self.workspace)}, not {tip}")
        return faults

    def foreign(self) -> list[str]:
        """Another name alone is a renamed repository, another number too is a foreign one."""
        tip = self.origin.push()
        target = self.target(tip, tip)
        rows, looks = self.rows(), self.host.count("")
        body = hooks.payload(
            hooks.replace(target, repo="evil/other", clone_url="https://evil.example/x.git")
        )
        body["repository"]["id"] = 8
        status = hooks.send(target, hooks.delivery(target, body)).status
        time.sleep(0.3)
        faults = [] if status in (401, 403, 404) else [f"foreign-repository: status {status}"]
        if self.rows() != rows or self.host.count("") != looks:
            faults.append("foreign-repository: it had an effect")
        return faults


def _within(look, seconds: float = 25.0) -> bool:
    try:
        return bool(eventually(look, seconds=seconds))
    except AssertionError:
        return False


def _run(tmp_path, names) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with servers.GitProxy(root) as host:
        allowed = [f"127.0.0.1:{host.port}"]
        # what the kernel buffers (up to 10 MB on loopback) counts as accepted by the kit
        limits = {"max_webhook_mb": 20}
        with Service(tmp_path / "service", allowed_hosts=allowed, **limits) as service:
            hooked = Hooked(tmp_path, service, host)
            faults = [fault for name in names for fault in hooked.run(name)]
            assert not faults, "\n".join(faults)
            said = kit.outputs(service)
            assert hooked.secret not in said.replace(f'"secret":"{hooked.secret}"', "", 1)
            assert not kit.side_effects(service, {})
            listed = service.get(f"/workspaces/{hooked.workspace['id']}/deliveries?limit=200")
            unsettled = [d for d in listed["items"] if d["settled_at"] is None]
            assert not unsettled, "each delivery ends in one visible outcome"


@pytest.mark.slow
def test_every_hostile_delivery_is_answered_as_stated(tmp_path):
    assert len(CASES) >= 47
    _run(tmp_path, CASES)
