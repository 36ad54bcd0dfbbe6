"""Random histories on main and two branches, published in either order, against plain dictionaries.

Each line of versions is a dictionary of rows. A publish must give exactly the rows that a merge of the dictionaries
gives, or a Conflict that the dictionaries explain.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.errors import Conflict
from moulin.lake import Lake

COLUMNS = [("id", "long", False), ("amount", "double")]
_KEYS = 30


@dataclass
class Line:
    """Main or a branch: its table and its rows by key. Of a branch, what it and main did to each key since it began."""

    table: Any
    rows: dict[int, float]
    wrote: dict[int, str] = field(default_factory=dict)
    began: dict[int, float] = field(default_factory=dict)
    main_wrote: dict[int, str] = field(default_factory=dict)
    columns: set[str] = field(default_factory=set)  # added since the table was made


class History:
    def __init__(self, lake: Lake, chance: random.Random, *, keyed: bool) -> None:
        self.lake, self.chance, self.keyed = lake, chance, keyed
        self.main = Line(lake.create_table("shop.t", COLUMNS, primary_key=["id"] if keyed else []), {})
        self.branches: dict[str, Line] = {}
        self.step = self.made = self.published = self.refused = 0
        self.next_key = _KEYS

    def run(self, steps: int) -> None:
        for self.step in range(steps):
            choice = self.chance.random()
            if choice < 0.04 and len(self.branches) < 2:
                self.begin()
            elif choice < 0.08 and self.branches:
                self.publish(self.chance.choice(list(self.branches)))
            elif choice < 0.09:
                self.add_column(self.chance.choice([self.main, *self.branches.values()]))
            else:
                self.change(self.chance.choice([self.main, *self.branches.values()]))
        for name in list(self.branches):
            self.publish(name)
        self.check(self.main)

    def begin(self) -> None:
        self.lake.flush()
        self.made += 1
        name = f"b{self.made}"
        table = self.lake.branch(name).table("shop.t")
        self.branches[name] = Line(
            table, dict(self.main.rows), began=dict(self.main.rows), columns=set(self.main.columns)
        )

    def add_column(self, line: Line) -> None:
        line.table.add_column(f"c{self.step}", "string")
        line.columns.add(f"c{self.step}")

    def change(self, line: Line) -> None:
        key, value = self.chance.randrange(_KEYS), float(self.step)
        match self.chance.randrange(8):
            case 0 | 1 | 2:
                self.insert(line, value)
            case 3:
                self.write(line, key, None)
                line.table.delete_where(f"id = {key}")
            case 4:
                if key in line.rows:
                    self.write(line, key, value)
                line.table.update({"amount": value}, f"id = {key}")
            case 5 if self.keyed:
                self.write(line, key, value)
                line.table.put({"id": key, "amount": value})
            case 6:
                line.table.compact()
            case _:
                if self.keyed:
                    self.write(line, key, None)
                    line.table.delete(key)

    def insert(self, line: Line, value: float) -> None:
        """A few rows of new keys, or of keys that are not there."""
        rows = []
        for _ in range(self.chance.randrange(1, 4)):
            self.next_key += 1
            free = [key for key in range(_KEYS) if key not in line.rows]
            key = self.chance.choice(free) if free and self.chance.random() < 0.3 else self.next_key
            self.write(line, key, value)
            rows.append({"id": key, "amount": value})
        line.table.append(rows)

    def write(self, line: Line, key: int, value: float | None) -> None:
        had = key in line.rows
        if value is None and not had:
            return
        lines = self.branches.values() if line is self.main else [line]
        for one in lines:
            did = one.wrote if line is not self.main else one.main_wrote
            before = did.get(key)
            born = key not in one.began
            how = "delete" if value is None else "update" if had else "insert"
            if before == "delete" and how == "insert":
                how = "again"
            elif before in ("insert", "again") and how == "update":
                how = before
            elif before == "insert" and how == "delete" and born:
                how = "nothing"
            elif before == "again" and how == "delete":
                how = "delete"
            elif before == "nothing" and how == "insert":
                how = "insert"
            did[key] = how
        if value is None:
            del line.rows[key]
        else:
            line.rows[key] = value

    def conflicts(self, line: Line) -> set[int]:
        """Keys that both sides changed. Without a key, two rows of one key are two rows."""
        theirs = line.main_wrote
        both = {key for key in line.wrote.keys() & theirs.keys() if "nothing" not in (line.wrote[key], theirs[key])}
        if self.keyed:
            return {key for key in both if (line.wrote[key], theirs[key]) != ("delete", "delete")}
        changes = {"update": "update", "delete": "delete", "again": "delete"}
        pairs = {key: (changes.get(line.wrote[key]), changes.get(theirs[key])) for key in both}
        return {key for key, pair in pairs.items() if None not in pair and pair != ("delete", "delete")}

    def publish(self, name: str) -> None:
        line = self.branches.pop(name)
        expected = self.conflicts(line)
        theirs = line.main_wrote
        if not self.keyed and not expected:  # the model has one row for a key: leave out what would be two
            twice = {k for k in line.wrote.keys() & theirs.keys() if {line.wrote[k], theirs[k]} & {"insert", "again"}}
            if twice:
                self.lake.drop_branch(name)
                return
        before = self.lake.version
        if expected:
            self.refused += 1
            with pytest.raises(Conflict) as raised:
                self.lake.publish(name)
            if self.keyed:
                assert any(f"key {key} " in raised.value.message for key in expected)
            self.check(self.main)
            self.lake.drop_branch(name)
            return
        done = self.lake.publish(name)
        self.published += 1
        self.main.columns |= line.columns
        assert set(self.main.table.schema.names) == {"id", "amount", *self.main.columns}
        wanted = {key: line.rows.get(key) for key, how in line.wrote.items() if how != "nothing"}
        for key, value in wanted.items():
            if line.began.get(key) != value or key in self.main.rows:
                self.write(self.main, key, value)
        self.check(self.main)
        if done.tables:
            self.check_feed(done, before, line)

    def check(self, line: Line) -> None:
        rows = line.table.scan(columns=["id", "amount", "_row_id"]).to_arrow().to_pylist()
        assert len({row["_row_id"] for row in rows if row["_row_id"] is not None}) == sum(
            row["_row_id"] is not None for row in rows
        )
        assert len({row["id"] for row in rows}) == len(rows)
        assert {row["id"]: row["amount"] for row in rows} == line.rows

    def check_feed(self, done: Any, before: int, line: Line) -> None:
        """The feed of main has what the branch did, and nothing else."""
        feed = line_feed(self.main.table, done.version)
        wrote = {key: how for key, how in line.wrote.items() if how != "nothing"}
        assert feed <= wrote.keys()
        changed = {key for key in wrote if line.began.get(key) != line.rows.get(key)}
        assert changed - {key for key in wrote if wrote[key] == "delete"} <= feed


def line_feed(table: Any, version: int) -> set[int]:
    rows = table.changes(version - 1, version).to_arrow().to_pylist()
    return {row["id"] for row in rows}


@pytest.mark.parametrize("keyed", [False, True])
def test_histories_of_main_and_two_branches_are_those_of_dictionaries(tmp_path: Path, keyed: bool) -> None:
    with moulin.connect(tmp_path, merge_background="off") as lake:
        lake.create_database("shop")
        history = History(lake, random.Random(3), keyed=keyed)
        history.run(80)
        assert history.published


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keyed", [False, True])
def test_long_histories_of_main_and_two_branches_are_those_of_dictionaries(
    tmp_path: Path, keyed: bool, seed: int
) -> None:
    with moulin.connect(tmp_path, merge_background="off") as lake:
        lake.create_database("shop")
        history = History(lake, random.Random(seed), keyed=keyed)
        history.run(1000)
        assert history.published
        assert history.refused
