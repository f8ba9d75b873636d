"""Credentials reach the remote and nothing else; SSH, private certificates, proxies."""

from __future__ import annotations

import base64
import dataclasses
import getpass
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import servers
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from gitsync.git.address import AddressPolicy
from gitsync.git.credentials import Credential, generate_ssh_key, one_shot
from gitsync.git.failures import (
    AddressRefused,
    AuthenticationFailed,
    HostKeyUnknown,
    RemoteMoved,
    RemoteUnreachable,
    RepositoryNotFound,
    TlsFailed,
)
from gitsync.git.lsrefs import look
from gitsync.git.mirror import Mirror
from gitsync.git.remote import Network, Remote, access
from gitsync.git.write import Put, push, write_commit
from gitsync.model import Sha, Signature
from tests.git.kit import checkout, commit, git, processes

pytestmark = pytest.mark.slow  # CI and `make test-all` run it


MAIN = "refs/heads/main"
CANARY = "canary-s3cr3t-0123456789"


class Spy:
    """Reads arguments and environment of every other process as often as it can."""

    def __init__(self, *words: str) -> None:
        self.words = [w.encode() for w in words]
        self.found: list[str] = []
        self.looked = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        while not self._stop.is_set():
            for entry in Path("/proc").glob("[0-9]*"):
                if int(entry.name) == os.getpid():
                    continue
                for name in ("cmdline", "environ"):
                    try:
                        data = (entry / name).read_bytes()
                    except OSError:
                        continue
                    self.looked += b"git" in data
                    self.found += [f"{name}: {data!r}" for w in self.words if w in data]


def on_disk(root: Path, *words: str) -> list[str]:
    """Files below `root` that hold one of the words."""
    return [
        str(path)
        for path in root.rglob("*")
        if path.is_file() and any(w.encode() in path.read_bytes() for w in words)
    ]


@pytest.fixture
def mirror(tmp_path):
    mirror = Mirror(tmp_path / "mirrors/demo.git")
    mirror.ensure()
    return mirror


def test_a_credential_is_in_no_argument_environment_or_file(kit, mirror, loopback):
    credential = Credential("password", CANARY, username="robin")
    encoded = base64.b64encode(f"robin:{CANARY}".encode()).decode()
    with servers.GitProxy(kit.out, auth=("robin", CANARY), latency=0.3) as proxy:
        remote = Remote.parse(proxy.url_of("path-colon.git"), credential=credential)
        with Spy(CANARY, encoded) as spy:
            assert look(remote, loopback).heads
            assert mirror.fetch(remote, [MAIN], loopback).tips
    assert spy.looked > 10 and spy.found == []
    assert on_disk(mirror.path, CANARY, encoded) == []


def test_a_push_keeps_its_credential_to_itself(mirror, tmp_path, loopback):
    credential = Credential("token", CANARY)
    git("clone", "-q", "--bare", str(checkout(tmp_path / "w")), str(tmp_path / "up/demo.git"))
    with servers.GitProxy(tmp_path / "up", auth=(credential.user, CANARY), latency=0.2) as proxy:
        remote = Remote.parse(proxy.url_of("demo.git"), credential=credential)
        base = mirror.fetch(remote, [MAIN], loopback).tips[MAIN]
        who = Signature("Robin", "robin@example.com", 1735689600)
        changes = {"x": Put(b"1")}
        new = write_commit(mirror.path, base=base, changes=changes, message="m", author=who)
        with Spy(CANARY) as spy:
            push(mirror.path, remote, MAIN, new, loopback, expected=base)
        assert look(remote, loopback).heads == {MAIN: new}
    assert spy.looked > 3 and spy.found == []
    assert on_disk(tmp_path, CANARY) == []


def test_a_wrong_credential_is_not_transient_and_not_told(kit, mirror, loopback):
    with servers.GitProxy(kit.out, auth=("robin", "right")) as proxy:
        url = proxy.url_of("path-colon.git")
        for credential in (None, Credential("token", CANARY)):
            with pytest.raises(AuthenticationFailed) as caught:
                mirror.fetch(Remote.parse(url, credential=credential), [MAIN], loopback)
            assert CANARY not in str(caught.value) and not caught.value.transient


@pytest.mark.parametrize("only_post", [False, True])
def test_a_redirect_carries_no_credential(kit, mirror, loopback, only_post):
    credential = Credential("token", CANARY)
    repo = kit.path("path-colon")
    with servers.Catcher() as catcher:
        with servers.Redirect(to=catcher.origin, only_post=only_post, repo=repo) as server:
            remote = Remote.parse(server.url, credential=credential)
            with pytest.raises(RemoteMoved):
                mirror.fetch(remote, [MAIN], loopback)
            server.inner._loop.close()
        assert catcher.connections == 0 and catcher.credentials == []


def test_the_helper_answers_once_and_for_its_origin_only():
    ask = "protocol=https\nhost={host}\n\n"
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0"}

    def fill(host, fd, config):
        args = [part for key, value in config for part in ("-c", f"{key}={value}")]
        return subprocess.run(
            ["git", *args, "credential", "fill"],
            input=ask.format(host=host),
            capture_output=True,
            text=True,
            pass_fds=[fd],
            env=env,
        ).stdout

    with one_shot("robin", CANARY, origin="https://git.example:8443") as (fd, config):
        for host in ("git.example", "evil.example:8443", "x.git.example:8443"):
            assert CANARY not in fill(host, fd, config)
        assert f"password={CANARY}" in fill("git.example:8443", fd, config)
        assert CANARY not in fill("git.example:8443", fd, config)


# -- private certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A certificate authority, and a key and certificate of it for git.example and 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)]) for n in ("CA", "git")]

    def make(n, extension, critical):
        return (
            x509.CertificateBuilder()
            .subject_name(names[n])
            .issuer_name(names[0])
            .public_key(keys[n].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(extension, critical=critical)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(keys[n].public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()),
                critical=False,
            )
        )

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    root = make(0, x509.BasicConstraints(ca=True, path_length=None), True)
    root = root.add_extension(usage, critical=True).sign(keys[0], hashes.SHA256())
    hosts = [x509.DNSName("git.example"), x509.IPAddress(ip_address("127.0.0.1"))]
    leaf = make(1, x509.SubjectAlternativeName(hosts), False).sign(keys[0], hashes.SHA256())
    (folder / "ca.pem").write_bytes(root.public_bytes(Encoding.PEM))
    (folder / "leaf.pem").write_bytes(
        keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + leaf.public_bytes(Encoding.PEM)
    )
    return folder


class Forwarder:
    """Accepts connections and joins each with a port of this machine; a TLS end if asked."""

    def __init__(
        self, to: int, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.to, self.tls = to, tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.names: list[str | None] = []
        self.heads: list[bytes] = []
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()

    def __enter__(self):
        self.listener.settimeout(0.05)
        self._spawn(self._accept)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(5)
        self.listener.close()

    def _spawn(self, what, *args):
        thread = threading.Thread(target=what, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._stop.is_set():
            try:
                client, _ = self.listener.accept()
            except TimeoutError:
                continue
            self._spawn(self._serve, client)

    def _serve(self, client):
        client.settimeout(5)
        try:
            with client:
                if self.tls:
                    with self.tls.wrap_socket(client, server_side=True) as wrapped:
                        self.answer(wrapped)
                else:
                    self.answer(client)
        except OSError:
            pass

    def answer(self, client):
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            self.join(client, server)

    def join(self, one, two):
        """Copy both ways until one side ends."""

        def copy(source, sink):
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except (OSError, ValueError):
                pass

        back = threading.Thread(target=copy, args=(two, one), daemon=True)
        back.start()
        copy(one, two)
        back.join(5)


class HttpProxy(Forwarder):
    """A forward proxy: CONNECT and absolute targets, wherever they point, to `to`."""

    def __init__(self, to: int, *, auth: str = "") -> None:
        super().__init__(to)
        self.auth = auth

    def answer(self, client):
        while head := self._head(client):
            self.heads.append(head)
            want = base64.b64encode(self.auth.encode())
            if self.auth and b"Proxy-Authorization: Basic " + want not in head:
                client.sendall(
                    b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\n"
                    b"Content-Length: 0\r\n\r\n"
                )
                continue
            with socket.create_connection(("127.0.0.1", self.to)) as server:
                if head.startswith(b"CONNECT"):
                    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    self.join(client, server)
                    return
                self._forward(client, server, head)

    def _head(self, client):
        head = b""
        while b"\r\n\r\n" not in head and (data := client.recv(1)):
            head += data
        return head

    def _forward(self, client, server, head):
        method, target, rest = head.split(b" ", 2)
        rest = rest.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        server.sendall(b" ".join((method, b"/" + target.split(b"/", 3)[3], rest)))
        length = re.search(rb"(?i)content-length: (\d+)", head)
        left = int(length[1]) if length else 0
        while left:
            data = client.recv(left)
            server.sendall(data)
            left -= len(data)
        while data := server.recv(65536):
            client.sendall(data)


@pytest.fixture
def https(kit, authority):
    """The kit's repositories over TLS, and the names that clients asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "leaf.pem")
    with servers.GitProxy(kit.out) as proxy, Forwarder(proxy.port, tls=context) as server:
        context.sni_callback = lambda sock, name, ctx: server.names.append(name)
        yield server


def test_a_private_authority_and_the_right_name(kit, https, authority, mirror):
    policy = AddressPolicy.of(["git.example"], lookup=lambda h, p: ["127.0.0.1"])
    network = Network(policy=policy, ca_bundle=authority / "ca.pem")
    remote = Remote.parse(f"https://git.example:{https.port}/path-colon.git")
    assert look(remote, network).heads
    assert mirror.fetch(remote, [MAIN], network).tips
    assert set(https.names) == {"git.example"} and len(https.names) >= 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_certificate_of_nobody_or_for_another_name_is_refused(https, authority, mirror):
    names = {"git.example": "127.0.0.1", "other.example": "127.0.0.1"}
    policy = AddressPolicy.of([".example"], lookup=lambda h, p: [names[h]])
    cases = [
        (Network(policy=policy), "git.example"),
        (Network(policy=policy, ca_bundle=authority / "ca.pem"), "other.example"),
    ]
    for network, host in cases:
        remote = Remote.parse(f"https://{host}:{https.port}/path-colon.git")
        with pytest.raises(TlsFailed):
            look(remote, network)
        with pytest.raises(TlsFailed):
            mirror.fetch(remote, [MAIN], network)


# -- proxies


def test_a_proxy_is_trusted_to_resolve(kit, https, authority, mirror):
    def lookup(host, port):
        raise AssertionError("nobody but the proxy resolves")

    with HttpProxy(https.port, auth=f"corp:{CANARY}") as proxy:
        network = Network(
            policy=AddressPolicy.of(lookup=lookup),
            ca_bundle=authority / "ca.pem",
            proxy=f"http://corp:{CANARY}@127.0.0.1:{proxy.port}",
        )
        remote = Remote.parse("https://git.example/path-colon.git")
        with Spy(CANARY) as spy:
            assert look(remote, network).heads
            assert mirror.fetch(remote, [MAIN], network).tips
        assert spy.found == []
        assert all(h.startswith(b"CONNECT git.example:443 ") for h in proxy.heads)
        wrong = dataclasses.replace(network, proxy=f"http://corp:no@127.0.0.1:{proxy.port}")
        with pytest.raises((RemoteUnreachable, AuthenticationFailed)):
            look(remote, wrong)
        with pytest.raises((RemoteUnreachable, AuthenticationFailed)):
            mirror.fetch(remote, [MAIN], wrong)


def test_plain_http_goes_through_the_proxy_too(kit, mirror):
    with servers.GitProxy(kit.out) as origin, HttpProxy(origin.port) as proxy:
        network = Network(proxy=f"http://127.0.0.1:{proxy.port}")
        remote = Remote.parse("http://git.example/path-colon.git")
        assert look(remote, network).heads
        assert mirror.fetch(remote, [MAIN], network).tips
        assert proxy.heads and all(b" http://git.example" in h for h in proxy.heads)
        for host in ("127.0.0.1", "localhost", "169.254.169.254"):
            count = len(proxy.heads)
            with pytest.raises(AddressRefused):
                look(Remote.parse(f"http://{host}:{origin.port}/path-colon.git"), network)
            with pytest.raises(AddressRefused):
                mirror.fetch(Remote.parse(f"http://{host}/path-colon.git"), [MAIN], network)
            assert len(proxy.heads) == count


def test_a_proxy_of_the_environment_has_no_effect(kit, mirror, loopback, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with servers.GitProxy(kit.out) as proxy:
        remote = Remote.parse(proxy.url_of("path-colon.git"))
        assert look(remote, loopback).heads
        assert mirror.fetch(remote, [MAIN], loopback).tips


def test_a_fetch_goes_to_the_checked_address(kit, mirror):
    """The second answer of the resolver is never asked for; git connects to the first."""
    answers = iter([["127.0.0.1"]])
    with servers.GitProxy(kit.out) as proxy:
        host = f"rebind.example:{proxy.port}"
        policy = AddressPolicy.of([host], lookup=lambda h, p: next(answers))
        remote = Remote.parse(f"http://{host}/path-colon.git")
        assert mirror.fetch(remote, [MAIN], Network(policy=policy)).tips
        assert proxy.requests[0].headers["host"] == host
        with pytest.raises(AddressRefused):
            mirror.fetch(Remote.parse(proxy.url_of("path-colon.git")), [MAIN], Network())


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_ipv6_by_address_and_by_name(kit, mirror):
    for host, answers in (("[::1]", []), ("six.example", ["::1", "127.0.0.1"])):
        policy = AddressPolicy.of(["::1", "127.0.0.1"], lookup=lambda h, p, a=answers: a)
        with access(Remote.parse(f"http://{host}:80/x"), Network(policy=policy)) as way:
            pins = [value for key, value in way.config if key == "http.curloptResolve"]
        assert pins == (["six.example:80:[::1],127.0.0.1"] if answers else [])
        if not has_ipv6():  # many containers have none; the arguments are all there is to see
            continue
        with servers.GitProxy(kit.out) as proxy, Forwarder(proxy.port, host="::1") as server:
            remote = Remote.parse(f"http://{host}:{server.port}/path-colon.git")
            network = Network(policy=policy)
            assert look(remote, network).heads
            assert mirror.fetch(remote, [MAIN], network).tips


# -- ssh


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    """A real SSH server for this user on a loopback port: port, known_hosts line, private key."""
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("needs openssh-server")
    folder = tmp_path_factory.mktemp("sshd")
    host_key, host_public = generate_ssh_key("host")
    private, public = generate_ssh_key("client")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for name, text in (("host", host_key), ("authorized", public + "\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(
        [program, "-D", "-e", "-f", str(folder / "config")], stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    key = " ".join(host_public.split()[:2])
    yield port, f"[127.0.0.1]:{port} {key}\n[git.example]:{port} {key}", private
    server.kill()
    server.wait()


def ssh_remote(sshd, path: Path, *, host: str = "127.0.0.1", **changes) -> Remote:
    port, known, private = sshd
    credential = Credential("ssh", private, known_hosts=known)
    credential = dataclasses.replace(credential, **changes)
    return Remote.parse(f"ssh://{getpass.getuser()}@{host}:{port}{path}", credential=credential)


def test_ssh_looks_fetches_and_pushes(sshd, kit, mirror, tmp_path, loopback):
    work = checkout(tmp_path / "work")
    git("clone", "-q", "--bare", str(work), str(tmp_path / "demo.git"))
    git("branch", "HEAD~", cwd=work, check=False)
    remote = ssh_remote(sshd, tmp_path / "demo.git")
    secret = sshd[2].splitlines()[2]
    with Spy(secret) as spy:
        tips = look(remote, loopback)
        result = mirror.fetch(remote, [MAIN], loopback)
    assert spy.looked > 3 and spy.found == []
    assert tips.default_branch == MAIN and tips.heads == result.tips
    git("fetch", "-q", str(work), "main:refs/heads/tmp", cwd=mirror.path)
    new = Sha(commit(work, {"x": "1"}))
    git("fetch", "-q", str(work), "main:refs/heads/tmp", cwd=mirror.path)
    push(mirror.path, remote, MAIN, new, loopback, expected=tips.heads[MAIN])
    assert look(remote, loopback, watch="all").heads == {MAIN: new}
    assert on_disk(tmp_path, secret) == []


def test_ssh_looks_at_odd_refs_exactly(sshd, kit, loopback):
    for name, ref in (("ref-branch-named-head", MAIN), ("ref-nested-name", MAIN)):
        tips = look(ssh_remote(sshd, kit.path(name)), loopback, watch=[MAIN])
        assert tips.heads == {ref: kit.cases[name]["tip"]}
    assert look(ssh_remote(sshd, kit.path("repo-empty")), loopback).unborn
    detached = look(ssh_remote(sshd, kit.path("head-detached")), loopback)
    assert detached.detached and detached.default_branch is None


def test_ssh_uses_the_checked_address_and_the_key_of_the_name(sshd, kit):
    policy = AddressPolicy.of(["git.example"], lookup=lambda h, p: ["127.0.0.1"])
    remote = ssh_remote(sshd, kit.path("path-colon"), host="git.example")
    assert look(remote, Network(policy=policy)).heads
    with pytest.raises(AddressRefused):
        look(remote, Network(policy=AddressPolicy.of(lookup=lambda h, p: ["127.0.0.1"])))


def test_ssh_refuses_unknown_and_changed_host_keys(sshd, kit, loopback):
    other = generate_ssh_key()[1].rsplit(" ", 1)[0]
    path = kit.path("path-colon")
    for known in ("", "other.example " + other, f"[127.0.0.1]:{sshd[0]} {other}"):
        with pytest.raises(HostKeyUnknown):
            look(ssh_remote(sshd, path, known_hosts=known), loopback)


def test_ssh_refuses_a_wrong_key_and_a_missing_repository(sshd, kit, loopback, tmp_path):
    with pytest.raises(AuthenticationFailed):
        look(ssh_remote(sshd, kit.path("path-colon"), secret=generate_ssh_key()[0]), loopback)
    with pytest.raises(RepositoryNotFound):
        look(ssh_remote(sshd, tmp_path / "none.git"), loopback)
    assert not processes(str(tmp_path / "none.git"))


def test_ssh_without_known_hosts_names_what_is_missing(loopback):
    with pytest.raises(HostKeyUnknown, match="known_hosts"):
        look(Remote.parse("git@127.0.0.1:x"), loopback)
