"""Which addresses are connected to."""

from __future__ import annotations

import ipaddress
import time

import pytest

from gitsync.errors import ConfigError
from gitsync.git.address import AddressPolicy, is_public
from gitsync.git.failures import AddressRefused, RemoteTimeout, RemoteUnreachable


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "168.63.129.16",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:db8::1",
        "2001:0:5ef5:79fd:0:0:f5ff:fffe",
    ],
)
def test_what_is_not_public_is_refused(address):
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(AddressRefused, match="GITSYNC_ALLOWED_HOSTS"):
        AddressPolicy.of().resolve(address, 443)


@pytest.mark.parametrize("address", ["140.82.121.4", "1.1.1.1", "2606:50c0:8000::153"])
def test_public_addresses_are_allowed(address):
    assert AddressPolicy.of().resolve(address, 443).addresses == (address,)


@pytest.mark.parametrize(
    ("opening", "allowed", "refused"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080), ("127.0.0.1", 8081)),
        ("10.0.0.0/8", ("10.9.9.9", 22), ("11.0.0.1", 22)),
        ("[fd00::1]:22", ("fd00::1", 22), ("fd00::1", 443)),
        ("fd00::/16", ("fd00::7", 443), ("fd01::7", 443)),
        ("127.0.0.1", ("::ffff:127.0.0.1", 80), ("127.0.0.2", 80)),
        ("git.corp", ("git.corp", 443), ("xgit.corp", 443)),
        (".corp", ("deep.git.corp", 443), ("corp", 443)),
        ("GIT.corp:443", ("git.corp.", 443), ("git.corp", 80)),
    ],
)
def test_openings(opening, allowed, refused):
    def lookup(host, port):
        return ["10.1.1.1"]

    policy = AddressPolicy.of([opening], lookup=lookup)
    assert policy.resolve(*allowed).addresses
    if refused[0] != "11.0.0.1":
        with pytest.raises(AddressRefused):
            policy.resolve(*refused)


def test_one_private_address_among_public_ones_refuses_the_name():
    policy = AddressPolicy.of(lookup=lambda h, p: ["140.82.121.4", "10.0.0.1"])
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        policy.resolve("mixed.example", 443)


@pytest.mark.parametrize("text", ["", "10.0.0.0/99", "host:port", "a b:80:90/3"])
def test_malformed_openings_are_named(text):
    with pytest.raises(ConfigError, match="GITSYNC_ALLOWED_HOSTS"):
        AddressPolicy.of([text])


def test_numbers_that_resolve_to_loopback_are_refused():
    for host in ("2130706433", "127.1", "0x7f.1", "localhost"):
        with pytest.raises((AddressRefused, RemoteUnreachable)):
            AddressPolicy.of().resolve(host, 80)


def test_an_unknown_name_is_transient():
    def lookup(host, port):
        raise OSError("no such name")

    with pytest.raises(RemoteUnreachable) as caught:
        AddressPolicy.of(lookup=lookup).resolve("nowhere.example", 443)
    assert caught.value.transient and caught.value.details["step"] == "dns"


def test_a_resolver_that_hangs_is_left_behind():
    begun = time.monotonic()
    policy = AddressPolicy.of(lookup=lambda h, p: time.sleep(2) or [])
    with pytest.raises(RemoteTimeout):
        policy.resolve("slow.example", 443, timeout=0.2)
    assert time.monotonic() - begun < 1


def test_schemes_are_listed():
    policy = AddressPolicy.of(schemes=("https",))
    policy.check_scheme("https")
    with pytest.raises(AddressRefused, match="GITSYNC_ALLOWED_SCHEMES"):
        policy.check_scheme("http")


def test_a_name_behind_a_proxy_may_not_be_a_private_address():
    policy = AddressPolicy.of()
    policy.check_name("github.com", 443)
    for host in ("127.0.0.1", "localhost", "x.localhost", "169.254.169.254", "::1"):
        with pytest.raises(AddressRefused):
            policy.check_name(host, 443)
