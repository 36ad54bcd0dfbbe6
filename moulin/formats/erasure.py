"""Erasures in manifests: rewrites a manifest of an older version as if the erased rows had never existed.

An erasure keeps the numbers and row counts of segments, so every manifest stays valid when its facts are replaced. One
function does that for all manifests: in storage, in the outbox, in a mirror, and in a recovery that reads old ones. It
is idempotent.
"""

# Decisions: docs/decisions/0441

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.facts import SegmentFacts, VectorFacts

WHERE = "where"
"""The key of a commit's summary that holds a condition."""


PARTITIONS = "iceberg.partitions."
"""How keys of a commit's summary begin with which an engine named partitions."""


class Scrubber:
    """One erasure, ready to be applied to manifests."""

    def __init__(self, erasure: pb.Erasure) -> None:
        self.version = erasure.version
        self.tables = frozenset(erasure.tables)
        self._segments = {ref.number: ref for ref in erasure.segments}
        self._vectors = {(one.segment, one.before): one for one in erasure.vectors}
        self._columns = {one.before: one.after for one in erasure.column_files}
        self._removed = frozenset(erasure.removed)
        self._deleted = frozenset(erasure.deleted)
        self._regions = {(one.table, one.number): one.value for one in erasure.regions}

    def scrub(
        self, manifest: pb.Manifest, forgotten: Collection[int] = (), forgotten_files: Collection[str] = ()
    ) -> bool:
        """Take the erased rows out of a manifest of a table; whether that changed it.

        Of segments and column files that are `forgotten`, which no kept version has, all bounds and partitions go.
        """
        if manifest.version >= self.version or not manifest.table_uuid:
            return False
        table = UUID(manifest.table_uuid).bytes
        if table not in self.tables:
            return False
        before: bytes = manifest.SerializeToString(deterministic=True)
        _keep(manifest.data_files, [ref for ref in manifest.data_files if ref.number not in self._removed])
        _keep(manifest.masks, [mask for mask in manifest.masks if mask.segment not in self._removed])
        _keep(manifest.index_files, [file for file in manifest.index_files if file.path not in self._deleted])
        for ref in manifest.data_files:
            if (new := self._segments.get(ref.number)) is not None:
                self._replace(ref, new)
            elif ref.number in forgotten:
                _blank(ref)
            for file in ref.column_files:
                if (other := self._columns.get(file.path)) is not None:
                    file.CopyFrom(other)
                elif file.path in forgotten_files:
                    _blank_columns(file.columns)
        for region in manifest.regions:
            region.value = self._regions.get((table, region.number), region.value)
        for commit in manifest.commits:
            commit.summary_json = json.dumps(clean_summary(json.loads(commit.summary_json)), sort_keys=True)
        return bool(manifest.SerializeToString(deterministic=True) != before)

    def _replace(self, ref: pb.DataFileRef, new: pb.DataFileRef) -> None:
        ref.path = new.path
        if ref.added_version:  # it describes the segment, and does not just name it
            ref.file_size, ref.sha256, ref.index_size = new.file_size, new.sha256, new.index_size
            ref.key_min, ref.key_max = new.key_min, new.key_max
            ref.columns.CopyFrom(new.columns)
            for name in ("time_min", "time_max"):
                ref.ClearField(name)
                if new.HasField(name):
                    setattr(ref, name, getattr(new, name))
        vector = self._vectors.get((ref.number, ref.dv_id))
        if vector is not None and ref.status != codec.DELETED:
            codec.set_vector(ref, vector_of(vector))
            ref.dv_version = self.version


def _keep(field: Any, kept: list[Any]) -> None:
    """Leave only some of the messages in a repeated field."""
    if len(kept) < len(field):
        copies = [type(one).FromString(one.SerializeToString()) for one in kept]
        del field[:]
        field.extend(copies)


def _blank(ref: pb.DataFileRef) -> None:
    """Forget what the facts of a segment tell of its values. No kept version has it."""
    ref.ClearField("key_min")
    ref.ClearField("key_max")
    _blank_columns(ref.columns)
    for value in ref.partition:
        value.ClearField("value")


def _blank_columns(facts: pb.SegmentColumns) -> None:
    facts.ClearField("inline")
    for column in facts.columns:
        column.ClearField("lower")
        column.ClearField("upper")


def clean_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """A commit's summary without the values in it: older versions of Moulin kept those of conditions, and engines may
    list the partitions that they changed."""
    summary = {key: value for key, value in summary.items() if not key.startswith(PARTITIONS)}
    found = summary.get(WHERE)
    if not isinstance(found, str):
        return summary
    from moulin.model.predicate.outline import without_values  # here: it loads Arrow, which a catalog does without

    return {**summary, WHERE: without_values(found)}


def vector_of(one: pb.ErasedVector) -> VectorFacts:
    """The deletion vector that a span has now."""
    return VectorFacts(one.id, one.segment, one.path, one.offset, one.length, one.cardinality)


def describe(facts: SegmentFacts) -> pb.DataFileRef:
    """A segment that was written again, as an erasure holds it."""
    return pb.DataFileRef(
        path=facts.path,
        number=facts.number,
        file_size=facts.size,
        num_rows=facts.rows,
        sha256=facts.sha256,
        key_min=facts.key_min or b"",
        key_max=facts.key_max or b"",
        index_size=facts.index_size,
        time_min=facts.time_min,
        time_max=facts.time_max,
        columns=codec.encode_columns(facts.columns, facts.split_offsets),
    )


def scrub_all(manifest: pb.Manifest, scrubbers: Iterable[Scrubber]) -> bool:
    """Apply several erasures, in their order; whether one of them changed the manifest."""
    return sum(scrubber.scrub(manifest) for scrubber in scrubbers) > 0


def described(manifest: pb.Manifest) -> set[int]:
    """The segments whose facts a manifest holds."""
    return {ref.number for ref in manifest.data_files if ref.added_version}


def column_files(manifest: pb.Manifest) -> set[str]:
    """The paths of the column files that a manifest describes."""
    return {file.path for ref in manifest.data_files for file in ref.column_files}


__all__ = ["Scrubber", "clean_summary", "column_files", "describe", "described", "scrub_all", "vector_of"]
