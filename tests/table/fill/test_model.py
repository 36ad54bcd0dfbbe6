"""Tables with column files against plain dicts: random histories, all versions looked at again, DuckDB as referee."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.table.fill.fill import begin
from moulin.table.table import Table

Rows = dict[int, dict[str, Any]]


class History:
    """A keyed or event table, and what its rows should be at each version."""

    def __init__(self, folder: Path, seed: int, *, keyed: bool) -> None:
        self.chosen, self.keyed = random.Random(seed), keyed
        self.lake = moulin.connect(folder)
        self.lake.create_database("d")
        columns = [("id", "long", False), ("a", "double"), ("b", "long")]
        more: dict[str, Any] = {"primary_key": ["id"]} if keyed else {}
        if not keyed and seed % 2:
            more = {"properties": {"moulin.inline-bytes": 8192}}
        self.table: Table = self.lake.create_table("d.t", columns, **more)
        self.rows: Rows = {}
        self.columns: list[str] = ["a", "b"]
        self.added = self.next = 0
        self.versions: dict[int, tuple[Rows, list[str]]] = {}

    def step(self) -> None:
        steps = [self.write, self.write, self.write, self.delete, self.fill, self.compact, self.drop, self.update]
        self.chosen.choice([*steps, self.restore, self.begin_only, self.fold])()
        self.versions[self.table.version] = ({k: dict(v) for k, v in self.rows.items()}, list(self.columns))

    def row(self, number: int) -> dict[str, Any]:
        return {"a": self.chosen.randrange(100) / 2, "b": self.chosen.randrange(1000), "id": number}

    def write(self) -> None:
        count = self.chosen.choice([1, 5, 40])
        if self.keyed:
            new = [self.row(self.chosen.randrange(80)) for _ in range(count)]
            new = list({row["id"]: row for row in new}.values())
        else:
            new = [self.row(self.next + n) for n in range(count)]
            self.next += count
        extra = [c for c in self.columns if c not in ("a", "b")]
        for row in new:
            row.update({c: None if self.chosen.random() < 0.5 else 1.5 for c in extra})
        self.table.append(new)
        self.rows.update({row["id"]: {c: row.get(c) for c in self.columns} for row in new})

    def delete(self) -> None:
        limit = self.chosen.randrange(1000)
        self.table.delete_where(f"b > {limit} and b < {limit + 150}")
        self.rows = {k: v for k, v in self.rows.items() if not limit < v["b"] < limit + 150}

    def fill(self) -> None:
        source = self.chosen.choice([c for c in self.columns if c != "b"])
        name = f"c{self.added}"
        self.added += 1
        self.table.add_column(name, "double", from_sql=f"{source} * 2 + b")
        self._filled(name, source)

    def _filled(self, name: str, source: str) -> None:
        self.columns.append(name)
        for row in self.rows.values():
            row[name] = None if row[source] is None else row[source] * 2 + row["b"]

    def begin_only(self) -> None:
        """A fill that was killed after it began, and goes on after other work."""
        name, table = f"c{self.added}", self.table
        self.added += 1
        kind = table.state().schema.find_field("a").field_type
        begin(table._context, table.state, table._keyed(), [(name, kind)], ["a", "b"], "a * 2 + b")
        self.columns.append(name)
        for row in self.rows.values():
            row[name] = None
        self.versions[table.version] = ({k: dict(v) for k, v in self.rows.items()}, list(self.columns))
        self.columns.remove(name)
        for step in (self.write, self.delete, self.compact):
            if self.chosen.random() < 0.6:
                step()
        for row in self.rows.values():
            row.pop(name, None)
        table.add_column(name, "double", from_sql="a * 2 + b")
        self._filled(name, "a")

    def compact(self) -> None:
        self.table.compact(everything=self.chosen.random() < 0.5)

    def fold(self) -> None:
        self.table.fold()

    def drop(self) -> None:
        extra = [c for c in self.columns if c not in ("a", "b")]
        if extra:
            gone = self.chosen.choice(extra)
            self.table.drop_column(gone)
            self.columns.remove(gone)
            for row in self.rows.values():
                row.pop(gone, None)

    def update(self) -> None:
        target = self.chosen.choice([c for c in self.columns if c != "b"])
        self.table.update({target: "b + 0.5"}, where="b < 100")
        for row in self.rows.values():
            if row["b"] < 100:
                row[target] = row["b"] + 0.5

    def restore(self) -> None:
        if self.versions and self.chosen.random() < 0.5:
            version = self.chosen.choice(list(self.versions))
            self.table.restore(version)
            rows, columns = self.versions[version]
            self.rows, self.columns = {k: dict(v) for k, v in rows.items()}, list(columns)

    def check(self) -> None:
        assert self.shown(self.table.scan().to_pylist()) == self.rows
        for version, (rows, columns) in self.versions.items():
            found = self.table.scan(version=version)
            assert set(found.schema.names) == {"id", *columns}, version
            assert self.shown(found.to_pylist()) == rows, version
        duck = self.lake.duckdb()
        for version in [None, *self.chosen.sample(sorted(self.versions), min(3, len(self.versions)))]:
            at = "" if version is None else f", version := {version}"
            answer = duck.execute(f"select * from moulin_table('d.t'{at})")
            names = [one[0] for one in answer.description]
            got = self.shown([dict(zip(names, row, strict=True)) for row in answer.fetchall()])
            assert got == (self.rows if version is None else self.versions[version][0]), version
        assert list(check(self.lake.own_catalog(), data=True)) == []

    @staticmethod
    def shown(rows: list[dict[str, Any]]) -> Rows:
        found = {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in rows}
        assert len(found) == len(rows), "each row once"
        return found


@pytest.mark.parametrize("keyed", [False, True], ids=["event", "keyed"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_short_history_is_what_dicts_say(tmp_path: Path, seed: int, keyed: bool) -> None:
    run(tmp_path, seed, 18, keyed=keyed)


@pytest.mark.long
@pytest.mark.parametrize("keyed", [False, True], ids=["event", "keyed"])
@pytest.mark.parametrize("seed", range(100, 108))
def test_a_long_history_is_what_dicts_say(tmp_path: Path, seed: int, keyed: bool) -> None:
    run(tmp_path, seed, 120, keyed=keyed)


def run(folder: Path, seed: int, steps: int, *, keyed: bool) -> None:
    history = History(folder / "lake", seed, keyed=keyed)
    try:
        for _ in range(steps):
            history.step()
        history.check()
    finally:
        history.lake.close()
