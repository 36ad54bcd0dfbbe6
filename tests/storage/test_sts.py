"""Session policies and signed calls of the security token service."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from moulin.errors import InvalidInput, Unavailable
from moulin.storage.store import open_store
from moulin.storage.sts import Grant, Sts, signed
from tests.storage.policies import allows

ROLE = "arn:aws:iam::123456789012:role/engines"
KEYS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "hush-hush", "region": "eu-west-1"}
OWN = "tables/orders"
GRANT = Grant((OWN,), (f"{OWN}/data", f"{OWN}/metadata"), ((f"{OWN}/data", "_moulin_segment=*"),))


def sts(uri: str = "s3://bucket/lake", **options: str) -> Sts:
    return Sts(uri, {**KEYS, "sts_role_arn": ROLE, **options})


def test_a_folder_gives_nothing_of_one_whose_name_begins_like_it() -> None:
    policy = sts().policy(GRANT)
    assert allows(policy, "s3:GetObject", "bucket", f"lake/{OWN}/data/x.parquet")
    for other in ("lake/tables/orders2/data/x", "lake/tables/orders", "lake/tables/order", "lake2/tables/orders/x", ""):
        assert not allows(policy, "s3:GetObject", "bucket", other)
    assert not allows(policy, "s3:GetObject", "bucket2", f"lake/{OWN}/data/x")


def test_who_reads_writes_nothing_and_who_writes_replaces_nothing_of_the_lake() -> None:
    reader, writer = sts().policy(Grant((OWN,))), sts().policy(GRANT)
    new, own = f"lake/{OWN}/data/new.parquet", f"lake/{OWN}/data/_moulin_segment=1/x.parquet"
    assert not allows(reader, "s3:PutObject", "bucket", new)
    assert allows(writer, "s3:PutObject", "bucket", new)
    assert allows(writer, "s3:GetObject", "bucket", own)
    for key in (own, f"lake/{OWN}/manifests/1.full", "lake/moulin.json", f"lake/{OWN}/data"):
        assert not allows(writer, "s3:PutObject", "bucket", key)
    for action in ("s3:DeleteObject", "s3:ListBucket", "s3:PutBucketPolicy", "s3:GetObjectAcl"):
        assert not allows(writer, action, "bucket", new)


@pytest.mark.parametrize("prefix", ["a*b", "a?b", "a${aws:username}b", "*", "$"])
def test_what_means_something_in_a_policy_is_a_plain_letter_in_names(prefix: str) -> None:
    policy = sts(f"s3://bucket/{prefix}".replace("?", "%3F")).policy(Grant((f"{prefix}/orders",)))
    kept = prefix.replace("?", "%3F")
    assert allows(policy, "s3:GetObject", "bucket", f"{kept}/{prefix}/orders/x")
    for other in ("axb", "ab", "a/b", "x", ""):
        assert not allows(policy, "s3:GetObject", "bucket", f"{kept}/{other}/orders/x")


def test_calls_are_signed_as_amazon_wants() -> None:
    """The referee is botocore."""
    at = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
    for token in ("", "a/session+token="):
        body = b"Action=AssumeRole&Policy=%7B%7D"
        address = "https://sts.eu-west-1.amazonaws.com"
        ours = signed(address, body, "eu-west-1", ("AKIDEXAMPLE", "hush-hush", token), at)
        asked = AWSRequest("POST", f"{address}/", {"content-type": ours["content-type"]}, body)
        auth = SigV4Auth(BotoCredentials("AKIDEXAMPLE", "hush-hush", token or None), "sts", "eu-west-1")
        asked.context["timestamp"] = ours["x-amz-date"]
        asked.headers["X-Amz-Date"] = ours["x-amz-date"]
        if token:
            asked.headers["X-Amz-Security-Token"] = token
        canonical = auth.canonical_request(asked)
        signature = auth.signature(auth.string_to_sign(asked, canonical), asked)
        assert ours["authorization"].endswith(f"Signature={signature}")


def test_a_service_that_refuses_or_is_gone_is_unavailable_and_nothing_is_quoted() -> None:
    with pytest.raises(Unavailable) as refused:
        sts(sts_endpoint="http://127.0.0.1:1/").lend(GRANT, "ci")
    text = f"{refused.value} {refused.value.__cause__} {sts()!r} {sts().__dict__ and ''}"
    assert all(secret not in text for secret in (*KEYS.values(), "lake/tables"))


def test_more_folders_than_a_policy_holds_are_refused() -> None:
    with pytest.raises(Unavailable, match="compact"):
        sts().policy(Grant(tuple(f"tables/{n:036}" for n in range(40))))


@pytest.mark.parametrize(
    "options",
    [
        {"sts_endpoint": "http://127.0.0.1:1"},
        {"sts_role_arn": ""},
        {"sts_role_arn": ROLE, "sts_seconds": "60"},
        {"sts_role_arn": ROLE, "sts_seconds": "x"},
        {"sts_role_arn": ROLE, "sts_endpoint": "file:///etc/passwd"},
    ],
)
def test_options_that_are_wrong_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        open_store("s3://bucket/lake", {**KEYS, **options})


def test_only_s3_lends(tmp_path: Any) -> None:
    assert open_store("s3://bucket/lake", KEYS).sts is None
    store = open_store("s3://bucket/lake", {**KEYS, "sts_role_arn": ROLE, "sts_endpoint": "http://127.0.0.1:1"})
    assert store.sts is not None
    assert store.service == ("", "eu-west-1")
    with pytest.raises(InvalidInput, match="Only S3"):
        open_store("gs://bucket/lake", {"sts_role_arn": ROLE})


def test_a_policy_is_json_of_the_newest_version() -> None:
    assert json.loads(sts().policy(GRANT))["Version"] == "2012-10-17", "older ones know no escapes"
