"""Puffin files of deletion vectors. Layout: docs/formats/puffin.md.

A file holds deletion vectors, one for each data file, and a JSON footer that says what they are. Moulin finds a blob by
the offset and length in its catalog; the footer is there for Iceberg readers and for checks.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyroaring import AbstractBitMap64, BitMap64

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import deletion_vector

MAGIC = b"PFA1"
DELETION_VECTOR = "deletion-vector-v1"
ROW_POSITION_FIELD_ID = 2147483645
"""Iceberg's reserved id of the row position, which a deletion vector is computed for."""

_REFERENCED = "referenced-data-file"
_CARDINALITY = "cardinality"
_TAIL = struct.Struct("<i4s4s")
_SMALLEST = 2 * len(MAGIC) + _TAIL.size


@dataclass(frozen=True, slots=True)
class DeletionVectorBlob:
    """A deletion vector and the location of the data file it applies to, as table metadata spells it."""

    referenced_data_file: str
    positions: AbstractBitMap64


@dataclass(frozen=True, slots=True)
class BlobExtent:
    """Where a written blob lies in its file, and how many positions it marks."""

    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob of any type, as the footer describes it."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PuffinFooter:
    blobs: tuple[BlobMetadata, ...]
    properties: Mapping[str, str]


def write_puffin(blobs: Sequence[DeletionVectorBlob], *, created_by: str = "Moulin") -> tuple[bytes, list[BlobExtent]]:
    """A Puffin file of these vectors and the extent of each, in the order given.

    Raises InvalidInput for a vector that marks nothing and for two vectors of one data file.
    """
    parts, extents, entries, seen = [MAGIC], list[BlobExtent](), list[dict[str, Any]](), set[str]()
    offset = len(MAGIC)
    for blob in blobs:
        if not blob.positions:
            raise InvalidInput(f"The deletion vector of {blob.referenced_data_file} marks no position: leave it out.")
        if blob.referenced_data_file in seen:
            raise InvalidInput(f"{blob.referenced_data_file} has two deletion vectors: a data file has at most one.")
        seen.add(blob.referenced_data_file)
        payload = deletion_vector.encode(blob.positions)
        extent = BlobExtent(offset, len(payload), len(blob.positions))
        parts.append(payload)
        extents.append(extent)
        entries.append(_footer_entry(blob.referenced_data_file, extent))
        offset += len(payload)
    footer = {"blobs": entries, "properties": {"created-by": created_by}}
    try:
        payload = json.dumps(footer, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"A data file location of the Puffin file is not valid Unicode ({error}).") from error
    parts += [MAGIC, payload, _TAIL.pack(len(payload), bytes(4), MAGIC)]
    return b"".join(parts), extents


def read_puffin_footer(data: bytes, *, source: str = "The Puffin file") -> PuffinFooter:
    """The footer of a whole file; every blob lies between the first magic and the footer.

    Raises Corrupt when the framing or the JSON is damaged, Unsupported for a compressed footer or an unknown flag.
    """
    if len(data) < _SMALLEST:
        raise _damaged(source, f"it has {len(data)} bytes, and no Puffin file has less than {_SMALLEST}")
    size, flags, last = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    begin = len(data) - _TAIL.size - size
    if data[:4] != MAGIC or last != MAGIC:
        raise _damaged(
            source, f"it starts with {data[:4].hex()} and ends with {last.hex()}; both must be {MAGIC.hex()}"
        )
    if size < 0 or begin < 2 * len(MAGIC):
        raise _damaged(source, f"a footer of {size} bytes does not fit into {len(data)} bytes")
    if data[begin - 4 : begin] != MAGIC:
        raise _damaged(source, f"the footer at offset {begin - 4} does not start with {MAGIC.hex()}")
    if flags != bytes(4):
        raise Unsupported(
            f"{source} has the footer flags {flags.hex()}: compressed footers are not read by this version."
        )
    try:
        footer = json.loads(data[begin : begin + size].decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(source, f"the footer at offset {begin} is not JSON ({error})") from error
    document = _Object(footer, f"the footer at offset {begin}", source)
    blobs = tuple(_blob(entry, i, begin - 4, source) for i, entry in enumerate(document.array("blobs")))
    return PuffinFooter(blobs, document.strings("properties"))


def data_files(footer: PuffinFooter) -> dict[int, str]:
    """The location of the data file of the deletion vector at each offset."""
    vectors = (blob for blob in footer.blobs if blob.type == DELETION_VECTOR)
    return {blob.offset: blob.properties[_REFERENCED] for blob in vectors if _REFERENCED in blob.properties}


def read_blob(
    data: bytes, offset: int, length: int, *, rows: int | None = None, source: str = "The Puffin file"
) -> BitMap64:
    """The deletion vector at an extent of a whole file. Raises Corrupt when the extent or the vector is damaged."""
    if offset < len(MAGIC) or length < 0 or offset + length > len(data):
        raise _damaged(source, f"its {len(data)} bytes do not hold a blob of {length} bytes at offset {offset}")
    blob = data[offset : offset + length]
    return deletion_vector.decode(blob, rows=rows, source=f"{source} (deletion vector at offset {offset})")


def read_deletion_vectors(
    data: bytes, *, source: str = "The Puffin file"
) -> list[tuple[DeletionVectorBlob, BlobExtent]]:
    """Every deletion vector of a whole file by its footer, each checked against the cardinality stated there."""
    found = []
    for blob in read_puffin_footer(data, source=source).blobs:
        if blob.type != DELETION_VECTOR:
            continue
        if blob.compression_codec is not None:
            raise _damaged(source, f"the deletion vector at offset {blob.offset} claims to be compressed")
        positions = read_blob(data, blob.offset, blob.length, source=source)
        name, cardinality = blob.properties.get(_REFERENCED), blob.properties.get(_CARDINALITY)
        if name is None or cardinality != str(len(positions)):
            stated = f"data file {name!r} and cardinality {cardinality!r}"
            raise _damaged(
                source, f"the blob at offset {blob.offset} marks {len(positions)} rows; the footer says {stated}"
            )
        extent = BlobExtent(blob.offset, blob.length, len(positions))
        found.append((DeletionVectorBlob(name, positions), extent))
    return found


def _footer_entry(referenced_data_file: str, extent: BlobExtent) -> dict[str, Any]:
    return {
        "type": DELETION_VECTOR,
        "fields": [ROW_POSITION_FIELD_ID],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": extent.offset,
        "length": extent.length,
        "properties": {_REFERENCED: referenced_data_file, _CARDINALITY: str(extent.cardinality)},
    }


def _blob(entry: object, number: int, end: int, source: str) -> BlobMetadata:
    values = _Object(entry, f"blob {number} of the footer", source)
    offset, length = values.integer("offset"), values.integer("length")
    if offset < len(MAGIC) or length < 0 or offset + length > end:
        raise _damaged(
            source, f"blob {number} of {length} bytes at offset {offset} does not lie before the footer at {end}"
        )
    return BlobMetadata(
        type=values.string("type"),
        fields=tuple(values.integers("fields")),
        snapshot_id=values.integer("snapshot-id"),
        sequence_number=values.integer("sequence-number"),
        offset=offset,
        length=length,
        compression_codec=values.string("compression-codec") if "compression-codec" in values.members else None,
        properties=values.strings("properties"),
    )


class _Object:
    """A JSON object that gives out its members by type, or says which one is not what it should be."""

    def __init__(self, value: object, path: str, source: str) -> None:
        self._path, self._source = path, source
        if not isinstance(value, dict):
            raise _damaged(source, f"{path} is not a JSON object")
        self.members: dict[str, object] = value

    def integer(self, name: str) -> int:
        value = self.members.get(name)
        return value if type(value) is int else self._refuse(name, "an integer")

    def string(self, name: str) -> str:
        value = self.members.get(name)
        return value if isinstance(value, str) else self._refuse(name, "a string")

    def array(self, name: str) -> list[object]:
        value = self.members.get(name)
        return value if isinstance(value, list) else self._refuse(name, "an array")

    def integers(self, name: str) -> list[int]:
        values = [value for value in self.array(name) if type(value) is int]
        return values if len(values) == len(self.array(name)) else self._refuse(name, "an array of integers")

    def strings(self, name: str) -> dict[str, str]:
        values = self.members.get(name, {})
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            self._refuse(name, "an object of strings")
        return values

    def _refuse(self, name: str, wanted: str) -> NoReturn:
        raise _damaged(self._source, f"{self._path} has no {name!r} that is {wanted}")


def _damaged(source: str, what: str) -> Corrupt:
    return Corrupt(f"{source} is damaged: {what}. Restore the file from a copy; `moulin check` lists damaged files.")
