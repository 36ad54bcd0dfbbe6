"""DuckDB does what a script asks, on a plain table: which rows there must be, with which row ids, and the counts.

The table has one column more, `_rid`: the `_row_id` that the lake gave to the row, null for rows that are new. DuckDB
carries it through updates, as the lake must.
"""

# Decisions: docs/decisions/0249

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from tests.pipeline.statements.script_grammar import COLUMNS, OTHER, Row, Script, Statement

_NAMES = ", ".join(COLUMNS)
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Expected:
    """What a statement must answer."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class Refused(Exception):
    """The lake must refuse the statement; the message is a part of its error."""


class Referee:
    def __init__(self, script: Script) -> None:
        self._is_keyed = script.is_keyed
        self._con = duckdb.connect(config={"threads": 1})
        self._con.execute("create schema shop")
        self._con.execute(f"create table shop.t ({_declared(COLUMNS)}, _rid bigint)")
        self._con.execute(f"create table shop.o ({_declared(OTHER)})")
        self._con.execute(f"create temp table s ({_declared(COLUMNS)})")
        self._load("shop.o", [list(row.values()) for row in script.other])

    def rows(self) -> Counter[Values]:
        return Counter(self._all(f"select {_NAMES} from shop.t"))

    def check_row_ids(self, found: Mapping[int, Values]) -> None:
        """Rows that are not new have the row ids that they had; the others learn theirs."""
        known = dict(self._all(f"select _rid, ({_NAMES}) from shop.t where _rid is not null"))
        for number, values in known.items():
            assert found.get(number) == tuple(values), f"row id {number} was that of {values}, now {found.get(number)}"
        fresh = [(*values, number) for number, values in found.items() if number not in known]
        assert Counter(row[:-1] for row in fresh) == Counter(
            self._all(f"select {_NAMES} from shop.t where _rid is null")
        )
        self._con.execute("delete from shop.t where _rid is null")
        self._load("shop.t", fresh)

    # What happens between statements

    def append(self, rows: Iterable[Row]) -> Expected:
        self._con.execute("delete from s")
        self._load("s", [list(row.values()) for row in rows])
        return self._put()

    def delete(self, ids: Sequence[int]) -> None:
        self._con.execute("delete from shop.t where id in (select unnest(?))", [list(ids)])

    # Statements

    def run(self, statement: Statement) -> Expected:
        """Raises Refused, having changed nothing."""
        self._con.execute("begin")
        try:
            expected: Expected = getattr(self, f"_{statement.kind}")(statement)
        except Refused:
            self._con.execute("rollback")
            raise
        self._con.execute("commit")
        return expected

    def _insert(self, statement: Statement) -> Expected:
        self._stage(statement.tail)
        return self._put()

    def _overwrite(self, statement: Statement) -> Expected:
        """All rows are new, on a keyed table too."""
        self._stage(statement.tail)
        deleted = self._count("delete from shop.t")
        return Expected(self._put().inserted, deleted=deleted)

    def _partition(self, statement: Statement) -> Expected:
        self._con.execute("delete from s")
        self._con.execute(f"insert into s {statement.tail}")
        self._con.execute(f"update s set {statement.where}")
        return self._replaced(statement.where)

    def _replace(self, statement: Statement) -> Expected:
        self._stage(statement.tail)
        return self._replaced(statement.where)

    def _replaced(self, where: str) -> Expected:
        others = "and id not in (select id from s)" if self._is_keyed else ""
        deleted = self._count(f"delete from shop.t as t where ({where}) {others}")
        put = self._put()
        return Expected(put.inserted, put.updated, deleted)

    def _truncate(self, statement: Statement) -> Expected:
        return Expected(deleted=self._count("delete from shop.t"))

    def _update(self, statement: Statement) -> Expected:
        return Expected(updated=self._count(statement.text))

    def _delete(self, statement: Statement) -> Expected:
        return Expected(deleted=self._count(statement.text))

    def _merge(self, statement: Statement) -> Expected:
        if self._all(statement.matched):
            raise Refused("More than one source row matches")
        self._con.execute("update shop.t set _rid = -1 - rowid where _rid is null")  # what was there is not new
        there = self._count("select count(*) from shop.t")
        affected = self._count(statement.duckdb)
        inserted = [number for (number,) in self._all("select id from shop.t where _rid is null")]
        if self._is_keyed and len(set(inserted)) < len(inserted):
            raise Refused("more than once")
        kept = {number for (number,) in self._all("select id from shop.t where _rid is not null")}
        if self._is_keyed and kept & set(inserted):
            raise Refused("has a row of the key")
        deleted = there + len(inserted) - self._count("select count(*) from shop.t")
        self._con.execute("update shop.t set _rid = null where _rid < 0")
        return Expected(len(inserted), affected - len(inserted) - deleted, deleted)

    def _stage(self, tail: str) -> None:
        """Let `s` have the rows of an insert."""
        self._con.execute("delete from s")
        self._con.execute(f"insert into s {tail}")

    def _put(self) -> Expected:
        """Insert the rows of `s`, by key where there is one."""
        total = self._count("select count(*) from s")
        if not self._is_keyed:
            self._con.execute(f"insert into shop.t select {_NAMES}, null from s")
            return Expected(inserted=total)
        if total > self._count("select count(distinct id) from s"):
            raise Refused("more than once")
        columns = ", ".join(f"s.{name}" for name in COLUMNS)
        self._con.execute(
            f"create or replace temp table put as select {columns}, t._rid from s left join shop.t as t using (id)"
        )
        updated = self._count("delete from shop.t where id in (select id from s)")
        self._con.execute("insert into shop.t from put")
        return Expected(total - updated, updated)

    def _load(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            self._con.execute(f"insert into {table} values ({', '.join('?' * len(row))})", list(row))

    def _count(self, text: str) -> int:
        return int(self._all(text)[0][0])

    def _all(self, text: str) -> list[Values]:
        return self._con.execute(text).fetchall()


def _declared(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
