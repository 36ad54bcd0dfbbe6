"""Table properties for writing files, with Iceberg's names.

Moulin applies some of them, stores those for engines, and rejects those without effect. Names outside of `write.` are
not checked.
"""

# Decisions: docs/decisions/0239

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from moulin.errors import InvalidInput
from moulin.model.bloom_settings import BLOOM_PROPERTIES, BloomSetting, bloom_settings, check_bloom_property
from moulin.model.names import did_you_mean

TARGET_BYTES = "write.target-file-size-bytes"

_PREFIX = "write."
_FORMAT = "write.format.default"
_DELETE_FORMAT = "write.delete.format.default"
_CODEC = "write.parquet.compression-codec"
_METADATA_CODEC = "write.metadata.compression-codec"
_CODEC_LEVEL = "write.parquet.compression-level"
_GROUP_BYTES = "write.parquet.row-group-size-bytes"
_GROUP_ROWS = "write.parquet.row-group-limit"
_PAGE_BYTES = "write.parquet.page-size-bytes"
_PAGE_ROWS = "write.parquet.page-row-limit"
_DICTIONARY_BYTES = "write.parquet.dict-size-bytes"

# The levels that a codec takes; none for those that have no levels.
_CODECS: Mapping[str, tuple[int, int] | None] = MappingProxyType(
    {
        "zstd": (1, 22),
        "gzip": (1, 9),
        "brotli": (0, 11),
        "snappy": None,
        "lz4": None,
        "uncompressed": None,
    }
)
_SURELY_MEANT = 0.85  # how like a property that is followed an unknown one is, if it must be a misspelling
_LEAST, _MOST = 1 << 10, 1 << 30  # bytes of a row group, page or dictionary: a writer holds one of each in memory
_SIZES = {_GROUP_BYTES: (_LEAST, _MOST), _PAGE_BYTES: (_LEAST, _MOST), _DICTIONARY_BYTES: (_LEAST, _MOST)}
_COUNTS = {_GROUP_ROWS: (1, _MOST), _PAGE_ROWS: (1, _MOST)}

FOLLOWED = (
    _FORMAT,
    _DELETE_FORMAT,
    TARGET_BYTES,
    _CODEC,
    _CODEC_LEVEL,
    _GROUP_BYTES,
    _GROUP_ROWS,
    _PAGE_BYTES,
    _PAGE_ROWS,
    _DICTIONARY_BYTES,
    *BLOOM_PROPERTIES,
)
"""The properties that every writer follows; those with a dot at the end are followed by the name of a column."""

ENGINES = (
    "write.distribution-mode",
    "write.delete.distribution-mode",
    "write.update.distribution-mode",
    "write.merge.distribution-mode",
    "write.delete.isolation-level",
    "write.update.isolation-level",
    "write.merge.isolation-level",
    "write.delete.mode",
    "write.update.mode",
    "write.merge.mode",
    "write.delete.granularity",
    "write.delete.target-file-size-bytes",
    "write.wap.enabled",
    "write.upsert.enabled",
    "write.spark.",
    "write.flink.",
    "write.summary.partition-limit",
    "write.manifest-lists.enabled",
    "write.metadata.delete-after-commit.enabled",
    "write.metadata.previous-versions-max",
    "write.metadata.metrics.",
    "write.location-provider.",
    "write.object-storage.",
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-check-max-record-count",
    "write.parquet.stats-enabled.",
    "write.parquet.shred-variants",
    "write.parquet.variant-inference-buffer-size",
    "write.parquet.page-version",
)
"""Properties that engines read when they write and Moulin keeps for them; those with a dot at the end are prefixes."""

_NOTHING: Mapping[str, str] = MappingProxyType(
    {
        "write.parquet.": f"Those that are followed: {', '.join(name for name in FOLLOWED if '.parquet.' in name)}.",
        "write.orc.": "Files are Parquet: use the properties that begin with write.parquet.",
        "write.avro.": "Files are Parquet: use the properties that begin with write.parquet.",
        "write.delete.parquet.": "Deletes are stored as deletion vectors, which have no such setting.",
        "write.delete.orc.": "Deletes are stored as deletion vectors, which have no such setting.",
        "write.delete.avro.": "Deletes are stored as deletion vectors, which have no such setting.",
    }
)


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What a table's properties say of its files; None leaves it to the level of the segment."""

    codec: str | None = None
    codec_level: int | None = None
    row_group_bytes: int | None = None
    row_group_rows: int | None = None
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_bytes: int | None = None
    bloom: tuple[BloomSetting, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FileSettings:
        """The settings of a table. A value that is refused today, but was stored before, counts as not given."""
        codec = _known(properties, _CODEC)
        level = _known(properties, _CODEC_LEVEL)
        return cls(
            codec=None if codec is None else _codec_name(codec),
            codec_level=None if level is None else int(level),
            row_group_bytes=_number(properties, _GROUP_BYTES),
            row_group_rows=_number(properties, _GROUP_ROWS),
            page_bytes=_number(properties, _PAGE_BYTES),
            page_rows=_number(properties, _PAGE_ROWS),
            dictionary_bytes=_number(properties, _DICTIONARY_BYTES),
            bloom=bloom_settings(properties),
        )

    def compression(self, codec: str, level: int | None) -> tuple[str, int | None]:
        """The codec and its level where `codec` and `level` are what a segment would be written with otherwise.

        A level that the codec does not take becomes the nearest that it takes.
        """
        chosen = codec if self.codec is None else self.codec
        levels = _CODECS.get(chosen)
        wanted = self.codec_level if self.codec_level is not None or chosen != codec else level
        return chosen, None if levels is None or wanted is None else max(levels[0], min(wanted, levels[1]))


def target_bytes(properties: Mapping[str, str]) -> int | None:
    """How large files should become, where the table says so."""
    return _number(properties, TARGET_BYTES)


def check_file_property(name: str, text: str, others: Mapping[str, object]) -> None:
    """InvalidInput when `name` is a property of files that would have no effect, or that takes no such value.

    `others` are the properties given with it.
    """
    if not name.startswith(_PREFIX) or check_bloom_property(name, text):
        return
    if name in _CHECKS:
        _CHECKS[name](name, text)
        if name == _CODEC_LEVEL:
            _check_level(text, str(others.get(_CODEC, "zstd")))
        return
    if any(name == kept or (kept.endswith(".") and name.startswith(kept)) for kept in ENGINES):
        return
    for beginning, advice in _NOTHING.items():
        if name.startswith(beginning):
            raise _without_effect(name, did_you_mean(name, (*FOLLOWED, *ENGINES)), advice)
    if near := get_close_matches(name.lower().replace("_", "-"), FOLLOWED, n=1, cutoff=_SURELY_MEANT):
        raise _without_effect(name, f" Did you mean {near[0]!r}?", "Other names are kept for engines.")


def _without_effect(name: str, near: str, advice: str) -> InvalidInput:
    return InvalidInput(f"Property {name!r} would have no effect.{near} {advice}")


def _check_format(name: str, text: str) -> None:
    taken = ("parquet", "puffin") if name == _DELETE_FORMAT else ("parquet",)
    if text.lower() not in taken:
        raise InvalidInput(f"Property {name!r} takes {' or '.join(taken)}, not {text!r}: no other files are written.")


def _check_codec(name: str, text: str) -> None:
    if _codec_name(text) not in _CODECS:
        raise InvalidInput(f"Property {name!r} takes {', '.join(_CODECS)}, not {text!r}.")


def _check_metadata_codec(name: str, text: str) -> None:
    if text.lower() not in ("none", "uncompressed"):
        raise InvalidInput(f"Property {name!r} takes none, not {text!r}: metadata is written as plain JSON.")


def _check_level(text: str, codec: str) -> None:
    if text.lower() == "null":
        return
    known = _codec_name(codec)
    levels = _CODECS.get(known)
    if levels is None:
        raise InvalidInput(f"Property {_CODEC_LEVEL!r} would have no effect: {known} has no levels.")
    if not levels[0] <= int(text) <= levels[1]:
        raise InvalidInput(f"Property {_CODEC_LEVEL!r} takes {levels[0]} to {levels[1]} for {known}, not {text!r}.")


def _check_whole(name: str, text: str) -> None:
    if name == _CODEC_LEVEL and text.lower() == "null":
        return
    least, most = _RANGES[name]
    try:
        fits = least <= int(text) <= most
    except ValueError:
        fits = False
    if not fits:
        raise InvalidInput(f"Property {name!r} takes a whole number from {least} to {most}, not {text!r}.")


def _codec_name(text: str) -> str:
    plain = text.lower().replace("-", "_")
    return {"none": "uncompressed", "lz4_raw": "lz4"}.get(plain, plain)


def _known(properties: Mapping[str, str], name: str) -> str | None:
    """The value of a property that is followed; None for one that is not there, says nothing, or is refused today."""
    text = properties.get(name)
    if text is None or text.lower() == "null":
        return None
    try:
        _CHECKS[name](name, text)
    except InvalidInput:
        return None
    return text


def _number(properties: Mapping[str, str], name: str) -> int | None:
    text = _known(properties, name)
    return None if text is None else int(text)


_RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {**_SIZES, **_COUNTS, _CODEC_LEVEL: (0, 22), TARGET_BYTES: (1, 1 << 40)}
)
_CHECKS: Mapping[str, Callable[[str, str], None]] = MappingProxyType(
    {
        _FORMAT: _check_format,
        _DELETE_FORMAT: _check_format,
        _CODEC: _check_codec,
        _METADATA_CODEC: _check_metadata_codec,
        **dict.fromkeys(_RANGES, _check_whole),
    }
)


__all__ = ["ENGINES", "FOLLOWED", "TARGET_BYTES", "FileSettings", "check_file_property", "target_bytes"]
