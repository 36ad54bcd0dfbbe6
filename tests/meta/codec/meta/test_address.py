"""Addresses in storage, as messages carry them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.errors import InvalidInput
from moulin.meta.codec.meta.address import from_message_key, to_message_bucket, to_message_key
from moulin.storage.store import open_store
from tests.meta.rules import rule

S3 = {"endpoint": "http://127.0.0.1:1", "region": "eu-north-1", "access_key_id": "open", "secret_access_key": "sesame"}


@rule("SG-01")
def test_a_bucket_says_where_objects_are_and_holds_no_secret(tmp_path: Path) -> None:
    folder = to_message_bucket(open_store(tmp_path))
    assert (folder.provider, folder.path, folder.bucket) == ("file", str(tmp_path), "")
    s3 = to_message_bucket(open_store("s3://bucket/base/path", S3))
    assert s3 == pb.CloudBucket(
        provider="s3", bucket="bucket", path="base/path", endpoint="http://127.0.0.1:1", region="eu-north-1"
    )
    assert "sesame" not in str(s3)
    assert to_message_bucket(open_store("s3://bucket", S3)).path == ""
    assert to_message_bucket(open_store("gs://bucket/x", {"skip_signature": "true"})).provider == "gcs"
    assert to_message_bucket(open_store("memory://x")).provider == "memory"


@rule("SG-02")
def test_an_address_leads_back_to_its_path(tmp_path: Path) -> None:
    for store in (open_store(tmp_path), open_store("s3://bucket/base", S3)):
        key = to_message_key(store, "tables/t/data/f.parquet")
        assert (key.prefix.prefix, key.key) == ("tables/t/data", "f.parquet")
        assert from_message_key(store, key) == "tables/t/data/f.parquet"
        for prefix, name in (("tables/t/", "a"), ("/tables/t", "a"), ("tables", "t/a")):
            address = pb.CloudObjectKey(prefix=pb.CloudObjectPrefix(prefix=prefix), key=name)
            assert from_message_key(store, address) == "tables/t/a"
        for prefix, name in (("a", ""), ("a", "/b"), ("a", "../b"), ("a/..", "b"), ("a//b", "c"), ("a", "b\\c")):
            with pytest.raises(InvalidInput):
                from_message_key(store, pb.CloudObjectKey(prefix=pb.CloudObjectPrefix(prefix=prefix), key=name))
        other = pb.CloudObjectPrefix(bucket=pb.CloudBucket(path="elsewhere"), prefix="a")
        with pytest.raises(InvalidInput, match="another path"):
            from_message_key(store, pb.CloudObjectKey(prefix=other, key="b"))
