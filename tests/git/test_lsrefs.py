"""One look at a remote, honest or not."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime

import pytest
import servers

from gitsync.git.address import AddressPolicy
from gitsync.git.credentials import Credential
from gitsync.git.failures import (
    AddressRefused,
    AuthenticationFailed,
    GitFailure,
    LimitHit,
    ObjectFormatUnsupported,
    RemoteMalformed,
    RemoteMoved,
    RemoteThrottled,
    RemoteTimeout,
    RemoteUnreachable,
    RepositoryNotFound,
)
from gitsync.git.lsrefs import look
from gitsync.git.pinned import retry_after
from gitsync.git.remote import Network, Remote

MAIN = "refs/heads/main"


@pytest.fixture
def proxy(kit):
    with servers.GitProxy(kit.out) as remote:
        yield remote


def test_the_second_look_is_one_request(kit, proxy, loopback):
    remote = Remote.parse(proxy.url_of("path-colon.git"))
    first = look(remote, loopback)
    assert len(proxy.requests) == 2
    assert look(remote, loopback) == first
    assert len(proxy.requests) == 3 and proxy.requests[-1].method == "POST"
    assert first.default_branch == MAIN
    assert first.heads == {MAIN: kit.cases["path-colon"]["tip"]}
    assert not first.unborn and first.detached is None


def test_a_server_that_changes_its_mind_is_asked_the_long_way(kit, loopback):
    name = "path-colon.git"
    with servers.GitProxy(kit.out) as remote:
        port = remote.port
        parsed = Remote.parse(remote.url_of(name))
        tips = look(parsed, loopback)
    with servers.Remote(kit.out / name, port=port):
        assert look(parsed, loopback) == tips


@pytest.mark.parametrize(
    ("name", "default", "unborn", "others"),
    [
        ("ref-branch-named-head", MAIN, False, {"refs/heads/HEAD"}),
        ("ref-nested-name", MAIN, False, {"refs/heads/refs/heads/main"}),
        ("ref-tag-same-name", MAIN, False, set()),
        ("ref-slash-default", "refs/heads/release/2025/café", False, set()),
        ("head-unborn", MAIN, True, {"refs/heads/develop"}),
        ("repo-empty", MAIN, True, set()),
        ("head-symref-loop", None, True, set()),
        ("head-detached", None, False, {MAIN}),
        ("default-renamed", "refs/heads/trunk", False, set()),
        ("default-deleted", MAIN, True, {"refs/heads/feature/x"}),
    ],
)
@pytest.mark.parametrize("honest", [True, False], ids=["v2", "v0"])
def test_refs_are_told_apart(kit, loopback, name, default, unborn, others, honest):
    case = kit.cases[name]
    server = servers.GitProxy(kit.out) if honest else servers.Remote(kit.path(name))
    if not honest and name in ("head-unborn", "repo-empty", "default-deleted"):
        default = None  # v0 does not say where an unborn HEAD points
    with server as remote:
        url = remote.url_of(case["repo"]) if honest else remote.url
        narrow = look(Remote.parse(url), loopback)
        wide = look(Remote.parse(url), loopback, watch="all")
    assert (narrow.default_branch, narrow.unborn) == (default, unborn)
    assert (wide.default_branch, wide.unborn) == (default, unborn)
    assert set(narrow.heads) == ({default} if default and not unborn else set())
    assert set(wide.heads) >= others
    if not unborn and default:
        assert wide.heads[default] == narrow.heads[default]
    if name == "head-detached":
        assert narrow.detached and narrow.detached != wide.heads[MAIN]


def test_chosen_branches_are_matched_whole(kit, proxy, loopback):
    remote = Remote.parse(proxy.url_of("ref-nested-name.git"))
    for _ in range(2):
        tips = look(remote, loopback, watch=["refs/heads/refs/heads/main", "refs/heads/mai"])
        assert set(tips.heads) == {"refs/heads/refs/heads/main"}
        assert tips.default_branch == MAIN


def test_a_dangerous_branch_name_is_only_a_name(kit, proxy, loopback, tmp_path):
    tips = look(Remote.parse(proxy.url_of("ref-dash-default.git")), loopback)
    assert tips.default_branch and tips.default_branch.startswith("refs/heads/--upload-pack=")


def test_evil_names_are_dropped_and_counted(kit, loopback):
    with servers.EvilRefNames(kit.path("path-colon")) as remote:
        tips = look(Remote.parse(remote.url), loopback, watch="all")
    assert tips.dropped == 6
    assert set(tips.heads) == {MAIN, "refs/heads/-upload-pack"}


def test_another_object_format(kit, proxy, loopback):
    with pytest.raises(ObjectFormatUnsupported):
        look(Remote.parse(proxy.url_of("format-sha256.git")), loopback)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        (servers.StallAfterAccept, {}, RemoteTimeout),
        (servers.StallAfterHeaders, {"repo": True}, RemoteTimeout),
        (servers.DripRefs, {"repo": True, "period": 0.05}, RemoteTimeout),
        (servers.EndlessRefs, {"repo": True}, LimitHit),
        (servers.EndlessHeaders, {}, RemoteMalformed),
        (servers.GzipBomb, {"repo": True, "inflated": 64 << 20}, LimitHit),
        (servers.WrongType, {"repo": True}, RemoteMalformed),
        (servers.WrongType, {"repo": True, "page": False}, RemoteMalformed),
        (servers.BadPktLines, {"repo": True}, RemoteMalformed),
        (servers.Failing, {"repo": True, "times": 9}, RemoteUnreachable),
        (servers.Failing, {"repo": True, "times": 9, "status": 401}, AuthenticationFailed),
        (servers.Failing, {"repo": True, "times": 9, "status": 403}, AuthenticationFailed),
        (servers.Failing, {"repo": True, "times": 9, "status": 404}, RepositoryNotFound),
        (servers.Failing, {"repo": True, "times": 9, "status": 418}, RemoteMalformed),
        (servers.Redirect, {}, RemoteMoved),
        (servers.Redirect, {"to": servers.METADATA}, RemoteMoved),
        (servers.Redirect, {"to": "file:///etc/passwd"}, RemoteMoved),
        (servers.Redirect, {"to": "//host:bad/x"}, RemoteMoved),
        (servers.Catcher, {}, RepositoryNotFound),
    ],
)
def test_misbehaving_servers(kit, loopback, kind, options, error):
    options = dict(options)
    if options.pop("repo", False):
        options["repo"] = kit.path("path-colon")
    network = dataclasses.replace(loopback, look_seconds=1.0, look_refs=20_000)
    begun = time.monotonic()
    with kind(**options) as remote, pytest.raises(error) as caught:
        look(Remote.parse(remote.url), network)
    assert time.monotonic() - begun < 4
    assert isinstance(caught.value, GitFailure)
    assert caught.value.message.isprintable()


def test_a_cut_list_is_not_a_short_list(kit, loopback):
    class Cut(servers.Remote):
        async def advertise(self, request, writer):
            body = self.advertisement()[:-4]
            await self.reply(writer, 200, body, kind=servers.ADVERTISED)

    with Cut(kit.path("path-colon")) as remote, pytest.raises(RemoteMalformed):
        look(Remote.parse(remote.url), loopback)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 60),
        ("30", 30),
        ("0", 1),
        ("-5", 60),
        ("99999999", 3600),
        ("9" * 400, 3600),
        ("Wed, 01 Jan 2025 00:02:00 GMT", 120),
        ("Wed, 01 Jan 2020 00:00:00 GMT", 1),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 3600),
        ("soon", 60),
        ("٣", 60),
    ],
)
def test_retry_after_within_reason(text, seconds):
    assert retry_after(text, now=datetime(2025, 1, 1, tzinfo=UTC)) == seconds


@pytest.mark.parametrize("status", [429, 503, 403])
def test_throttling_says_how_long(kit, loopback, status):
    repo = kit.path("path-colon")
    failing = servers.Failing(repo, status=status, times=9, retry_after="17")
    with failing as remote, pytest.raises(RemoteThrottled) as caught:
        look(Remote.parse(remote.url), loopback)
    assert caught.value.retry_after == 17 and caught.value.transient


def test_a_redirect_is_reported_and_never_followed(kit, loopback):
    credential = Credential("token", "canary-token")
    with servers.Catcher() as catcher, servers.Redirect(to=catcher.origin) as remote:
        with pytest.raises(RemoteMoved) as caught:
            look(Remote.parse(remote.url, credential=credential), loopback)
        assert catcher.connections == 0
    assert caught.value.details["location"] == f"{catcher.origin}/repo.git"
    assert caught.value.details["same_host"] is True
    assert not caught.value.transient


def test_the_credential_goes_to_the_remote_only(kit):
    secret = Credential("password", "hunter2", username="robin")
    network = Network(policy=AddressPolicy.of(["127.0.0.1"]))
    with servers.GitProxy(kit.out, auth=("robin", "hunter2")) as remote:
        url = remote.url_of("path-colon.git")
        assert look(Remote.parse(url, credential=secret), network).heads
        wrong = dataclasses.replace(secret, secret="wrong")
        for credential in (None, wrong):
            with pytest.raises(AuthenticationFailed) as caught:
                look(Remote.parse(url, credential=credential), network)
            assert "wrong" not in caught.value.message and not caught.value.transient


def test_loopback_is_refused_by_default(kit, proxy):
    with pytest.raises(AddressRefused, match="GITSYNC_ALLOWED_HOSTS"):
        look(Remote.parse(proxy.url_of("path-colon.git")), Network())
    assert proxy.connections == 0


def test_a_port_that_is_closed(loopback):
    with pytest.raises(RemoteUnreachable) as caught:
        look(Remote.parse("http://127.0.0.1:1/x.git"), loopback)
    assert caught.value.details["step"] == "tcp"


def test_the_checked_address_is_the_one_connected_to(kit, proxy):
    """A name that answers differently the second time is never asked a second time."""
    answers = iter([["127.0.0.1"], ["192.0.2.1"], ["192.0.2.1"]])
    policy = AddressPolicy.of([f"rebind.example:{proxy.port}"], lookup=lambda h, p: next(answers))
    remote = Remote.parse(f"http://rebind.example:{proxy.port}/path-colon.git")
    assert look(remote, Network(policy=policy)).heads
    assert proxy.requests[0].headers["host"] == f"rebind.example:{proxy.port}"
