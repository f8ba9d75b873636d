"""Every misbehaving remote ends as its row in the kit says, and the healthy one keeps syncing."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.crash.service import Service, Watch, eventually
from tests.hostile_runs import kit
from tests.hostile_runs.kit import servers

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


SETTINGS = {
    "look_deadline_s": 3.0,
    "fetch_deadline_s": 4.0,
    "backoff_max_s": 1.0,
    "retry_after_max_s": 2.0,
    "max_fetch_mb": 64,
    "turn_lease_s": 10.0,
    "concurrent_syncs": 5,
}
USER, SECRET = "robin", "canary-Zx81-server-credential"


@dataclass(frozen=True)
class Expected:
    """How a remote ends: with one of these error codes, or published after all."""

    codes: tuple[str, ...] = ()
    published: bool = False
    options: dict = field(default_factory=dict)


TIMEOUT, CUT = "REMOTE_TIMEOUT", "REMOTE_UNREACHABLE"
WRONG, LIMIT = "REMOTE_MALFORMED", "GIT_LIMIT"
FINAL = {LIMIT, "OBJECTS_REFUSED", "AUTHENTICATION_FAILED"}  # waiting alone does not help
TABLE: dict[str, tuple[str, Expected]] = {
    "stall-accept": ("stall-accept", Expected((TIMEOUT,))),
    "stall-headers": ("stall-headers", Expected((TIMEOUT,))),
    "stall-pack": ("stall-pack", Expected((TIMEOUT,))),
    "drip-pack": ("drip-pack", Expected((TIMEOUT,))),
    "drip-refs": ("drip-refs", Expected((TIMEOUT,))),
    "endless-refs": ("endless-refs", Expected((LIMIT,))),
    "endless-progress": ("endless-progress", Expected((TIMEOUT,))),
    "endless-pack": ("endless-pack", Expected((LIMIT, TIMEOUT))),
    "endless-headers": ("endless-headers", Expected((WRONG, LIMIT, CUT))),
    "gzip-bomb": (
        "gzip-bomb",
        Expected((LIMIT,), options={"inflated": 256 << 20}),
    ),
    "reset-pack": ("reset-pack", Expected((CUT, WRONG))),
    "lying-length": ("lying-length", Expected((CUT, WRONG))),
    "bad-pkt-lines": ("bad-pkt-lines", Expected((WRONG,))),
    "login-page": ("wrong-type", Expected((WRONG,))),
    "wrong-type": ("wrong-type", Expected((WRONG,), options={"page": False})),
    "evil-ref-names": ("evil-ref-names", Expected(published=True)),
    "unfetchable-error": ("unfetchable", Expected((WRONG,), options={"how": "error"})),
    "unfetchable-other": ("unfetchable", Expected((WRONG,), options={"how": "other"})),
    "unfetchable-empty": ("unfetchable", Expected((WRONG,), options={"how": "empty"})),
    "unfetchable-close": ("unfetchable", Expected((WRONG, CUT), options={"how": "close"})),
    "failing-500": ("failing", Expected(published=True, options={"status": 500, "times": 2})),
    "failing-503": (
        "failing",
        Expected(published=True, options={"status": 503, "retry_after": "99999999"}),
    ),
    "failing-429": (
        "failing",
        Expected(published=True, options={"status": 429, "retry_after": "-5"}),
    ),
    "failing-429-date": (
        "failing",
        Expected(
            published=True,
            options={"status": 429, "retry_after": "Fri, 31 Dec 2027 23:59:59 GMT"},
        ),
    ),
    "failing-fetch": (
        "failing",
        Expected(published=True, options={"status": 500, "where": "git-upload-pack"}),
    ),
    "failing-401": (
        "failing",
        Expected(("AUTHENTICATION_FAILED",), options={"status": 401, "times": 99}),
    ),
    **{
        f"garbage-{kind}": (
            "garbage-pack",
            Expected(
                (WRONG, LIMIT, "OBJECTS_REFUSED", "FETCH_FAILED"),
                options={"kind": kind},
            ),
        )
        for kind in servers.BAD_PACKS
    },
}


@pytest.fixture
def repo(tmp_path):
    """A repository that a correct client can clone from a correct server."""
    origin = kit.Origin(tmp_path, "repo")
    origin.push()
    origin.bare("repack", "-adq")
    return origin


def _run(tmp_path, repo, names) -> None:
    healthy_root = tmp_path / "root"
    healthy_root.mkdir()
    with ExitStack() as stack:
        host = stack.enter_context(kit.Host(healthy_root))
        remotes = {}
        for name in names:
            kind, expected = TABLE[name]
            needs_repo = kind not in ("stall-accept", "endless-headers")
            made = servers.PLAIN[kind](*([repo.path] if needs_repo else []), **expected.options)
            remotes[name] = stack.enter_context(made)
        allowed = [f"127.0.0.1:{s.port}" for s in (host, *remotes.values())]
        service = stack.enter_context(
            Service(tmp_path / "service", allowed_hosts=allowed, **SETTINGS)
        )
        healthy = stack.enter_context(kit.Healthy(service, host))
        healthy.once()
        tip, faults = repo.git("rev-parse", "HEAD"), []
        with Watch(service) as watch:
            begun = time.monotonic()
            spaces = {
                name: service.connect(
                    name,
                    remote.url,
                    credential={"kind": "password", "username": USER, "secret": SECRET},
                )
                for name, remote in remotes.items()
            }
            for name, workspace in spaces.items():
                sync = service.ended(workspace, workspace["sync_id"], wait=60)
                faults += _judge(service, name, workspace, sync, tip)
            took = time.monotonic() - begun
            healthy.once()
            # nobody is hammered: what waits for a person is left alone, the rest at its backoff
            counts = {name: len(remote.requests) for name, remote in remotes.items()}
            since = time.monotonic()
            time.sleep(1.5)
            most = 8 * (time.monotonic() - since)
            for name, remote in remotes.items():
                more = len(remote.requests) - counts[name]
                if more > (0 if name == "failing-401" else most):
                    faults.append(f"{name}: {more} more requests, at most {most:.1f} expected")
        assert not faults, "\n".join(faults)
        assert watch.growth_mb < 300, "\n".join(watch.at_peak)
        assert not healthy.faults and healthy.slowest < 30
        assert took < 60 + 2 * len(names)
        assert not kit.side_effects(service, {"credential": [SECRET]})
        assert not any(SECRET.encode() in text for text in watch.seen)


def _judge(service, name, workspace, sync, tip) -> list[str]:
    expected = TABLE[name][1]
    error = sync["error"] or {}
    if expected.published:
        served = service.served(workspace)
        if sync["outcome"] != "published" or served != tip:
            return [f"{name}: {sync['outcome']} {error}, serves {served}"]
        return []
    faults = []
    if sync["outcome"] != "error" or error.get("code") not in expected.codes:
        faults.append(f"{name}: {sync['outcome']} {error}, expected {expected.codes}")
    elif error["transient"] != (error["code"] not in FINAL):
        faults.append(f"{name}: transient is {error['transient']}: {error}")
    if not error.get("message", "").isprintable():
        faults.append(f"{name}: an unescaped message: {error!r}")
    if service.served(workspace) is not None:
        faults.append(f"{name}: something is published")
    return faults


@pytest.mark.slow
def test_every_hostile_server_ends_as_stated(tmp_path, repo):
    told_apart = {kind for kind, _ in TABLE.values()}
    elsewhere = {"remote", "redirect", "catcher", "lagging-refs", "flapping-refs", "proxy"}
    assert told_apart | elsewhere == set(servers.PLAIN)
    _run(tmp_path, repo, TABLE)


@pytest.mark.slow
def test_redirects_are_not_followed_and_carry_no_credential_away(tmp_path, repo):
    with ExitStack() as stack:
        catcher = stack.enter_context(servers.Catcher())
        kinds = {
            "elsewhere": {"to": catcher.origin},
            "elsewhere-fetch": {"to": catcher.origin, "only_post": True, "repo": repo.path},
            "metadata": {"to": servers.METADATA},
            "file": {"to": "file:///etc/passwd"},
            "git": {"to": "git://127.0.0.1/x"},
            "host": {"to": f"//127.0.0.1:{catcher.port}/x"},
            "itself": {"to": ""},
            "permanent": {"to": catcher.origin, "status": 301},
            "kept": {"to": catcher.origin, "status": 307},
        }
        remotes = {
            name: stack.enter_context(servers.Redirect(**more)) for name, more in kinds.items()
        }
        for remote in remotes.values():
            if remote.inner is not None:
                remote.inner._loop.close()  # made for a server of its own, which it is not
        # even a catcher whose port is allowed must not be reached
        allowed = [f"127.0.0.1:{s.port}" for s in (catcher, *remotes.values())]
        service = stack.enter_context(
            Service(tmp_path / "service", allowed_hosts=allowed, **SETTINGS)
        )
        for name, remote in remotes.items():
            workspace = service.connect(
                name,
                remote.url,
                credential={"kind": "password", "username": USER, "secret": SECRET},
            )
            sync = service.ended(workspace, workspace["sync_id"])
            assert sync["outcome"] == "error", (name, sync)
            assert sync["error"]["code"] == "REMOTE_MOVED", (name, sync["error"])
        assert catcher.requests == [] and catcher.connections == 0
        assert SECRET not in kit.outputs(service)


def test_private_addresses_are_refused_by_default_and_the_setting_is_named(tmp_path, repo):
    with servers.Remote(repo.path) as remote, Service(tmp_path / "service") as service:
        workspace = service.connect("closed", remote.url)
        sync = service.ended(workspace, workspace["sync_id"])
        assert sync["error"]["code"] == "ADDRESS_REFUSED"
        assert "GITSYNC_ALLOWED_HOSTS" in sync["error"]["message"]
        assert remote.connections == 0


@pytest.mark.slow
def test_a_server_that_recovers_is_published_without_anybody_asking(tmp_path, repo):
    with servers.Failing(repo.path, status=500, times=6) as remote:
        allowed = [f"127.0.0.1:{remote.port}"]
        with Service(tmp_path / "service", allowed_hosts=allowed, **SETTINGS) as service:
            workspace = service.connect("recovers", remote.url)
            first = service.ended(workspace, workspace["sync_id"])
            assert first["outcome"] == "error" and first["error"]["transient"]
            tip = repo.git("rev-parse", "HEAD")
            eventually(lambda: service.served(workspace) == tip, seconds=30)
            assert service.idle(workspace)["last_error"] is None
