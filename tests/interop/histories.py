"""Random histories of a table, the same for the same seed: rows, columns, types, specs, formats, branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import pyarrow as pa

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.iceberg.format.metadata import format_version
from moulin.lake import Lake
from moulin.table.table import Table

NAME = "shop.t"
COLUMNS = [
    ("id", "long", False), ("n", "int"), ("f", "float"), ("ts", "timestamptz"), ("day", "date"), ("region", "string"),
    ("u", "uuid"), ("price", "decimal(9, 2)"), ("s", "struct<a: int>"), ("l", "list<int>"),
]  # fmt: skip
_ADDED = ["long", "string", "double", "date", "timestamp", "struct<a: int, b: string>", "boolean", "timestamp_ns"]
_DEFAULTS: list[tuple[str, Any]] = [
    ("long", 7),
    ("string", "plain"),
    ("double", -0.5),
    ("boolean", True),
    ("uuid", f"{UUID(int=5)}"),
]
_WIDER = {"int32": "long", "float": "double", "decimal128(9, 2)": "decimal(20, 2)", "date32[day]": "timestamp"}
_TRANSFORMS: list[tuple[Callable[[pa.DataType], bool], list[str]]] = [
    (pa.types.is_timestamp, ["{}", "day({})", "month({})"]),
    (pa.types.is_date, ["{}", "year({})"]),
    (pa.types.is_string, ["{}", "truncate(1, {})", "bucket(3, {})"]),
    (pa.types.is_integer, ["{}", "truncate(10, {})", "bucket(3, {})"]),
    (pa.types.is_decimal, ["{}", "truncate(5, {})"]),
    (lambda kind: kind == pa.uuid(), ["{}", "bucket(2, {})"]),
]
_ROWS = ["append", "append", "append", "delete", "delete", "update", "compact"]
_EVENT = ["overwrite"]
_KEYED = ["upsert", "upsert", "put", "remove"]
_SHAPE = ["add", "add_default", "add_field", "fill", "rename", "drop", "widen", "partition", "partition", "reformat"]
_PAST = ["restore", "branch", "fold"]


class History:
    """Random changes to one table. What the lake refuses for its reasons is left out, and noted with a minus."""

    def __init__(self, lake: Lake, seed: int) -> None:
        chance = self.random = random.Random(seed)
        self.lake, self.keyed, self.done = lake, chance.random() < 0.5, list[str]()
        self.next_id = self.names = 0
        options: dict[str, Any] = {"primary_key": ["id"]} if self.keyed else {"event_time": "ts"}
        options["partition_by"] = chance.choice([[], ["region"], ["bucket(3, id)"], ["day", "region"]])
        lake.create_table(NAME, COLUMNS, properties={"format-version": chance.choice(["2", "3"])}, **options)
        self.table: Table = lake.table(NAME)
        self.append()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            names = [*_ROWS, *_SHAPE, *_PAST, *(_KEYED if self.keyed else _EVENT)]
            self.step(self.random.choice(names))

    def step(self, name: str) -> None:
        self.done.append(name)
        try:
            getattr(self, name)()
        except (FailedPrecondition, InvalidInput) as error:
            if name in _ROWS:
                raise
            self.done[-1] = f"-{name}: {error}"
        self.table.settle()
        try:
            format_version(self.table.state())
        except FailedPrecondition:  # what an older version or a branch brought back
            self.table.set_properties({"format-version": "3"})

    def fresh(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def columns(self) -> list[str]:
        return [name for name in self.table.schema.names if name != "id"]

    def row(self, number: int) -> dict[str, Any]:
        others = {field.name: self.value(field.type) for field in self.table.schema if field.name != "id"}
        return {"id": number, **{k: v for k, v in others.items() if self.random.random() < 0.9}}

    def value(self, kind: pa.DataType) -> Any:
        chance = self.random
        if chance.random() < 0.15:
            return None
        if pa.types.is_struct(kind):
            return {field.name: self.value(field.type) for field in kind}
        if pa.types.is_list(kind):
            return [self.value(kind.value_type) for _ in range(chance.randrange(3))]
        number = chance.randrange(100)
        if pa.types.is_timestamp(kind):
            return f"2024-03-{number % 3 + 1:02}T0{number % 10}:00:00.000001{'+00:00' if kind.tz else ''}"
        if pa.types.is_date(kind):
            return f"2024-0{number % 2 + 1}-01"
        if kind == pa.uuid():
            return f"00000000-0000-0000-0000-00000000000{number % 3}"
        if pa.types.is_string(kind):
            return chance.choice(["eu", "us", "déjà"])
        if pa.types.is_floating(kind):
            return chance.choice([-0.0, 1.5, float(number)])
        if pa.types.is_boolean(kind):
            return number % 2 == 0
        return f"{number % 4}.25" if pa.types.is_decimal(kind) else number

    def append(self) -> None:
        count = self.random.randrange(1, 10)
        self.table.append([self.row(self.next_id + n) for n in range(count)])
        self.next_id += count

    def upsert(self) -> None:
        ids = {self.random.randrange(self.next_id + 2) for _ in range(4)}
        self.next_id += 2
        self.table.append([self.row(number) for number in sorted(ids)])

    def put(self) -> None:
        self.table.put(self.row(self.random.randrange(self.next_id + 1)))
        self.next_id += 1

    def remove(self) -> None:
        self.table.delete(self.random.randrange(self.next_id))

    def _range(self) -> str:
        low = self.random.randrange(self.next_id)
        return f"id >= {low} and id < {low + 4}"

    def delete(self) -> None:
        self.table.delete_where(self._range())

    def update(self) -> None:
        if "n" in self.table.schema.names:
            self.table.update({"n": "n + 1"}, self._range())

    def overwrite(self) -> None:
        self.table.overwrite([self.row(0)], where="id < 3")

    def compact(self) -> None:
        self.table.compact(everything=self.random.random() < 0.5)

    def fold(self) -> None:
        self.table.fold()

    def add(self) -> None:
        self.table.add_column(self.fresh(), self.random.choice(_ADDED))

    def add_default(self) -> None:
        self.table.set_properties({"format-version": "3"})
        kind, default = self.random.choice(_DEFAULTS)
        self.table.add_column(self.fresh(), kind, default)

    def add_field(self) -> None:
        structs = [field.name for field in self.table.schema if pa.types.is_struct(field.type)]
        if structs:
            self.table.add_column(f"{self.random.choice(structs)}.{self.fresh()}", "int")

    def fill(self) -> None:
        self.table.add_column(self.fresh(), "long", from_sql="id + 1")

    def rename(self) -> None:
        self.table.rename_column(self.random.choice(self.columns()), self.fresh())

    def drop(self) -> None:
        self.table.drop_column(self.random.choice(self.columns()))

    def widen(self) -> None:
        able = [field for field in self.table.schema if str(field.type) in _WIDER]
        if able:
            field = self.random.choice(able)
            self.table.widen_column(field.name, _WIDER[str(field.type)])

    def partition(self) -> None:
        able = [
            transform.format(field.name)
            for field in self.table.schema
            for fits, transforms in _TRANSFORMS
            if fits(field.type)
            for transform in transforms
        ]
        self.table.set_partitioning(self.random.sample(able, self.random.randrange(3)))

    def reformat(self) -> None:
        self.table.set_properties({"format-version": self.random.choice(["2", "3"])})

    def restore(self) -> None:
        self.table.restore(self.random.choice(self.table.history()).version)

    def branch(self) -> None:
        """A branch that changes rows and columns, beside rows that main gets; then it is published."""
        main, name = self.table, self.fresh()
        self.table = self.lake.branch(name).table(NAME)
        try:
            for step in ("append", self.random.choice(["delete", "compact"]), self.random.choice(["add", "add_field"])):
                getattr(self, step)()
            self.append()
        finally:
            self.table = main
        if self.random.random() < 0.5:
            self.append()
        try:
            self.lake.publish(name)
        finally:
            with suppress(FailedPrecondition):
                self.table.refresh()
