"""After random histories every engine that is called able returns what scan() does, and no other engine does."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.upkeep.check import check as check_catalog
from moulin.iceberg.check.checker import check
from moulin.iceberg.format.metadata import needs_v3
from moulin.iceberg.projection.engines import LOST_PARTITIONS, UUID_PARTITIONS, Reader, readers
from moulin.iceberg.projection.projection import Projection, project
from moulin.lake import Lake
from tests.interop.engines import ENGINES, answers, rows
from tests.interop.histories import History

ALONE = {"clickhouse (chdb)": "chdb", "sail": "pysail"}


@dataclass(frozen=True, slots=True)
class Claim:
    """What `readers` says of one engine on a table; `asked` is how the engine is started and what it reads."""

    asked: tuple[str, str]
    reader: Reader
    schema: pa.Schema
    expected: pa.Table
    story: str

    def judge(self, found: pa.Table | str) -> str | None:
        """What is wrong with the claim; None if the engine proved it."""
        what = found if isinstance(found, str) else self._difference(found)
        if (what is None) == self.reader.reads or (what is None and not self._provable()):
            return None
        return f"{self.asked[0]} reads: {self.reader.reads} ({self.reader.reason}), but gave {what}: {self.story}"

    def _provable(self) -> bool:
        """Whether the files have what the engine cannot read: partitions by UUIDs may all be null."""
        return any(not one.startswith(UUID_PARTITIONS) for one in str(self.reader.reason).split("; "))

    def _difference(self, found: pa.Table) -> str | None:
        """In what rows differ from those of `scan()`; None if they do not."""
        order = sorted if self.asked[0] == "sail" else list  # it shows columns that are partitions last
        if order(found.column_names) != order(self.schema.names):
            return f"columns {found.column_names} for {self.schema.names}"
        shapes = [(one.name, _shape(found.field(one.name).type), _shape(one.type)) for one in self.schema]
        if different := [one for one in shapes if one[1] != one[2]]:
            return f"types {different}"
        try:
            theirs, ours = rows(found, self.schema), rows(self.expected, self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            return f"values of another type ({error})"
        if self.asked[0].startswith("clickhouse"):
            theirs, ours = (sorted(map(_emptied, one), key=repr) for one in (theirs, ours))
        if len(theirs) != len(ours):
            return f"{len(theirs)} rows for {len(ours)}"
        return next((f"{one} for {other}" for one, other in zip(theirs, ours, strict=True) if one != other), None)


def _shape(kind: pa.DataType) -> Any:
    """What a cast would hide of a type: fields of structs that it would add, numbers and dates that it would widen."""
    if pa.types.is_struct(kind):
        return [(field.name, _shape(field.type)) for field in kind]
    if pa.types.is_map(kind):
        return _shape(kind.key_type), _shape(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _shape(kind.value_type)
    widens = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return str(kind) if widens or pa.types.is_date(kind) else None


def _emptied(value: Any) -> Any:
    """A value with null for each list, map and struct in it that holds nothing: ClickHouse has no null ones."""
    if isinstance(value, dict):
        inner = {name: _emptied(one) for name, one in value.items()}
        return inner if any(one is not None for one in inner.values()) else None
    return value or None if isinstance(value, list) else value


def claims(history: History, folder: Path | None) -> Iterator[Claim]:
    """What `readers` says of the table now, projected in every format that it fits in, and exported to `folder`."""
    lake, table = history.lake, history.table
    table.settle()
    if history.keyed:
        table.flush()
    formats = [None, 3] if needs_v3(table.state().schema) else [2, 3]
    own = project(lake.context, table.id)
    for chosen in formats:
        made = project(lake.context, table.id, format_version=chosen)
        problems = check(made.location)
        assert not problems, f"{[*map(str, problems)]}: format {made.format_version} after {history.done}"
        said = list(_said(lake, made))
        for name in ENGINES:
            (reader,) = [one for one in said if one.engine == name.removesuffix(" native")]
            yield _claim(history, made, reader, name, made.location)
    if folder is not None:
        exported = table.export_iceberg(folder)
        for name in ("duckdb", "pyiceberg"):
            (reader,) = [one for one in _said(lake, own) if one.engine == name]
            if reader.reads:
                yield _claim(history, own, reader, name, exported.metadata_location)
        for name in ALONE:
            (reader,) = [one for one in _said(lake, own) if one.engine == name]
            yield _claim(history, own, reader, name, folder.name)


def _said(lake: Lake, made: Projection) -> list[Reader]:
    live = lake.catalog.segments(made.table_id, made.version, with_columns=False)
    return readers(made.metadata, [segment.facts for segment in live])


def _claim(history: History, made: Projection, reader: Reader, name: str, where: str) -> Claim:
    shown = history.table.at(made.version)
    engine = "duckdb filtered" if name == "duckdb" and LOST_PARTITIONS in str(reader.reason) else name
    story = f"format {made.format_version} after {history.done}"
    return Claim((engine, where), reader, shown.schema, shown.scan().to_arrow(), story)


def faults(root: Path, found: list[Claim]) -> list[str]:
    """What is wrong with claims. Engines that can are asked here, the others in a process that they may end."""
    here = [one for one in found if one.reader.reads and one.asked[0] in ENGINES]
    wrong = [one.judge(_read(one)) for one in here]
    apart = [one for one in found if one not in here]
    wrong += [one.judge(same) for one, same in zip(apart, answers(root, [one.asked for one in apart]), strict=True)]
    return [one for one in wrong if one is not None]


def _read(claim: Claim) -> pa.Table | str:
    name, where = claim.asked
    try:
        return ENGINES[name](where)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"


def told(root: Path, seed: int, *, steps: int, times: int, alone: bool) -> list[str]:
    """Run a history with `times` looks at it; returns what is wrong."""
    found: list[Claim] = []
    with moulin.connect(root / "lake") as lake:
        lake.create_database("shop")
        history = History(lake, seed)
        for time in range(times):
            history.run(steps)
            found += claims(history, root / f"export{time}" if alone else None)
        assert check_catalog(lake.own_catalog()) == [], history.done
        return faults(root, found)


@pytest.mark.parametrize("seed", [1, 2])
def test_readers_are_right_after_random_histories(tmp_path: Path, seed: int) -> None:
    assert told(tmp_path, seed, steps=6, times=2, alone=False) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 23))
def test_readers_are_right_after_long_histories(tmp_path: Path, seed: int) -> None:
    missing = [package for package in ALONE.values() if importlib.util.find_spec(package) is None]
    assert not missing, "the lock of the tests has them"
    assert told(tmp_path, seed, steps=8, times=4, alone=True) == []
