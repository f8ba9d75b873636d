"""Both kinds of store: a folder, and a real S3 API (moto's server)."""

from __future__ import annotations

import asyncio
import os

import pytest

from gitsync.artifacts import Bucket, ObjectMissing
from gitsync.errors import ConfigError
from tests.s3 import s3_server


@pytest.fixture(scope="module")
def s3():
    with s3_server() as url:
        yield url


@pytest.fixture(params=["folder", "s3"])
def bucket(request, tmp_path):
    if request.param == "folder":
        return Bucket(str(tmp_path / "store"))
    return Bucket(
        "s3://gitsync-test/prefix",
        endpoint=request.getfixturevalue("s3"),
        access_key_id="a",
        secret_access_key="b",
    )


def put(bucket, tmp_path, key, data):
    path = tmp_path / "staged"
    path.write_bytes(data)
    bucket.put_file(key, path)


def test_what_is_put_can_be_read_whole_and_in_parts(bucket, tmp_path):
    data = os.urandom(700_000)
    put(bucket, tmp_path, "artifacts/ab/x.tar", data)
    assert bucket.size("artifacts/ab/x.tar") == len(data)
    assert b"".join(bucket.pieces("artifacts/ab/x.tar")) == data
    assert b"".join(bucket.pieces("artifacts/ab/x.tar", start=5, length=10)) == data[5:15]
    assert b"".join(bucket.pieces("artifacts/ab/x.tar", start=699_990)) == data[-10:]

    async def read():
        return b"".join([p async for p in bucket.apieces("artifacts/ab/x.tar", start=1)])

    assert asyncio.run(read()) == data[1:]


def test_a_second_put_replaces_what_a_crash_may_have_left_short(bucket, tmp_path):
    put(bucket, tmp_path, "k/x", b"short")
    put(bucket, tmp_path, "k/x", b"the whole")
    assert b"".join(bucket.pieces("k/x")) == b"the whole"


def test_a_missing_object_is_named(bucket):
    assert bucket.size("nothing/here") is None
    with pytest.raises(ObjectMissing, match="nothing/here"):
        list(bucket.pieces("nothing/here"))


def test_deleting_twice_is_fine(bucket, tmp_path):
    put(bucket, tmp_path, "k/y", b"1")
    bucket.delete("k/y")
    bucket.delete("k/y")
    assert bucket.size("k/y") is None


def test_leftovers_of_a_killed_put_are_swept(tmp_path):
    bucket = Bucket(str(tmp_path / "store"))
    (tmp_path / "store/artifacts").mkdir()
    (tmp_path / "store/artifacts/x.tar#1").write_bytes(b"half")
    assert bucket.sweep_leftovers() == 1
    assert list((tmp_path / "store").rglob("*#*")) == []


def test_an_unknown_kind_of_store_is_a_named_setting():
    with pytest.raises(ConfigError, match="GITSYNC_ARTIFACT_STORE"):
        Bucket("ftp://x/y")
