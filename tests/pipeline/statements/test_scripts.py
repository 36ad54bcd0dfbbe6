"""Random scripts on a lake and on DuckDB: after every statement the same rows, counts, row ids and changes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput
from tests.pipeline.statements.script_grammar import APART, COLUMNS, OTHER, REGIONS, Row, Script, Step, make_script
from tests.pipeline.statements.script_referee import Expected, Referee, Refused, Values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TYPES = {"bigint": "long"}
_SHORT, _LONG = 30, 500  # how many scripts
_REFUSED = "More than one source row matches|more than once|has a row of the key"
_STEPS = 3


def _columns(columns: dict[str, str]) -> list[tuple[str, str, bool]]:
    return [(name, _TYPES.get(kind, kind), name not in ("id", "region")) for name, kind in columns.items()]


@pytest.fixture(autouse=True)
def written_by_tasks(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, small_plans: None, spark: SparkSession, lake: Lake
) -> None:
    """In every other script Spark computes all changes, and two tasks write segments, as they do where there are many
    rows: always, or from 4 on."""
    seed = request.node.callspec.params["seed"]
    several = seed // 4 % 2
    spark.conf.set("spark.sql.shuffle.partitions", str(1 + several))
    if several:
        object.__setattr__(lake.context.config, "sql_local_bytes", 0)
        monkeypatch.setattr("moulin.pipeline.write.writer.HELD_BYTES", 0)
        monkeypatch.setattr("moulin.pipeline.read.few.FEW_ROWS", (0, 4)[seed % 2])


@pytest.mark.sample(10)
@pytest.mark.parametrize("seed", range(_SHORT))
def test_a_script_does_what_it_does_on_duckdb(lake: Lake, seed: int) -> None:
    _play(lake, make_script(seed, _STEPS))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(_SHORT, _SHORT + _LONG))
def test_a_long_script_does_what_it_does_on_duckdb(lake: Lake, seed: int) -> None:
    _play(lake, make_script(seed, 2 * _STEPS))


def _play(lake: Lake, script: Script) -> None:
    table = _created(lake, script)
    referee = Referee(script)
    first = table.version
    referee.append(script.rows)
    table.append(list(script.rows))
    game = _Game(lake, table, referee, is_keyed=script.is_keyed)
    game.check()
    done = -1
    try:
        for step in script.steps:
            done += 1
            game.take(step)
        game.check()
        assert _applied({}, table.changes(first).to_pylist()) == _by_row_id(table)
    except Exception as error:
        error.add_note(f"In step {done} (from 0) of\n{script}")
        raise


def _created(lake: Lake, script: Script) -> Table:
    lake.create_table("shop.o", _columns(OTHER)).append(list(script.other))
    return lake.create_table(
        "shop.t",
        _columns(COLUMNS),
        primary_key=["id"] if script.is_keyed else [],
        partition_by=["region"] if script.kind == "partitioned" else [],
        properties={"moulin.regions": "bucket(2, id)"} if script.kind == "regions" else None,
    )


class _Game:
    """The table of a script, and the referee."""

    def __init__(self, lake: Lake, table: Table, referee: Referee, *, is_keyed: bool) -> None:
        self._lake, self._table, self._referee, self._is_keyed = lake, table, referee, is_keyed
        self._next = APART
        self._pending = False  # whether rows were put that no version has

    def check(self) -> None:
        if self._is_keyed:
            self._table.flush()  # rows that are in no version have no row ids
            self._pending = False
        found = _by_row_id(self._table)
        assert Counter(found.values()) == self._referee.rows()
        self._referee.check_row_ids(found)

    def take(self, step: Step) -> None:
        match step.what:
            case "compact":
                self._table.compact(everything=True)
                self.check()
            case "append":
                self._table.append(list(step.rows))
                self._referee.append(step.rows)
                self.check()
            case "put":
                for row in step.rows:
                    self._table.put(row)
                self._referee.append(step.rows)
                self._pending = True  # a statement has to see them
            case "delete" if step.statement is None:
                self._table.delete_batch(step.ids)
                self._referee.delete(step.ids)
                self._pending = True
            case _ if step.beside:
                with self._writer(compacts=step.compacts):
                    self._run(step, alone=False)
                self.check()
            case _:
                self._run(step, alone=not self._pending)
                self.check()

    def _run(self, step: Step, *, alone: bool) -> None:
        """Run a statement. It is the only one that may make a version when it is `alone`."""
        assert step.statement is not None
        before = self._table.version
        try:
            expected = self._referee.run(step.statement)
        except Refused:
            with pytest.raises(InvalidInput, match=_REFUSED):  # which of several reasons comes first is open
                self._lake.sql(step.statement.text)
            assert not alone or self._table.version == before
            return
        (row,) = self._lake.sql(step.statement.text).collect()
        assert Expected(row.num_inserted_rows, row.num_updated_rows, row.num_deleted_rows) == expected
        assert row.num_affected_rows == expected.inserted + expected.updated + expected.deleted
        assert not alone or self._table.version == row.version
        if row.num_affected_rows:
            feed = self._table.changes(row.version - 1, row.version).to_pylist()
            kinds = Counter(change["_change_type"] for change in feed)
            assert Expected(kinds["insert"], kinds["update_after"], kinds["delete"]) == expected

    @contextmanager
    def _writer(self, *, compacts: bool) -> Iterator[None]:
        """Another thread that appends rows, deletes some of them again, and may compact."""
        first, self._next = self._next, self._next + 100
        made = [_far_row(first + number) for number in range(6)]
        errors: list[Exception] = []

        def write() -> None:
            try:
                table = self._lake.table("shop.t")
                for start in range(0, 6, 2):
                    table.append(made[start : start + 2])
                    table.delete_where(f"id = {first + start}")
                    if compacts:
                        table.compact(everything=True)
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            thread.join()
        assert errors == []
        self._referee.append(row for row in made if row["id"] % 2)


def _far_row(number: int) -> Row:
    return {**dict.fromkeys(COLUMNS), "id": number, "region": REGIONS[number % 3]}


def _by_row_id(table: Table) -> dict[int, Values]:
    found = table.scan(columns=[*COLUMNS, "_row_id"]).to_pylist()
    rows = {row["_row_id"]: tuple(row[name] for name in COLUMNS) for row in found}
    assert len(rows) == len(found), "two rows have one row id"
    return rows


def _applied(rows: dict[int, Values], feed: list[Row]) -> dict[int, Values]:
    """The rows after these changes; fails when one does not fit what is there."""
    for change in feed:
        number, values = change["_row_id"], tuple(change[name] for name in COLUMNS)
        if change["_change_type"] in ("delete", "update_before"):
            assert rows.pop(number) == values
        else:
            assert number not in rows
            rows[number] = values
    return rows
