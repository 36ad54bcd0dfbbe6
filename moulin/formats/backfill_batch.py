"""The files of a source that one batch of a backfill loaded. See docs/formats/backfill_batch.md."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from moulin.errors import Corrupt, Unsupported

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file by its path below the source's folder. `etag` changes whenever its bytes do."""

    path: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class BackfillBatch:
    """Batch `number`, from 0 on, of the source of this name."""

    source: str
    number: int
    files: tuple[LoadedFile, ...]


def source_key(source: str) -> str:
    """What stands for the name of a source in paths and request ids: 32 hex digits of its SHA-256."""
    return hashlib.sha256(source.encode()).hexdigest()[:32]


def digest(data: bytes) -> bytes:
    """The SHA-256 that a batch is named by and committed under."""
    return hashlib.sha256(data).digest()


def encode(batch: BackfillBatch) -> bytes:
    """The same bytes for the same batch, always."""
    files = [[file.path, file.size, file.etag] for file in batch.files]
    value = {"format": FORMAT, "source": batch.source, "batch": batch.number, "files": files}
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def decode(data: bytes, expected: bytes, *, name: str) -> BackfillBatch:
    """The batch with the digest `expected`; `name` is what errors call it."""
    if digest(data) != expected:
        raise Corrupt(f"{name} is damaged: its SHA-256 differs. Restore it.")
    value = json.loads(data)
    if value["format"] != FORMAT:
        raise Unsupported(f"{name} has format {value['format']}; this version knows format {FORMAT}. Upgrade.")
    files = tuple(LoadedFile(path, size, etag) for path, size, etag in value["files"])
    return BackfillBatch(value["source"], value["batch"], files)
