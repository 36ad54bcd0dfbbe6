"""Ids, times and places as messages carry them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.errors import InvalidInput
from moulin.meta.codec.convert import from_key, to_bucket, to_id, to_key, to_rfc3339
from moulin.storage.store import open_store
from tests.meta.rules import rule

S3 = {"endpoint": "http://127.0.0.1:1", "region": "eu-north-1", "access_key_id": "open", "secret_access_key": "sesame"}


@rule("SG-01")
def test_buckets(tmp_path: Path) -> None:
    folder = to_bucket(open_store(tmp_path))
    assert (folder.provider, folder.path, folder.bucket) == ("file", str(tmp_path), "")
    s3 = to_bucket(open_store("s3://bucket/base/path", S3))
    assert s3 == pb.CloudBucket(
        provider="s3", bucket="bucket", path="base/path", endpoint="http://127.0.0.1:1", region="eu-north-1"
    )
    assert "sesame" not in str(s3)
    assert to_bucket(open_store("s3://bucket", S3)).path == ""
    assert to_bucket(open_store("gs://bucket/x", {"skip_signature": "true"})).provider == "gcs"
    assert to_bucket(open_store("memory://x")).provider == "memory"


@rule("SG-02")
def test_an_address_leads_back_to_its_path(tmp_path: Path) -> None:
    for store in (open_store(tmp_path), open_store("s3://bucket/base", S3)):
        key = to_key(store, "tables/t/data/f.parquet")
        assert (key.prefix.prefix, key.key) == ("tables/t/data", "f.parquet")
        assert from_key(store, key) == "tables/t/data/f.parquet"
        for prefix, name in (("tables/t/", "a"), ("/tables/t", "a"), ("tables", "t/a")):
            address = pb.CloudObjectKey(prefix=pb.CloudObjectPrefix(prefix=prefix), key=name)
            assert from_key(store, address) == "tables/t/a"
        for prefix, name in (("a", ""), ("a", "/b"), ("a", "../b"), ("a/..", "b"), ("a//b", "c"), ("a", "b\\c")):
            with pytest.raises(InvalidInput):
                from_key(store, pb.CloudObjectKey(prefix=pb.CloudObjectPrefix(prefix=prefix), key=name))
        other = pb.CloudObjectPrefix(bucket=pb.CloudBucket(path="elsewhere"), prefix="a")
        with pytest.raises(InvalidInput, match="another path"):
            from_key(store, pb.CloudObjectKey(prefix=other, key="b"))


@rule("GEN-12")
@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_times_as_text(nanos: int, text: str) -> None:
    assert to_rfc3339(nanos) == text


def test_ids_have_one_form() -> None:
    text = "019ae8e5-f2aa-79c2-8000-0123456789ab"
    assert str(to_id(text.upper(), "id")) == text
    for bad in ("", text[:-1], f"{{{text}}}", f"urn:uuid:{text}", text.replace("-", ""), text + "\n"):
        with pytest.raises(InvalidInput):
            to_id(bad, "id")
