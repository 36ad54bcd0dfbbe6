"""Opens the store at a path or URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from moulin.errors import InvalidInput
from moulin.storage.interface import ObjectInfo, Store
from moulin.storage.local import open_folder

REMOTE_SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")


def open_store(uri: str | Path, options: Mapping[str, str] | None = None, *, create: bool = True) -> Store:
    """The store at a path or at a file://, s3://, gs://, az://, abfs:// or memory:// (for tests) URI.

    A missing folder is made when `create` says so, else it is NotFound. A bucket must exist; nothing is asked of it
    before first use. `options` are obstore's for the kind of store and for its HTTP client; they may hold secrets, the
    URI may not.
    """
    text = os.fspath(uri)
    if not text or "\0" in text:
        raise InvalidInput("The storage path is empty or contains a zero byte: use a folder or a URI.")
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text) if isinstance(uri, str) else None
    scheme = match[1].lower() if match else ""
    if scheme in REMOTE_SCHEMES:
        from moulin.storage.remote import open_remote

        return open_remote(text, options or {})
    if options:
        raise InvalidInput(f"Only object stores have storage options, but got {', '.join(map(str, options))}.")
    if scheme == "memory":
        from moulin.storage.remote import open_memory

        return open_memory(text)
    if scheme in ("", "file"):
        return open_folder(_folder(text) if scheme else text, create=create)
    raise InvalidInput(f"Unknown scheme {scheme}://: use a folder, file://, s3://, gs://, az:// or abfs://.")


def _folder(uri: str) -> str:
    match = re.fullmatch(r"(?i:file):(?://(?:localhost)?)?(/(?!/)[^?#]*)", uri)
    if match is None:
        raise InvalidInput(
            "A file URI must look like file:///folder, without a host, and with '?' and '#' written as %3F and %23."
        )
    return unquote(match[1])


__all__ = ["REMOTE_SCHEMES", "ObjectInfo", "Store", "open_store"]
