"""Every GitHub delivery and signature vector of the forge kit."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from gitsync.forge import Malformed, github

FORGES = Path(__file__).parents[1] / "forges"
INDEX = json.loads((FORGES / "payloads/index.json").read_text())
CASES = [case for case in INDEX["cases"] if case["file"].startswith("github/")]
VECTORS = [
    vector
    for vector in json.loads((FORGES / "signatures.json").read_text())["vectors"]
    if vector["provider"] == "github"
]


def lower(headers: dict[str, str]) -> dict[str, bytes]:
    """Headers as the server hands them over."""
    return {name.lower(): value.encode("utf-8") for name, value in headers.items()}


def test_the_kit_has_not_shrunk():
    assert len(CASES) >= 44 and len(VECTORS) >= 21


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_a_delivery_is_verified_and_read(case):
    body = (FORGES / "payloads" / case["file"]).read_bytes()
    assert hashlib.sha256(body).hexdigest() == case["sha256"]
    headers, expect = lower(case["headers"]), case["expect"]
    assert github.verify(headers, body, [INDEX["secret"]])
    assert github.verify(headers, body, ["another", INDEX["secret"]])
    assert not github.verify(headers, body + b" ", [INDEX["secret"]])
    parsed = github.parse(headers, body)
    assert parsed.delivery_id == expect["delivery_id"]
    repository = expect["repository"] or {}
    assert parsed.repository == repository.get("full_name")
    assert parsed.repository_id == repository.get("id")
    kind = case["headers"]["X-GitHub-Event"]
    if kind == "push":
        (change,) = expect["changes"]
        assert (parsed.event, parsed.ignored) == ("push", None)
        assert (parsed.ref, parsed.before_sha) == (change["ref"], change["before"])
        assert parsed.after_sha == change["after"]
    elif kind == "repository":
        # its default branch or name may be another now: worth a look
        assert parsed.event == "repository." + json.loads(body)["action"]
        assert parsed.ignored is None and parsed.ref is None
    else:
        assert parsed.event == kind and parsed.ref is None
        assert parsed.ignored and parsed.ignored.endswith(".")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_a_signature_vector(vector):
    body = base64.b64decode(vector["body_b64"])
    found = github.verify(lower(vector["headers"]), body, [vector["secret"]])
    assert found is vector["valid"], vector["why"]


SIGNED = {"x-github-event": b"push", "x-github-delivery": b"1"}
REPOSITORY = {"full_name": "acme/demo", "id": 7}
PUSH = {"ref": "refs/heads/main", "before": "0" * 40, "after": "a" * 40, "repository": REPOSITORY}


def test_the_name_before_a_rename_or_transfer_is_read():
    found = {}
    for case in CASES:
        if case["file"] in ("github/repository-renamed.json", "github/repository-transferred.json"):
            body = (FORGES / "payloads" / case["file"]).read_bytes()
            value, parsed = json.loads(body), github.parse(lower(case["headers"]), body)
            assert parsed.formerly
            found[value["action"]] = parsed.formerly
            if value["action"] == "renamed":
                assert (
                    parsed.formerly.split("/")[1] == value["changes"]["repository"]["name"]["from"]
                )
                assert parsed.formerly.split("/")[0] == parsed.repository.split("/")[0]
            else:
                assert parsed.formerly.split("/")[1] == parsed.repository.split("/")[1]
    assert set(found) == {"renamed", "transferred"}


def test_no_secret_at_all_refuses_everything():
    body = b"{}"
    headers = {"x-hub-signature-256": b"sha256=" + b"0" * 64}
    assert not github.verify(headers, body, [])
    assert not github.verify(headers, body, [""])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"1",
        b'{"ref": ',
        b"\xff\xfe{}",
        b'{"a":' * 100_000,
        b"[" * 200_000,
        b'{"ref": NaN, "n": ' + b"9" * 5000 + b"}",
        json.dumps(PUSH | {"ref": None}).encode(),
        json.dumps(PUSH | {"ref": ["refs/heads/main"]}).encode(),
        json.dumps(PUSH | {"ref": "x" * 3000}).encode(),
        json.dumps(PUSH | {"after": "main"}).encode(),
        json.dumps(PUSH | {"after": None}).encode(),
        json.dumps(PUSH | {"after": "a" * 41}).encode(),
        json.dumps(PUSH | {"before": 5}).encode(),
        json.dumps(PUSH | {"repository": "acme/demo"}).encode(),
        json.dumps(PUSH | {"repository": {}}).encode(),
        json.dumps(PUSH | {"repository": {"full_name": {}}}).encode(),
    ],
    ids=range(19),
)
def test_a_malformed_body_is_refused(body):
    with pytest.raises(Malformed):
        github.parse(SIGNED, body)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-github-event": b"push"},
        {"x-github-delivery": b"1"},
        {"x-github-event": b"pu sh", "x-github-delivery": b"1"},
        {"x-github-event": b"push", "x-github-delivery": b"x" * 201},
        {"x-github-event": b"push\xff", "x-github-delivery": b"1"},
        {"x-github-event": b"push", "x-github-delivery": b"\xd9\xa1"},
    ],
)
def test_malformed_headers_are_refused(headers):
    with pytest.raises(Malformed):
        github.parse(headers, json.dumps(PUSH).encode())


def test_a_key_that_occurs_twice_makes_all_values_untrusted():
    text = json.dumps(PUSH)[:-1] + ', "ref": "refs/heads/other"}'
    parsed = github.parse(SIGNED, text.encode())
    assert (parsed.event, parsed.ref, parsed.after_sha, parsed.ignored) == (
        "push",
        None,
        None,
        None,
    )


def test_a_form_is_read_like_json():
    from urllib.parse import urlencode

    headers = SIGNED | {"content-type": b"application/x-www-form-urlencoded; charset=utf-8"}
    body = urlencode({"payload": json.dumps(PUSH)}).encode()
    assert github.parse(headers, body).after_sha == "a" * 40
    for bad in (b"", b"a=b", b"payload=%7B", b"payload", b"\xff=1"):
        with pytest.raises(Malformed):
            github.parse(headers, bad)
