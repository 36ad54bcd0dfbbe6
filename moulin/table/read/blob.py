"""Blobs: a value of a binary column as a lazily read file.

The row is located first. The first read reads the page of the column with the value, and nothing of other
columns and rows; segments store large values in separate pages. Until the blob is closed its
version is pinned, so that clean-up keeps the file.
"""

# Decisions: docs/decisions/0453

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.names import did_you_mean
from moulin.model.schema.values import BinaryType, FixedType
from moulin.table.context import Context
from moulin.table.pins import Hold
from moulin.table.read.footers import open_reader

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Blob(io.RawIOBase):
    """A value as a read-only file. Not thread-safe, like other files. `Table.blob` opens it."""

    def __init__(self, name: str, load: Callable[[], bytes | None], hold: Hold | None = None) -> None:
        self.name = name
        self._load, self._hold = load, hold
        self._value: bytes | None = None
        self._loaded = False
        self._at = 0

    @property
    def is_null(self) -> bool:
        """Whether the value is null. It then reads as an empty file.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> photos.put({"id": 2})
        >>> with photos.blob(2, "image") as image:
        ...     image.is_null
        True
        """
        return self._loaded_value() is None

    @property
    def size(self) -> int:
        """The size of the value in bytes.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.size
        9
        """
        return len(self._loaded_value() or b"")

    def readable(self) -> bool:
        """Always true.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.readable()
        True
        """
        return True

    def seekable(self) -> bool:
        """Always true.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.seekable()
        True
        """
        return True

    def tell(self) -> int:
        """The position of the next read.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.read(3), image.tell()
        (b'GIF', 3)
        """
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, like `io.IOBase.seek`, and return it.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> with photos.blob(1, "image") as image:
        ...     image.seek(3), image.read(3)
        (3, b'89a')
        """
        self._check_open()
        if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        at = offset + (self.size if start is None else start)
        if at < 0:
            raise ValueError(f"a file has no position {at}")
        self._at = at
        return at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill `buffer`, or less at the end, and return the number of bytes.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> buffer = bytearray(3)
        >>> with photos.blob(1, "image") as image:
        ...     image.readinto(buffer), bytes(buffer)
        (3, b'GIF')
        """
        self._check_open()
        view = memoryview(buffer).cast("B")
        part = (self._loaded_value() or b"")[self._at : self._at + len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)

    def close(self) -> None:
        """Close the file and release its version.

        >>> photos = lake.create_table("shop.photos", [("id", "long", False), ("image", "binary")], primary_key=["id"])
        >>> photos.put({"id": 1, "image": b"GIF89a..."})
        >>> image = photos.blob(1, "image")
        >>> image.close()
        >>> image.closed
        True
        """
        if self._hold is not None:
            self._hold.release()
            self._hold = None
        self._value = None
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def _loaded_value(self) -> bytes | None:
        self._check_open()
        if not self._loaded:
            if self._hold is not None:
                self._hold.check()
            self._value, self._loaded = self._load(), True
        return self._value


def check_blob_column(state: TableState, column: str) -> None:
    """Reject an unknown column, or one that is not binary."""
    names = [field.name for field in state.schema.fields]
    if column not in names:
        raise InvalidInput(f"Table {state.full_name} has no column {column!r}.{did_you_mean(str(column), names)}")
    kind = next(field.field_type for field in state.schema.fields if field.name == column)
    if not isinstance(kind, BinaryType | FixedType):
        raise InvalidInput(f"Column {column} is of type {kind}: blobs are values of binary columns. Read it with get.")


def stored_blob(context: Context, state: TableState, segment: LiveSegment, position: int, column: str) -> Blob:
    """The value at a position of a segment that is live at the version of `state`."""
    hold = context.pins.hold(state.id, state.version)

    def load() -> bytes | None:
        with open_reader(context.store, segment.facts, state.schema, columns=[column]) as reader:
            found = reader.table(positions=np.asarray([position]), by_pages=True)
        value: bytes | None = found.column(column)[0].as_py()
        return value

    return Blob(f"{state.full_name}.{column}", load, hold)


__all__ = ["Blob", "check_blob_column", "stored_blob"]
