"""Snapshots with equality deletes, as Flink and other writers of change streams make them, made of appends."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moulin.iceberg.format.avro import read_avro, write_avro
from tests.iceberg.rest.served import Client, duckdb_attached
from tests.iceberg.rest.test_commit import T, Written


def edit(where: str, change: Callable[[list[Any]], None], **header: str) -> None:
    """Change the records of an Avro file in place."""
    path = Path(where.removeprefix("file://"))
    records, before = read_avro(path.read_bytes(), where)
    change(records)
    kept = {key: value for key, value in before.items() if not key.startswith("avro.")}
    path.write_bytes(write_avro(json.loads(before["avro.schema"]), records, kept | header))


class Changes(Written):
    """A snapshot that deletes the rows equal to `deleted` in the columns `ids`, and adds those of `added`, if any.

    Rows are pairs of name and id, in columns.
    """

    def __init__(
        self, address: str, client: Client, deleted: list[list[Any]], ids: Sequence[int], added: Any = None
    ) -> None:
        super().__init__(address, client, deleted)
        self._to_deletes(self.snapshot, list(ids))
        if added is not None:
            data = Written(address, client, added)
            self._take_over(data.snapshot)

    def _mine(self, snapshot: dict[str, Any]) -> str:
        path = Path(snapshot["manifest-list"].removeprefix("file://"))
        records, _ = read_avro(path.read_bytes(), "")
        return next(one["manifest_path"] for one in records if one["added_snapshot_id"] == snapshot["snapshot-id"])

    def _to_deletes(self, snapshot: dict[str, Any], ids: list[int]) -> None:
        mine = self._mine(snapshot)

        def listed(records: list[Any]) -> None:
            for one in records:
                one["content"] = 1 if one["manifest_path"] == mine else one["content"]

        def entries(records: list[Any]) -> None:
            for one in records:
                one["data_file"].update(content=2, equality_ids=ids)

        edit(mine, entries, content="deletes")
        edit(snapshot["manifest-list"], listed)

    def _take_over(self, other: dict[str, Any]) -> None:
        """Add the new manifest of another snapshot to this one's."""
        number, theirs = self.snapshot["snapshot-id"], self._mine(other)
        path = Path(other["manifest-list"].removeprefix("file://"))
        record = next(one for one in read_avro(path.read_bytes(), "")[0] if one["manifest_path"] == theirs)
        edit(theirs, lambda records: [one.update(snapshot_id=number) for one in records][:0] or None)
        edit(
            self.snapshot["manifest-list"],
            lambda records: records.append({**record, "added_snapshot_id": number}),
        )

    def as_duckdb_reads_it(self, address: str, folder: Path) -> list[tuple[Any, ...]]:
        """The rows of the table as DuckDB finds them when this snapshot is current, before it is committed."""
        metadata = self.client.get(T).json()["metadata"]
        metadata["snapshots"] = [*metadata["snapshots"], self.snapshot]
        metadata["current-snapshot-id"] = self.snapshot["snapshot-id"]
        metadata["last-sequence-number"] = self.snapshot["sequence-number"]
        metadata["refs"] = {"main": {"type": "branch", "snapshot-id": self.snapshot["snapshot-id"]}}
        file = folder / "v1.metadata.json"
        file.write_text(json.dumps(metadata))
        with duckdb_attached(address) as connection:
            found = connection.execute(f"SELECT id, name FROM iceberg_scan('{file}')").fetchall()
        return sorted(found, key=repr)
