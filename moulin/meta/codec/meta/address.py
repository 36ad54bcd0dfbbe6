"""Addresses in storage: buckets, prefixes and objects."""

from __future__ import annotations

from urllib.parse import urlsplit

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.errors import InvalidInput
from moulin.storage import paths
from moulin.storage.store import Store

_PROVIDERS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "az": "azure", "azure": "azure", "adl": "azure"}
_PROVIDERS |= {"abfs": "azure", "abfss": "azure", "memory": "memory"}


def to_message_bucket(store: Store) -> pb.CloudBucket:
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


def to_message_prefix(store: Store, prefix: str) -> pb.CloudObjectPrefix:
    return pb.CloudObjectPrefix(bucket=to_message_bucket(store), prefix=prefix)


def to_message_key(store: Store, path: str) -> pb.CloudObjectKey:
    """The address of an object: its folder as prefix, its name as key."""
    folder, _, name = path.rpartition("/")
    return pb.CloudObjectKey(prefix=to_message_prefix(store, folder), key=name)


def from_message_key(store: Store, address: pb.CloudObjectKey) -> str:
    """The path, relative to the lake, of an object in its storage. The bucket may be left out, but not be another."""
    ours, theirs = to_message_bucket(store), address.prefix.bucket
    for name in ("provider", "bucket", "path"):
        given = getattr(theirs, name).rstrip("/") if name == "path" else getattr(theirs, name)
        if given and given != getattr(ours, name):
            raise InvalidInput(f"The object is in another {name} ({given!r}) than the lake ({getattr(ours, name)!r}).")
    if not address.key:
        raise InvalidInput("The address of an object needs a key.")
    if address.key.startswith("/"):
        raise InvalidInput(f"The key {address.key[:60]!r} of an object must not begin with '/'.")
    prefix = address.prefix.prefix.strip("/")
    return paths.checked(f"{prefix}/{address.key}" if prefix else address.key)
