"""A remote tried step by step."""

from __future__ import annotations

import dataclasses
import socket
import threading

import servers

from gitsync.git.address import AddressPolicy
from gitsync.git.credentials import Credential
from gitsync.git.probe import probe
from gitsync.git.remote import Network, Remote


def names(steps):
    return [(s.name, s.ok) for s in steps]


def test_every_step_of_a_good_remote(kit, loopback):
    with servers.GitProxy(kit.out) as proxy:
        remote = Remote.parse(proxy.url_of("path-colon.git"))
        steps = probe(remote, loopback)
        assert names(steps) == [
            ("policy", True),
            ("dns", True),
            ("tcp", True),
            ("authentication", True),
            ("ref", True),
        ]
        assert kit.cases["path-colon"]["tip"] in steps[-1].message
        steps = probe(remote, loopback, ref="refs/heads/none")
        assert names(steps)[-1] == ("ref", False) and steps[-1].code == "REF_MISSING"
        empty = probe(Remote.parse(proxy.url_of("repo-empty.git")), loopback)
        assert empty[-1].ok and "no commit yet" in empty[-1].message


def test_the_first_step_that_fails_is_the_last(kit, loopback):
    def lookup(host, port):
        raise OSError

    with servers.GitProxy(kit.out, auth=("robin", "hunter2")) as proxy:
        url = proxy.url_of("path-colon.git")
        wrong = Remote.parse(url, credential=Credential("token", "wrong"))
        cases = [
            (wrong, loopback, "authentication", "AUTHENTICATION_FAILED"),
            (Remote.parse(url), Network(), "policy", "ADDRESS_REFUSED"),
            (
                Remote.parse(url),
                dataclasses.replace(loopback, policy=AddressPolicy.of(schemes=("https",))),
                "policy",
                "ADDRESS_REFUSED",
            ),
            (
                Remote.parse("https://nowhere.example/x"),
                Network(policy=AddressPolicy.of(lookup=lookup)),
                "dns",
                "REMOTE_UNREACHABLE",
            ),
            (Remote.parse("http://127.0.0.1:1/x"), loopback, "tcp", "REMOTE_UNREACHABLE"),
        ]
        for remote, network, step, code in cases:
            last = probe(remote, network)[-1]
            assert (last.name, last.ok, last.code) == (step, False, code)
            assert "wrong" not in last.message


def test_a_port_that_speaks_no_tls(loopback):
    def answer():
        for _ in range(2):
            client, _address = listener.accept()
            with client:
                client.settimeout(5)
                if client.recv(1000):
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        last = probe(Remote.parse(f"https://127.0.0.1:{port}/x"), loopback)[-1]
        thread.join()
    assert (last.name, last.ok, last.code) == ("tls", False, "TLS_FAILED")
