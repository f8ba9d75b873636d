"""Artifacts over HTTP: exact bytes, exact headers (decision 3)."""

from __future__ import annotations

import base64
import gzip
import hashlib

import pytest
import zstandard

from gitsync.web.api import artifacts


@pytest.fixture(scope="module")
def tar(live, published):
    """The whole artifact, fetched once."""
    answer = live.call("GET", f"{published.path}/artifacts/{published.digest}.tar")
    assert answer.status_code == 200
    return answer


def get(live, published, suffix=".tar", method="GET", **headers):
    path = f"{published.path}/artifacts/{published.digest}{suffix}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return live.call(method, path, headers=named)


def test_the_bytes_are_named_by_their_digest(published, tar):
    digest = published.digest
    assert hashlib.sha256(tar.content).hexdigest() == digest
    assert tar.headers["etag"] == f'"{digest}"'
    raw = base64.b64encode(bytes.fromhex(digest)).decode()
    assert tar.headers["repr-digest"] == f"sha-256=:{raw}:"
    assert tar.headers["content-length"] == str(len(tar.content))
    assert tar.headers["accept-ranges"] == "bytes"
    assert tar.headers["content-type"] == "application/x-tar"
    assert "immutable" in tar.headers["cache-control"] and "private" in tar.headers["cache-control"]
    assert "content-encoding" not in tar.headers


def test_nothing_is_negotiated(live, published, tar):
    again = get(live, published, Accept_Encoding="gzip, br, zstd", Accept="application/gzip")
    assert again.content == tar.content and "content-encoding" not in again.headers


def test_head_tells_size_and_digest_without_bytes(live, published, tar):
    head = get(live, published, method="HEAD")
    assert head.status_code == 200 and head.content == b""
    for name in ("etag", "repr-digest", "content-length", "content-type", "accept-ranges"):
        assert head.headers[name] == tar.headers[name], name


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.zst"])
def test_those_who_have_the_bytes_get_304(live, published, suffix):
    etag = get(live, published, suffix).headers["etag"]
    for header in (etag, f'"x", {etag}', "*", f"W/{etag.removeprefix('W/')}"):
        answer = get(live, published, suffix, If_None_Match=header)
        assert (answer.status_code, answer.content) == (304, b""), header
        assert answer.headers["etag"] == etag
    assert get(live, published, suffix, If_None_Match='"other"').status_code == 200


def test_compressed_forms_hold_the_same_bytes_and_have_no_ranges(live, published, tar):
    packed = get(live, published, ".tar.gz")
    assert gzip.decompress(packed.content) == tar.content
    assert packed.headers["content-type"] == "application/gzip"
    squeezed = get(live, published, ".tar.zst")
    assert zstandard.ZstdDecompressor().stream_reader(squeezed.content).read() == tar.content
    assert squeezed.headers["content-type"] == "application/zstd"
    for answer, suffix in ((packed, ".tar.gz"), (squeezed, ".tar.zst")):
        assert answer.headers["etag"].startswith('W/"')
        part = get(live, published, suffix, Range="bytes=0-9")
        assert part.status_code == 200 and part.content == answer.content
        assert "accept-ranges" not in answer.headers
        assert get(live, published, suffix).content == answer.content


def test_ranges(live, published, tar):
    whole, size = tar.content, len(tar.content)
    for header, expected in {
        "bytes=0-0": whole[:1],
        "bytes=0-99": whole[:100],
        "bytes=100-": whole[100:],
        "bytes=-100": whole[-100:],
        f"bytes=-{size * 2}": whole,
        f"bytes=5-{size * 9}": whole[5:],
        f"bytes={size - 1}-": whole[-1:],
    }.items():
        part = get(live, published, Range=header)
        assert part.content == expected, header
        assert part.headers["content-length"] == str(len(expected))
        if expected != whole:
            start = whole.find(expected) if header != "bytes=0-0" else 0
            assert part.status_code == 206
            assert part.headers["content-range"].endswith(f"/{size}") and start >= 0
        assert part.headers["etag"] == tar.headers["etag"]
    first = get(live, published, Range="bytes=10-19")
    assert first.headers["content-range"] == f"bytes 10-19/{size}"


def test_a_range_past_the_end_is_416(live, published, tar):
    for header in (f"bytes={len(tar.content)}-", "bytes=999999999999-", "bytes=-0"):
        answer = get(live, published, Range=header)
        assert answer.status_code == 416, header
        assert answer.headers["content-range"] == f"bytes */{len(tar.content)}"


@pytest.mark.parametrize(
    "header", ["bytes=5-2", "bytes=0-1,5-6", "lines=0-1", "bytes=-", "bytes", "bytes=a-b", ""]
)
def test_what_is_no_single_range_gets_the_whole(live, published, tar, header):
    answer = get(live, published, Range=header)
    assert answer.status_code == 200 and answer.content == tar.content


def test_a_part_is_only_of_what_the_caller_has_begun(live, published, tar):
    etag = tar.headers["etag"]
    assert get(live, published, Range="bytes=0-9", If_Range=etag).status_code == 206
    for other in ('"other"', f"W/{etag}", "Wed, 21 Oct 2026 07:28:00 GMT"):
        whole = get(live, published, Range="bytes=0-9", If_Range=other)
        assert whole.status_code == 200 and whole.content == tar.content, other


def test_a_digest_is_served_only_through_a_workspace_that_refers_to_it(live, published, crowd):
    other = live.create()
    for suffix in (".tar", ".tar.gz", ".tar.zst"):
        path = f"/workspaces/{other['id']}/artifacts/{published.digest}{suffix}"
        assert live.call("GET", path).status_code == 404
        unknown = f"{published.path}/artifacts/{'0' * 64}{suffix}"
        assert live.call("GET", unknown).status_code == 404
    outsider = crowd.tokens["outsider"]
    path = f"{published.path}/artifacts/{published.digest}.tar"
    assert live.call("GET", path, token=outsider).status_code == 404


@pytest.mark.parametrize("digest", ["0" * 63, "0" * 65, "Z" * 64, "A" * 64, "..%2f..%2fx"])
def test_an_odd_digest_is_refused(live, published, digest):
    answer = live.call("GET", f"{published.path}/artifacts/{digest}.tar")
    assert answer.status_code in (400, 404)


@pytest.mark.parametrize(
    ("header", "size", "part"),
    [
        ("bytes=0-", 10, (0, 10)),
        ("bytes=3-5", 10, (3, 3)),
        ("bytes=9-9", 10, (9, 1)),
        ("bytes=10-", 10, None),
        ("bytes=-3", 10, (7, 3)),
        ("bytes=-30", 10, (0, 10)),
        ("bytes=0-", 0, None),
        ("bytes=" + "9" * 19 + "-", 10, (0, 10)),
    ],
)
def test_how_a_range_is_read(header, size, part):
    assert artifacts._part(header, size) == part
