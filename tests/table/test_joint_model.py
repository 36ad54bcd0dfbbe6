"""Random histories of tables with branches, clones and column files together, against plain dictionaries.

Main, its branches and clones are each a dictionary of rows for each of their versions. A publish must give the rows
that a merge of three dictionaries gives, or a Conflict that they explain. All versions of all of them are read again
and again, and at some of them DuckDB, pyiceberg, Spark and a replica read, too. In the end the lake is recovered.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import Conflict
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.model.filling import computed_marks
from moulin.model.schema.type_reader import parse_type
from moulin.storage.store import open_store
from moulin.table.fill.fill import begin
from moulin.table.table import Table

Rows = dict[int, dict[str, Any]]
COLUMNS = [("id", "long", False), ("a", "double"), ("b", "long")]
KEYS = 60
OLDER = 6  # versions that a look in passing reads


@dataclass
class Sheet:
    """One table on one line of versions: its rows now and at each version, and what it did since its branch began."""

    name: str
    table: Table
    keyed: bool
    rows: Rows = field(default_factory=dict)
    columns: list[str] = field(default_factory=lambda: ["a", "b"])
    versions: dict[int, tuple[Rows, list[str]]] = field(default_factory=dict)
    pending: str | None = None

    def now(self) -> tuple[Rows, list[str]]:
        return {key: dict(row) for key, row in self.rows.items()}, list(self.columns)

    def note(self) -> None:
        self.versions[self.table.version] = self.now()


@dataclass
class Fork:
    """A branch, and of each of its tables what both sides did since it began."""

    lake: Lake
    sheets: dict[str, Sheet]
    base: dict[str, tuple[Rows, list[str]]]
    began: int
    wrote: dict[str, set[int]]
    main_wrote: dict[str, set[int]]
    odd: set[str] = field(default_factory=set)  # tables with a restore on either side, or an erase
    altered: set[str] = field(default_factory=set)
    main_recomputed: set[str] = field(default_factory=set)


class World:
    """A lake, what should be in it, and the steps that change both."""

    def __init__(self, folder: Path, seed: int, spark: Any = None) -> None:
        self.chance, self.spark = random.Random(seed), spark
        options: dict[str, Any] = {} if spark is None else {"spark": spark}
        self.lake = moulin.connect(folder, merge_background="off", **options)
        self.lake.create_database("d")
        self.main: dict[str, Sheet] = {}
        self.forks: dict[str, Fork] = {}
        self.next = self.made = 0
        self.counts: dict[str, int] = {}
        for name, keyed in (("e", False), ("k", True)):
            inline = {} if keyed else {"properties": {"moulin.inline-bytes": 8192}}
            table = self.lake.create_table(f"d.{name}", COLUMNS, primary_key=["id"] if keyed else [], **inline)
            self.main[name] = Sheet(name, table, keyed)

    def close(self) -> None:
        self.lake.close()

    def run(self, steps: int, look_every: int) -> None:
        usual = [self.write] * 5 + [self.delete] * 2 + [self.update] * 2 + [self.fill] * 2
        usual += [self.compact, self.compact, self.fold, self.drop, self.begin_fill, self.restore, self.pin]
        usual += [self.recompute]
        for number in range(1, steps + 1):
            draw = self.chance.random()
            if draw < 0.05:
                self.branch()
            elif draw < 0.09 and self.forks:
                self.publish(self.chance.choice(list(self.forks)))
            elif draw < 0.10:
                self.clone()
            elif draw < 0.12:
                self.clean_up()
            elif draw < 0.13:
                self.erase()
            else:
                fork, sheet = self.somewhere()
                self.count(self.chance.choice(usual), fork, sheet)
            if number % look_every == 0:
                self.look(everything=False)
        self.look(everything=True)

    def count(self, step: Callable[..., Any], *given: Any) -> None:
        self.counts[step.__name__] = self.counts.get(step.__name__, 0) + 1
        step(*given)
        sheet = given[-1]
        sheet.note()

    def somewhere(self) -> tuple[str | None, Sheet]:
        places: list[tuple[str | None, Sheet]] = [(None, sheet) for sheet in self.main.values()]
        places += [(name, sheet) for name, fork in self.forks.items() for sheet in fork.sheets.values()]
        return self.chance.choice(places)

    # What is noted for publishes

    def touch(self, fork: str | None, sheet: Sheet, keys: Any) -> None:
        name = sheet.name
        if fork is not None:
            self.forks[fork].wrote[name].update(keys)
        else:
            for one in self.forks.values():
                one.main_wrote.get(name, set()).update(keys)

    def alter(self, fork: str | None, sheet: Sheet) -> None:
        name = sheet.name
        if fork is not None:
            self.forks[fork].altered.add(name)

    def odd(self, fork: str | None, sheet: Sheet) -> None:
        for one in [self.forks[fork]] if fork is not None else self.forks.values():
            one.odd.add(sheet.name)

    # Changes of one table

    def write(self, fork: str | None, sheet: Sheet) -> None:
        count = self.chance.choice([1, 4, 20])
        if sheet.keyed:
            keys = {self.chance.randrange(KEYS) for _ in range(count)}
        else:
            keys, self.next = set(range(self.next, self.next + count)), self.next + count
        new = [self.row(key, sheet) for key in sorted(keys)]
        if sheet.keyed and self.chance.random() < 0.5:
            for row in new:
                sheet.table.put(row)
            sheet.table.flush()
        else:
            sheet.table.append(new)
        sheet.rows.update({row["id"]: {name: row.get(name) for name in sheet.columns} for row in new})
        self.touch(fork, sheet, keys)

    def row(self, key: int, sheet: Sheet) -> dict[str, Any]:
        row = {"id": key, "a": self.chance.randrange(100) / 2, "b": self.chance.randrange(1000)}
        more = [name for name in sheet.columns if name not in ("a", "b", sheet.pending)]
        return {**row, **{name: None if self.chance.random() < 0.5 else 1.5 for name in more}}

    def delete(self, fork: str | None, sheet: Sheet) -> None:
        low = self.chance.randrange(1000)
        gone = {key for key, row in sheet.rows.items() if low < row["b"] < low + 120}
        sheet.table.delete_where(f"b > {low} and b < {low + 120}")
        for key in gone:
            del sheet.rows[key]
        self.touch(fork, sheet, gone)

    def update(self, fork: str | None, sheet: Sheet) -> None:
        target = self.chance.choice([name for name in sheet.columns if name not in ("b", sheet.pending)])
        low = self.chance.randrange(1000)
        changed = {key for key, row in sheet.rows.items() if low <= row["b"] < low + 80}
        sheet.table.update({target: "b + 0.5"}, where=f"b >= {low} and b < {low + 80}")
        for key in changed:
            sheet.rows[key][target] = sheet.rows[key]["b"] + 0.5
        self.touch(fork, sheet, changed)

    def begin_fill(self, fork: str | None, sheet: Sheet) -> None:
        """A fill that was killed, and goes on some steps later, with `fill`."""
        if sheet.pending is None:
            name, table = self.new_column(), sheet.table
            begin(table._context, table.state, table._keyed(), [(name, parse_type("double"))], ["a", "b"], "a * 2 + b")
            sheet.pending = name
            sheet.columns.append(name)
            for row in sheet.rows.values():
                row[name] = None
            self.alter(fork, sheet)

    def new_column(self) -> str:
        self.made += 1
        return f"c{self.made}"

    def fill(self, fork: str | None, sheet: Sheet) -> None:
        name, source = (sheet.pending, "a") if sheet.pending else (self.new_column(), self.chance.choice(["a", "b"]))
        assert name is not None
        sheet.table.add_column(name, "double", from_sql=f"{source} * 2 + b")
        if sheet.pending is None:
            sheet.columns.append(name)
        sheet.pending = None
        for row in sheet.rows.values():
            row[name] = row[source] if row[source] is None else row[source] * 2.0 + row["b"]
        self.alter(fork, sheet)

    def recompute(self, fork: str | None, sheet: Sheet) -> None:
        marked = computed_marks(sheet.table.state().properties)
        known = {field.field_id: field.name for field in sheet.table.state().schema.fields}
        if found := sorted(known[number] for key in marked if (number := int(key.rpartition(".")[2])) in known):
            name, factor = self.chance.choice(found), self.chance.randrange(9)
            sheet.table.recompute_column(name, from_sql=f"b * {factor}.5")
            for row in sheet.rows.values():
                row[name] = row["b"] * (factor + 0.5)
            self.alter(fork, sheet)
            for one in self.forks.values() if fork is None else ():
                one.main_recomputed.add(sheet.name)

    def drop(self, fork: str | None, sheet: Sheet) -> None:
        if added := [name for name in sheet.columns if name not in ("a", "b")]:
            name = self.chance.choice(added)
            sheet.table.drop_column(name)
            sheet.columns.remove(name)
            sheet.pending = None if name == sheet.pending else sheet.pending
            for row in sheet.rows.values():
                row.pop(name, None)
            self.alter(fork, sheet)

    def compact(self, fork: str | None, sheet: Sheet) -> None:
        sheet.table.compact(everything=self.chance.random() < 0.5)

    def fold(self, fork: str | None, sheet: Sheet) -> None:
        sheet.table.fold()

    def pin(self, fork: str | None, sheet: Sheet) -> None:
        sheet.table.tag(f"t{self.new_column()}")

    def restore(self, fork: str | None, sheet: Sheet) -> None:
        if sheet.pending is None and sheet.versions:
            version = self.chance.choice(sorted(sheet.versions))
            rows, columns = sheet.versions[version]
            sheet.table.restore(version)
            self.touch(fork, sheet, {*sheet.rows, *rows})
            sheet.rows, sheet.columns = {key: dict(row) for key, row in rows.items()}, list(columns)
            self.odd(fork, sheet)
            self.alter(fork, sheet)

    # Branches, clones, clean-up

    def branch(self) -> None:
        if len(self.forks) == 2:
            return
        self.count_only("branch")
        for sheet in self.main.values():
            if sheet.pending is not None:  # a branch of a pending column has a column of nulls
                self.count(self.fill, None, sheet)
        name = self.new_column().replace("c", "b")
        lake = self.lake.branch(name)
        (began,) = (one.version for one in self.lake.branches() if one.name == name)
        base = {one: sheet.now() for one, sheet in self.main.items()}
        sheets = {}
        for one, sheet in self.main.items():
            rows, columns = sheet.now()
            sheets[one] = Sheet(one, lake.table(f"d.{one}"), sheet.keyed, rows, columns)
            sheets[one].note()
        nothing: dict[str, set[int]] = {one: set() for one in sheets}
        self.forks[name] = Fork(lake, sheets, base, began, nothing, {one: set() for one in sheets})

    def count_only(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def publish(self, name: str) -> None:
        fork = self.forks[name]
        for sheet in fork.sheets.values():
            if sheet.pending is not None:
                self.count(self.fill, name, sheet)
        for one in fork.sheets:
            if (sheet := self.main[one]).pending is not None:
                self.count(self.fill, None, sheet)
        may_conflict = [one for one in fork.sheets if self.may_conflict(fork, one)]
        del self.forks[name]
        try:
            self.lake.publish(name)
        except Conflict:
            if not may_conflict:
                raise
            self.lake.drop_branch(name)
            self.count_only("refused")
            return
        self.count_only("published")
        for one, theirs in fork.sheets.items():
            self.merge(fork, one, theirs)

    def may_conflict(self, fork: Fork, one: str) -> bool:
        both = fork.wrote[one] & fork.main_wrote[one]
        moved = self.main[one].table.state().head_version > fork.began  # by a compaction, say: a fill takes all rows
        lacking = one in fork.main_recomputed and fork.wrote[one]  # rows of the branch lack the new values
        return bool(both or lacking or (moved and one in fork.altered) or one in fork.odd)

    def merge(self, fork: Fork, one: str, theirs: Sheet) -> None:
        """What main has after a publish: what one side did, and of a row of which the same."""
        mine, (base, before) = self.main[one], fork.base[one]
        common = [name for name in before if name in theirs.columns]

        def part(rows: Rows, key: int) -> list[Any] | None:
            return [rows[key].get(name) for name in common] if key in rows else None

        keys = base.keys() | theirs.rows.keys()
        touched = fork.wrote[one] | {key for key in keys if part(base, key) != part(theirs.rows, key)}
        columns = [name for name in mine.columns if name in theirs.columns or name not in before]
        columns += [name for name in theirs.columns if name not in before and name not in columns]
        merged: Rows = {}
        for key in mine.rows.keys() | theirs.rows.keys():
            row = theirs.rows.get(key) if key in touched else mine.rows.get(key)
            if key in touched and key in fork.main_wrote[one] and part(theirs.rows, key) == part(base, key):
                row = mine.rows.get(key)
            if row is not None:
                filled = theirs.rows.get(key, {}) if one in fork.altered else {}
                merged[key] = {name: row[name] if name in row else filled.get(name) for name in columns}
        for other in self.forks.values():
            if one in other.sheets:
                other.main_wrote[one].update(touched)
            if one in fork.altered:
                other.main_recomputed.add(one)
            if one in fork.odd:
                other.odd.add(one)
        mine.rows, mine.columns = merged, list(columns)
        mine.note()

    def clone(self) -> None:
        clones = [name for name in self.main if name.startswith("x")]
        if len(clones) == 2:
            gone = self.chance.choice(clones)
            self.lake.drop_table(f"d.{gone}", immediate=self.chance.random() < 0.5)
            del self.main[gone]
            for fork in self.forks.values():  # both sides know it: what a publish makes of that is not looked at here
                if gone in fork.sheets:
                    fork.odd.update(fork.sheets)
            for name in [name for name, fork in self.forks.items() if gone in fork.sheets]:
                self.lake.drop_branch(name)
                del self.forks[name]
            return
        self.count_only("clone")
        source = self.main[self.chance.choice(list(self.main))]
        at = self.chance.choice([None, *sorted(source.versions)]) if source.pending is None else None
        if at is None and source.pending is not None:
            return
        rows, columns = source.now() if at is None else source.versions[at]
        name = self.new_column().replace("c", "x")
        table = self.lake.clone_table(source.table, f"d.{name}", at=at, copy=self.chance.random() < 0.2)
        self.main[name] = Sheet(name, table, source.keyed, {k: dict(row) for k, row in rows.items()}, list(columns))
        self.main[name].note()

    def clean_up(self) -> None:
        self.count_only("clean_up")
        keep = self.chance.choice([0, 0, None])
        collect(self.lake.own_catalog(), history_keep=keep, byte_floor=0, orphan_grace=0)
        for sheet in self.sheets():
            kept = {info.version for info in sheet.table.history()}
            tagged = set(sheet.table.tags().values())
            sheet.versions = {version: was for version, was in sheet.versions.items() if version in kept | tagged}
            sheet.note()

    def erase(self) -> None:
        self.count_only("erase")
        sheet = self.chance.choice(list(self.main.values()))
        if not sheet.rows:
            return
        value = self.chance.choice(list(sheet.rows.values()))["b"]
        for fork in self.forks.values():  # an erase needs the logs of branches, too
            for other in fork.sheets.values():
                other.table.close()
                other.table = fork.lake.table(f"d.{other.name}")
        source = sheet.table.erase(f"b = {value}")
        named = {name.rpartition(".")[2] for name in source.report["tables"]}
        for one, found in [(None, self.main), *((name, fork.sheets) for name, fork in self.forks.items())]:
            for name, other in found.items():
                if name in named:
                    other.rows = {k: row for k, row in other.rows.items() if row["b"] != value}
                    other.versions = {
                        version: ({k: row for k, row in rows.items() if row["b"] != value}, columns)
                        for version, (rows, columns) in other.versions.items()
                    }
                    other.note()
                    self.odd(one, other)
                    for fork in self.forks.values():
                        fork.odd.add(name)

    # Looks

    def sheets(self) -> list[Sheet]:
        return [*self.main.values(), *(sheet for fork in self.forks.values() for sheet in fork.sheets.values())]

    def look(self, *, everything: bool) -> None:
        for sheet in self.sheets():
            assert shown(sheet.table.scan().to_pylist()) == sheet.rows, sheet.name
            versions = sorted(sheet.versions)
            for version in versions if everything else self.chance.sample(versions, min(OLDER, len(versions))):
                rows, columns = sheet.versions[version]
                found = sheet.table.scan(version=version)
                assert set(found.schema.names) == {"id", *columns}, (sheet.name, version)
                assert shown(found.to_pylist()) == rows, (sheet.name, version)
        self.ask_others()
        assert list(check(self.lake.own_catalog(), data=True)) == []
        self.lake.own_catalog().publisher.publish()
        with Lake.open_replica(self.lake.store.uri) as replica:
            self.look_elsewhere(replica)
        if everything:
            self.recover()

    def look_elsewhere(self, lake: Lake) -> None:
        """Another lake with the same versions: a replica, or one that was recovered."""
        lakes = [("", self.main), *((f"@{name}", fork.sheets) for name, fork in self.forks.items())]
        for line, sheets in lakes:
            for name, sheet in sheets.items():
                table = lake.table(f"d{line}.{name}")
                assert differences(shown(table.scan().to_pylist()), sheet.rows) == {}, (line, name)
                for version in self.chance.sample(sorted(sheet.versions), min(2, len(sheet.versions))):
                    rows, _ = sheet.versions[version]
                    assert differences(shown(table.scan(version=version).to_pylist()), rows) == {}, (line, name)

    def recover(self) -> None:
        """The lake as its manifests have it."""
        folder = Path(self.lake.store.uri.removeprefix("file://"))
        copy = folder.with_name(f"{folder.name}-recovered")
        shutil.copytree(folder, copy)
        for file in copy.glob("catalog.sqlite*"):
            file.unlink()
        recover(open_store(copy), f"sqlite:///{copy / 'catalog.sqlite'}", Config())
        with moulin.connect(copy, merge_background="off") as lake:
            self.look_elsewhere(lake)
            assert list(check(lake.own_catalog())) == []
        shutil.rmtree(copy)

    def ask_others(self) -> None:
        """DuckDB, pyiceberg, and Spark where there is a session."""
        lakes = [(self.lake, self.main), *((fork.lake, fork.sheets) for fork in self.forks.values())]
        lake, sheets = self.chance.choice(lakes)
        name, sheet = self.chance.choice(list(sheets.items()))
        version = self.chance.choice(sorted(sheet.versions))
        for source, rows in [
            (f"d.{name}", sheet.rows),
            (f"moulin_table('d.{name}', version := {version})", sheet.versions[version][0]),
        ]:
            answer = lake.duckdb().execute(f"select * from {source}")
            names = [one[0] for one in answer.description]
            assert shown([dict(zip(names, row, strict=True)) for row in answer.fetchall()]) == rows, source
        if self.spark is not None:
            assert shown([row.asDict() for row in lake.sql(f"select * from d.{name}").collect()]) == sheet.rows
            found = lake.sql(f"select * from d.{name} version as of {version}").collect()
            assert shown([row.asDict() for row in found]) == sheet.versions[version][0], (name, version)
        if sheet.pending is None:
            from pyiceberg.table import StaticTable

            location = project(lake.context, sheet.table.id).location
            sheet.note()  # a projection folds first
            found = shown(StaticTable.from_metadata(location).scan().to_arrow().to_pylist())
            assert differences(found, sheet.rows) == {}, (name, location)


def differences(found: Rows, wanted: Rows) -> dict[int, Any]:
    return {
        key: (found.get(key), wanted.get(key))
        for key in found.keys() | wanted.keys()
        if found.get(key) != wanted.get(key)
    }


def shown(rows: list[dict[str, Any]]) -> Rows:
    found = {row["id"]: {name: value for name, value in row.items() if name != "id"} for row in rows}
    assert len(found) == len(rows), "each row once"
    return found


def run(folder: Path, seed: int, steps: int, look_every: int, spark: Any = None) -> dict[str, int]:
    world = World(folder / "lake", seed, spark)
    try:
        world.run(steps, look_every)
        return world.counts
    finally:
        world.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_short_history_with_branches_clones_and_column_files(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 60, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 14))
def test_a_long_history_with_branches_clones_and_column_files(tmp_path: Path, seed: int) -> None:
    counts = run(tmp_path, seed, 1000, 50)
    assert counts["published"]
    assert counts["refused"]
    assert counts["clean_up"]


@pytest.mark.long
@pytest.mark.spark
def test_a_history_that_spark_reads_too(tmp_path: Path, spark: Any) -> None:
    run(tmp_path, 20, 200, 25, spark)
