"""Messages <-> values that several services share: ids, times, tombstones, places in storage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.errors import InvalidInput
from moulin.model.entities import Tombstone
from moulin.storage import paths
from moulin.storage.store import Store

MAX_INT64 = (1 << 63) - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PROVIDERS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "az": "azure", "azure": "azure", "adl": "azure"}
_PROVIDERS |= {"abfs": "azure", "abfss": "azure", "memory": "memory"}


def to_id(text: str, what: str) -> UUID:
    """The id in a request; InvalidInput names the field that lacks one or holds something else."""
    if not text:
        raise InvalidInput(f"{what} is required.")
    if not _UUID.fullmatch(text):
        raise InvalidInput(f"{what} {text[:60]!r} is not a UUID.")
    return UUID(text)


def to_ids(texts: Sequence[str], what: str) -> list[UUID]:
    return [to_id(text, what) for text in texts]


def to_tombstone(tombstone: Tombstone | None) -> pb.Tombstone | None:
    if tombstone is None:
        return None
    return pb.Tombstone(tombstoned_at_unix_ns=tombstone.tombstoned_at, delete_at_unix_ns=tombstone.delete_at)


def to_rfc3339(unix_ns: int) -> str:
    """A moment as text, in UTC, to the microsecond."""
    moment = datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).replace(microsecond=unix_ns // 1000 % 1_000_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def to_bucket(store: Store) -> pb.CloudBucket:
    """Where a lake's objects are. A folder is provider `file` with the folder as its path."""
    root = store.local_path(paths.marker())
    if root is not None:
        return pb.CloudBucket(provider="file", path=str(root.parent))
    parts = urlsplit(store.uri)
    endpoint, region = store.service
    return pb.CloudBucket(
        provider=_PROVIDERS.get(parts.scheme, parts.scheme),
        bucket=parts.netloc,
        path=parts.path.strip("/"),
        endpoint=endpoint,
        region=region,
    )


def to_prefix(store: Store, prefix: str) -> pb.CloudObjectPrefix:
    return pb.CloudObjectPrefix(bucket=to_bucket(store), prefix=prefix)


def to_key(store: Store, path: str) -> pb.CloudObjectKey:
    """The address of an object: its folder as prefix, its name as key."""
    folder, _, name = path.rpartition("/")
    return pb.CloudObjectKey(prefix=to_prefix(store, folder), key=name)


def from_key(store: Store, address: pb.CloudObjectKey) -> str:
    """The path, relative to the lake, of an object in its storage. The bucket may be left out, but not be another."""
    ours, theirs = to_bucket(store), address.prefix.bucket
    for name in ("provider", "bucket", "path"):
        given = getattr(theirs, name).rstrip("/") if name == "path" else getattr(theirs, name)
        if given and given != getattr(ours, name):
            raise InvalidInput(
                f"The object lies in another {name} ({given!r}) than the lake ({getattr(ours, name)!r})."
            )
    if not address.key:
        raise InvalidInput("The address of an object needs a key.")
    if address.key.startswith("/"):
        raise InvalidInput(f"The key {address.key[:60]!r} of an object must not begin with '/'.")
    prefix = address.prefix.prefix.strip("/")
    return paths.checked(f"{prefix}/{address.key}" if prefix else address.key)


def check_range(given: pb.TimeRange, what: str) -> tuple[int, int]:
    """Start and end in Unix nanoseconds, both included."""
    if given.start_time > given.end_time:
        raise InvalidInput(f"The {what} starts at {given.start_time}, after its end {given.end_time}.")
    return given.start_time, given.end_time
