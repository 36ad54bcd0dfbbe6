"""Properties about files: followed, kept for engines, or refused."""

from __future__ import annotations

import pytest

from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.model.file_settings import FileSettings, target_bytes
from moulin.table.properties import check_properties, effective


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"write.format.default": "orc"}, "takes parquet, not 'orc'"),
        ({"write.delete.format.default": "avro"}, "takes parquet or puffin"),
        ({"write.parquet.compression-codec": "lzo"}, "takes zstd, gzip, brotli, snappy, lz4, uncompressed"),
        ({"write.parquet.compression-level": "99"}, "from 0 to 22"),
        ({"write.parquet.compression-level": "12", "write.parquet.compression-codec": "gzip"}, "takes 1 to 9 for gzip"),
        ({"write.parquet.compression-level": 3, "write.parquet.compression-codec": "snappy"}, "snappy has no levels"),
        ({"write.parquet.row-group-size-bytes": "64MB"}, "takes a whole number from 1024"),
        ({"write.parquet.page-size-bytes": "0"}, "takes a whole number from 1024"),
        ({"write.parquet.page-row-limit": "-1"}, "takes a whole number from 1 "),
        ({"write.target-file-size-bytes": "0"}, "takes a whole number from 1 "),
        ({"write.parquet.compresion-codec": "zstd"}, "Did you mean 'write.parquet.compression-codec'?"),
        ({"write.target_file_size_bytes": "1000"}, "Did you mean 'write.target-file-size-bytes'?"),
        ({"write.orc.compression-codec": "zstd"}, "Files are Parquet"),
        ({"write.avro.compression-codec": "gzip"}, "Files are Parquet"),
        ({"write.delete.parquet.compression-codec": "zstd"}, "deletion vectors"),
        ({"write.metadata.compression-codec": "gzip"}, "takes none"),
        ({"write.parquet.bloom-filter-enabled.column.id": "yes"}, "takes true or false, not 'yes'"),
        ({"write.parquet.bloom-filter-fpp.column.id": "1"}, "takes a number between 0 and 1"),
        ({"write.parquet.bloom-filter-ndv.column.id": "0"}, "takes a whole number above 0"),
        ({"write.parquet.bloom-filter-max-bytes": "1 MB"}, "takes a number"),
        ({"write.parquet.bloom-filter-max-bytes": "1"}, "takes a whole number from 32"),
    ],
)
def test_what_has_no_effect_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_properties(given)
    assert told in refused.value.message


@pytest.mark.parametrize(
    "given",
    [
        {"write.format.default": "PARQUET", "write.parquet.compression-codec": "ZSTD"},  # as Trino spells them
        {"write.parquet.compression-codec": "none"},
        {"write.parquet.compression-level": "null"},
        {"write.delete.mode": "merge-on-read", "write.distribution-mode": "hash", "write.spark.fanout.enabled": "true"},
        {"write.metadata.metrics.column.id": "full", "write.metadata.delete-after-commit.enabled": "true"},
        {"write.parquet.bloom-filter-enabled.column.id": "true"},
        {"write.metadata.compression-codec": "none"},
        {"write.something.that.comes.later": "1", "owner": "me", "commit.retry.num-retries": "4"},
    ],
)
def test_what_engines_set_is_kept(given: dict[str, str]) -> None:
    assert check_properties(given) == given


def test_a_value_stored_before_it_was_refused_counts_as_not_given() -> None:
    old = {"write.parquet.compression-codec": "lzo", "write.parquet.page-size-bytes": "many"}
    assert FileSettings.of(old) == FileSettings()
    assert target_bytes({"write.target-file-size-bytes": "large"}) is None


def test_a_level_beyond_those_of_the_codec_becomes_the_nearest() -> None:
    settings = FileSettings(codec="gzip", codec_level=22)
    assert settings.compression("zstd", 1) == ("gzip", 9)
    assert FileSettings(codec="snappy", codec_level=5).compression("zstd", 1) == ("snappy", None)
    assert FileSettings(codec_level=5).compression("zstd", 1) == ("zstd", 5)
    assert FileSettings().compression("zstd", 1) == ("zstd", 1)


def test_the_target_size_is_that_of_appended_and_compacted_segments() -> None:
    both = effective(Config(), {"write.target-file-size-bytes": "1000"})
    assert (both.append_segment_bytes, both.merge_segment_bytes) == (1000, 1000)
    own = effective(Config(), {"write.target-file-size-bytes": "1000", "moulin.merge-segment-bytes": "5"})
    assert (own.append_segment_bytes, own.merge_segment_bytes) == (1000, 5)


def test_bloom_filters_are_asked_for_by_column() -> None:
    name = "write.parquet.bloom-filter-{}.column.{}"
    given = {
        name.format("enabled", "id"): "true",
        name.format("enabled", "user.name"): "TRUE",
        name.format("fpp", "user.name"): "0.1",
        name.format("ndv", "user.name"): "1000",
        name.format("enabled", "other"): "false",
        name.format("fpp", "id"): "7",  # was stored before it was refused
        "write.parquet.bloom-filter-max-bytes": "4096",
    }
    found = FileSettings.of(given).bloom
    assert [(one.column, one.fpp, one.ndv, one.most_bytes) for one in found] == [
        ("id", 0.01, None, 4096),
        ("user.name", 0.1, 1000, 4096),
    ]
    assert FileSettings.of({}).bloom == ()
