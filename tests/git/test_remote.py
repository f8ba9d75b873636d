"""Clone URLs and ref names."""

from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.git.credentials import Credential, generate_ssh_key
from gitsync.git.remote import Network, Remote, is_ref


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://github.com/acme/demo.git", "https://github.com/acme/demo.git"),
        ("https://GitHub.com:443/acme/demo/", "https://github.com/acme/demo"),
        ("http://127.0.0.1:8080/x.git", "http://127.0.0.1:8080/x.git"),
        ("https://[2606:50c0::1]:8443/x", "https://[2606:50c0::1]:8443/x"),
        ("https://git.example./x", "https://git.example/x"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("git@github.com:acme/demo.git", "ssh://git@github.com/acme/demo.git"),
        ("ssh://git@host.example:2222/a/b", "ssh://git@host.example:2222/a/b"),
        ("ssh://host.example/a", "ssh://git@host.example/a"),
    ],
)
def test_clone_urls(text, url):
    assert Remote.parse(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/etc/passwd",
        "file:///etc/passwd",
        "git://host.example/x",
        "ext::sh -c touch% x",
        "https://",
        "https://host.example",
        "https://host.example/",
        "https://user:secret@host.example/x",
        "https://host.example/x?y=1",
        "https://host.example/x#y",
        "https://host.example/a b",
        "https://host.example/a\nb",
        "https://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x/y",
        "-oProxyCommand=x:y",
        "ssh://-l@host.example/x",
        "ssh://host.example/-x",
        "https://host.example:99999/x",
        "https://host'example/x",
    ],
)
def test_what_is_no_clone_url(text):
    with pytest.raises(InvalidInput) as caught:
        Remote.parse(text)
    assert "secret" not in caught.value.message.replace("the secret", "")


def test_a_credential_belongs_to_its_host():
    token = Credential("token", "t0k3n", host="github.com")
    assert Remote.parse("https://github.com/a/b", credential=token).credential is token
    named = Remote.parse("https://oauth2@github.com/a/b", credential=token)
    assert named.credential and named.credential.user == "oauth2"
    assert named.url == "https://github.com/a/b"
    with pytest.raises(InvalidInput):
        Remote.parse("https://evil.example/a/b", credential=token)
    with pytest.raises(InvalidInput):
        Remote.parse("git@github.com:a/b", credential=token)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "token", "secret": "a\nhost=evil"},
        {"kind": "password", "secret": "x", "username": "a\rb"},
        {"kind": "password", "secret": "x"},
        {"kind": "password", "secret": "x", "username": "a:b"},
        {"kind": "ssh", "secret": "no key"},
        {"kind": "token", "secret": "x" * 20_000},
    ],
)
def test_malformed_credentials(fields):
    with pytest.raises(InvalidInput):
        Credential(**fields)


def test_a_credential_does_not_show_its_secret():
    remote = Remote.parse("https://a.example/x", credential=Credential("token", "t0k3n"))
    network = Network(proxy="http://u:pr0xy@proxy.example:3128")
    assert "t0k3n" not in repr(remote) and "pr0xy" not in repr(network)


def test_generated_keys_are_of_one_pair():
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    private, public = generate_ssh_key("gitsync@test")
    assert public.startswith("ssh-ed25519 ") and public.endswith(" gitsync@test")
    key = load_ssh_private_key(private.encode(), None)
    assert key.public_key() is not None


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("refs/heads/main", True),
        ("refs/heads/HEAD", True),
        ("refs/heads/refs/heads/main", True),
        ("refs/heads/release/2025/café", True),
        ("refs/heads/--upload-pack=x", True),
        ("refs/heads/", False),
        ("refs/tags/v1", False),
        ("main", False),
        ("refs/heads/a..b", False),
        ("refs/heads/x.lock", False),
        ("refs/heads/x.lock/y", False),
        ("refs/heads/.x", False),
        ("refs/heads/a/.x", False),
        ("refs/heads/a b", False),
        ("refs/heads/a\x1b", False),
        ("refs/heads/a//b", False),
        ("refs/heads/a/", False),
        ("refs/heads/a.", False),
        ("refs/heads/@{x", False),
        ("refs/heads/../../x", False),
        ("refs/heads/" + "n" * 2000, False),
    ],
)
def test_ref_names(name, good):
    assert is_ref(name) is good


def test_no_proxy():
    network = Network(proxy="http://p:1", no_proxy=("corp", ".lan", "10.0.0.1"))
    assert network.proxy_for("github.com") == "http://p:1"
    for host in ("corp", "git.corp", "x.lan", "10.0.0.1"):
        assert network.proxy_for(host) == ""
    assert network.proxy_for("notcorp") == "http://p:1"
