"""Random scripts of statements that change one table, and of what may happen to it between them.

Every expression means the same in Spark's ANSI mode and in DuckDB: whole numbers that stay small, text in ASCII, dates,
booleans, nulls, and doubles that are multiples of one half. Statements change `shop.t`; they read it and `shop.o`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from random import Random
from typing import Any, TypeVar

COLUMNS = {
    "id": "bigint",
    "n": "int",
    "name": "string",
    "day": "date",
    "flag": "boolean",
    "x": "double",
    "region": "string",
}
OTHER = {"id": "bigint", "n": "int", "name": "string", "region": "string"}
KINDS = ("event", "keyed", "partitioned", "regions")
KEYED = ("keyed", "regions")
REGIONS = ("eu", "us", "ap")
IDS = 24
APART = 10_000
"""Ids from here on belong to a writer beside the script."""

Row = dict[str, Any]
Scope = Sequence[tuple[str, Sequence[str]]]
"""Names that may stand before columns, and the columns that each of them has."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Statement:
    """A statement as the lake gets it, and what the referee needs to do the same.

    `kind` is insert, overwrite, replace, partition, update, delete, merge or truncate. `tail` are the columns and rows
    of those that insert, `where` the rows that go before, `duckdb` the text for DuckDB where it is another one, and
    `matched` for MERGE a query of how often each row of the target is matched by a clause.
    """

    kind: str
    text: str
    tail: str = ""
    where: str = ""
    duckdb: str = ""
    matched: str = ""


@dataclass(frozen=True)
class Step:
    """Something that happens: a statement, or `what` of compact, append, put, delete, with its rows or ids.

    With `beside`, another thread appends rows and deletes some of them again while the statement runs; with `compacts`
    it compacts the table, too.
    """

    what: str
    statement: Statement | None = None
    rows: tuple[Row, ...] = ()
    ids: tuple[int, ...] = ()
    beside: bool = False
    compacts: bool = False

    def __str__(self) -> str:
        if self.statement is not None:
            return self.statement.text + f";  -- beside a writer that compacts: {self.compacts}" * self.beside
        return f"-- {self.what} {list(self.rows) or list(self.ids) or ''}"


@dataclass(frozen=True)
class Script:
    seed: int
    kind: str
    rows: tuple[Row, ...]
    other: tuple[Row, ...]
    steps: tuple[Step, ...] = field(default=())

    @property
    def is_keyed(self) -> bool:
        return self.kind in KEYED

    def __str__(self) -> str:
        lines = [f"-- script {self.seed} on a table of kind {self.kind}", f"-- shop.t: {list(self.rows)}"]
        return "\n".join([*lines, f"-- shop.o: {list(self.other)}", *map(str, self.steps)])


def make_script(seed: int, steps: int) -> Script:
    return _Grammar(seed).script(steps)


class _Grammar:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = Random(seed)
        self._kind = KINDS[seed % len(KINDS)]
        self._keyed = self._kind in KEYED
        self._beside = False  # whether statements may touch and read ids below APART alone

    def script(self, steps: int) -> Script:
        rows = tuple(self._row(number) for number in self._random.sample(range(IDS), 10))
        numbers = self._random.sample(range(IDS), 7)
        other = tuple({name: value for name, value in self._row(n).items() if name in OTHER} for n in numbers)
        return Script(self._seed, self._kind, rows, other, tuple(self._step() for _ in range(steps)))

    def _step(self) -> Step:
        between = ["compact", "append", *["put", "delete"] * self._keyed]
        if self._chance(0.25):
            return self._between(self._choice(between))
        self._beside = self._chance(0.12)
        kinds = ["insert", "update", "delete", "merge", "merge", "update"]
        if not self._beside:
            kinds += ["overwrite", "replace", *["partition"] * (self._kind == "partitioned")]
            kinds += ["truncate"] * self._chance(0.3)
        kind = self._choice(kinds)
        compacts = self._beside and self._chance(0.5)
        made = Step(kind, getattr(self, f"_{kind}")(), beside=self._beside, compacts=compacts)
        self._beside = False
        return made

    def _between(self, what: str) -> Step:
        if what == "compact":
            return Step(what)
        numbers = tuple(self._random.sample(range(IDS), self._choice([1, 2, 3])))
        if what == "delete":
            return Step(what, ids=numbers)
        return Step(what, rows=tuple(self._row(number) for number in numbers))

    # Rows

    def _row(self, number: int) -> Row:
        return {
            "id": number,
            "n": self._maybe(self._choice(range(-3, 9))),
            "name": self._maybe(self._choice(["ann", "bob", "Cy", "d", ""])),
            "day": self._maybe(date(2024, self._choice([1, 2, 3]), self._choice(range(1, 29)))),
            "flag": self._maybe(self._chance(0.5)),
            "x": self._maybe(self._choice(range(-4, 9)) / 2),
            "region": self._choice(REGIONS),
        }

    def _maybe(self, value: _T) -> _T | None:
        return None if self._chance(0.2) else value

    def _literal(self, kind: str) -> str:
        value = self._row(self._choice(range(IDS)))[{"string": "name", "bigint": "id"}.get(kind) or _OF_TYPE[kind]]
        return _written(value)

    # Statements

    def _insert(self) -> Statement:
        tail = self._rows_tail()
        return Statement("insert", f"insert into shop.t {tail}", tail)

    def _overwrite(self) -> Statement:
        tail = self._rows_tail()
        return Statement("overwrite", f"insert overwrite shop.t {tail}", tail)

    def _replace(self) -> Statement:
        tail = self._query_tail(list(COLUMNS))
        where = self._condition([("t", list(COLUMNS))], 1)
        return Statement("replace", f"insert into shop.t replace where {where} {tail}", tail, where)

    def _partition(self) -> Statement:
        columns = [name for name in COLUMNS if name != "region"]
        region = self._choice(REGIONS)
        tail = self._query_tail(columns)
        text = f"insert overwrite shop.t partition (region = '{region}') {tail}"
        return Statement("partition", text, f"({', '.join(columns)}) {tail}", f"region = '{region}'")

    def _truncate(self) -> Statement:
        return Statement("truncate", "truncate table shop.t")

    def _update(self) -> Statement:
        name = self._choice(["t", "t", "a"])
        head = "update shop.t" + f" as {name}" * (name != "t")
        scope = [(name, list(COLUMNS))]
        wanted = [column for column in COLUMNS if column not in ("id", "region") or not self._keyed]
        columns = self._random.sample(wanted, self._choice([1, 1, 2, 3]))
        if "id" in columns and self._beside:
            columns = ["n"]
        given = [f"{column} = {self._value(column, scope, 1)}" for column in columns]
        return Statement("update", f"{head} set {', '.join(given)}{self._where(scope)}")

    def _delete(self) -> Statement:
        return Statement("delete", f"delete from shop.t{self._where([('t', list(COLUMNS))], 0.95)}")

    def _where(self, scope: Scope, share: float = 0.85) -> str:
        conditions = [self._condition(scope, 1)] if self._chance(share) else []
        conditions += [f"{scope[0][0]}.id < {APART}"] * self._beside
        if len(conditions) == 1:
            return f" where {conditions[0]}"  # `where (flag)` would be an alias with a column to Spark
        return f" where {' and '.join(f'({one})' for one in conditions)}" if conditions else ""

    def _merge(self) -> Statement:
        source = self._source()
        on = self._choice(["t.id = s.id"] * 4 + ["t.id = s.id and t.region = s.region", "t.name = s.name", "t.n < s.n"])
        if self._keyed and self._chance(0.7):
            on = "t.id = s.id"
        if self._beside:
            on += f" and t.id < {APART}"
        both = [("t", list(COLUMNS)), ("s", list(COLUMNS))]
        matched = self._matched(both, on)
        clauses = list(matched)
        if self._chance(0.7) or not clauses:
            clauses.append(self._not_matched(self._choice(["", " by target"])))
        if self._chance(0.3):
            clauses += self._by_source([both[0]])
        head = f"merge into shop.t as t using {source} as s on {on}"
        texts = [f"{when} then {spark}" for when, spark, _ in clauses]
        theirs = [f"{when} then {duckdb}" for when, _, duckdb in clauses]
        chosen = [when.partition(" and ")[2] or "true" for when, _, _ in matched]
        return Statement(
            "merge",
            " ".join([head, *texts]),
            duckdb=" ".join([head, *theirs]),
            matched=f"select count(*) from shop.t as t, {source} as s where ({on}) and "
            f"({' or '.join(f'({one})' for one in chosen) or 'false'}) group by t.rowid having count(*) > 1",
        )

    def _matched(self, both: Scope, on: str) -> list[tuple[str, str, str]]:
        """Clauses, each as the condition, what to do, and what to do in the words for DuckDB."""
        made = []
        by_key = on.startswith("t.id = s.id")
        for last in self._choice([(), (True,), (True,), (False, True)]):
            when = "when matched" + f" and ({self._condition(both, 0)})" * (not last or self._chance(0.4))
            if self._chance(0.25):
                made.append((when, "delete", "delete"))
            elif self._chance(0.3) and (by_key or not self._keyed):
                given = ", ".join(f"{column} = s.{column}" for column in COLUMNS)
                made.append((when, "update set *", f"update set {given}"))
            else:
                wanted = [column for column in COLUMNS if column not in ("id", "region") or not self._keyed]
                wanted = [column for column in wanted if column != "id" or not self._beside]
                columns = self._random.sample(wanted, self._choice([1, 2, 3]))
                given = ", ".join(f"{column} = {self._value(column, both, 0)}" for column in columns)
                made.append((when, f"update set {given}", f"update set {given}"))
        return made

    def _not_matched(self, by: str) -> tuple[str, str, str]:
        source = [("s", list(COLUMNS))]
        when = f"when not matched{by}" + f" and ({self._condition(source, 0)})" * self._chance(0.3)
        if self._chance(0.4):
            given = f"({', '.join(COLUMNS)}) values ({', '.join(f's.{column}' for column in COLUMNS)})"
            return when, "insert *", f"insert {given}"
        columns = ["id", "region", *self._random.sample([c for c in COLUMNS if c not in ("id", "region")], 3)]
        number = "s.id" if self._chance(0.8) else f"s.id + {IDS}"
        values = [number, *(self._value(column, source, 0) for column in columns[1:])]
        done = f"insert ({', '.join(columns)}) values ({', '.join(values)})"
        return when, done, done

    def _by_source(self, target: Scope) -> list[tuple[str, str, str]]:
        guard = [f"t.id < {APART}"] * self._beside
        conditions = [*guard, *[f"({self._condition(target, 0)})"] * self._chance(0.7)]
        when = "when not matched by source" + "".join(f" and {one}" for one in conditions)
        if self._chance(0.4):
            return [(when, "delete", "delete")]
        column = self._choice(["n", "name", "day", "flag", "x"])
        done = f"update set {column} = {self._value(column, target, 0)}"
        return [(when, done, done)]

    # Queries whose rows are inserted or merged

    def _rows_tail(self) -> str:
        if self._chance(0.3):
            columns = self._random.sample(list(COLUMNS), 5)
            columns += [name for name in ("id", "region") if name not in columns]
            return f"({', '.join(columns)}) {self._values(columns)}"
        if self._chance(0.25):
            columns = self._random.sample(list(COLUMNS), len(COLUMNS))
            columns = [c for c in columns if c in ("id", "region") or self._chance(0.8)]
            return f"by name {self._query(columns)}"
        return self._query_tail(list(COLUMNS))

    def _query_tail(self, columns: Sequence[str]) -> str:
        return self._values(columns) if self._chance(0.4) else self._query(columns)

    def _values(self, columns: Sequence[str]) -> str:
        count = self._choice([1, 2, 4])
        numbers = self._random.sample(range(IDS), count)
        if self._chance(0.08):
            numbers[-1] = numbers[0]
        rows = [self._row(number) for number in numbers]
        return "values " + ", ".join(f"({', '.join(_written(row[column]) for column in columns)})" for row in rows)

    def _query(self, columns: Sequence[str]) -> str:
        """One over the other table or, unless a writer is beside it, over the target itself."""
        own = not self._beside and self._chance(0.3)
        alias = self._choice(["q", "r"])
        scope = [(alias, list(COLUMNS if own else OTHER))]
        listed = []
        for column in columns:
            if column == "id":
                value = f"{alias}.id" + f" + {self._choice([0, 1, IDS])}" * self._chance(0.3)
            elif column == "region":
                value = f"{alias}.region" if self._chance(0.7) else _written(self._choice(REGIONS))
            else:
                value = self._value(column, scope, 0)
            listed.append(f"{value} as {column}")
        where = f" where {self._condition(scope, 0)}" * self._chance(0.6)
        table = "shop.t" if own else "shop.o"
        text = f"select {', '.join(listed)} from {table} as {alias}{where}"
        return f"{text} union all {text}" if self._chance(0.05) else text

    def _source(self) -> str:
        if self._chance(0.4):
            columns = list(COLUMNS)
            casts = ", ".join(f"cast({column} as {kind}) as {column}" for column, kind in COLUMNS.items())
            return f"(select {casts} from ({self._values(columns)}) as v({', '.join(columns)}))"
        return f"({self._query(list(COLUMNS))})"

    # Expressions

    def _value(self, column: str, scope: Scope, depth: int) -> str:
        """A value for a column of the table."""
        if column == "region":
            return self._choice([_written(self._choice(REGIONS)), f"{self._choice([s[0] for s in scope])}.region"])
        if column == "id":
            return f"{scope[0][0]}.id + {self._choice([0, 1, 100])}"
        make = {"int": self._number, "string": self._text, "date": self._date, "boolean": self._boolean}
        return make.get(COLUMNS[column], self._double)(scope, depth)

    def _column(self, scope: Scope, kind: str) -> str | None:
        found = [f"{name}.{column}" for name, columns in scope for column in columns if COLUMNS[column] == kind]
        return self._choice(found) if found else None

    def _of(self, scope: Scope, kind: str) -> str:
        found = self._column(scope, kind)
        return found if found is not None and self._chance(0.85) else _typed(self._literal(kind), kind)

    def _number(self, scope: Scope, depth: int) -> str:
        a, b = self._of(scope, "int"), self._of(scope, "int")
        forms = [a, f"{a} + {self._choice([1, 5])}", f"{a} - {b}", f"-({a})", f"({a}) % 7", f"coalesce({a}, {b}, 0)"]
        forms += [f"nullif({a}, 3)", f"abs({a})", f"greatest({a}, {b})", f"length({self._of(scope, 'string')})"]
        forms += [f"month({self._of(scope, 'date')})", "null"]
        forms += [f"case when {self._condition(scope, 0)} then {a} else {b} end"]
        if depth:
            forms += [self._scalar(scope, "n")] * 5
        return self._choice(forms)

    def _scalar(self, scope: Scope, column: str) -> str:
        """A sub-query with one value, which may look at the row outside."""
        outer = scope[0][0]
        table, name = self._choice([("shop.o", "i"), ("shop.t", "j")] if not self._beside else [("shop.o", "i")])
        related = self._choice(["", f" where {name}.id = {outer}.id", f" where {name}.region = {outer}.region"])
        return f"(select {self._choice(['max', 'min'])}({name}.{column}) from {table} as {name}{related})"

    def _text(self, scope: Scope, depth: int) -> str:
        a, b = self._of(scope, "string"), self._of(scope, "string")
        forms = [a, f"upper({a})", f"lower({a})", f"substr({a} || 'x', 1, 5)", f"substr({a} || {b}, 1, 4)"]
        forms += [f"coalesce({a}, 'none')", f"nullif({a}, 'bob')", "'q''s'", "null"]
        forms += [f"case when {self._condition(scope, 0)} then {a} else {b} end"]
        if depth:
            forms += [self._scalar(scope, "name")] * 3
        return self._choice(forms)

    def _date(self, scope: Scope, depth: int) -> str:
        a = self._of(scope, "date")
        return self._choice([a, f"{a} + 1", f"{a} - 3", "date '2024-02-29'", f"coalesce({a}, date '2024-01-01')"])

    def _boolean(self, scope: Scope, depth: int) -> str:
        a = self._of(scope, "boolean")
        return self._choice([a, f"not {a}", "true", f"({a} or {self._condition(scope, 0)})", "null"])

    def _double(self, scope: Scope, depth: int) -> str:
        a, b = self._of(scope, "double"), self._of(scope, "double")
        return self._choice([a, f"{a} + 0.5", f"{a} - {b}", f"-({a})", f"{a} * 0.5 * 2", f"coalesce({a}, {b})", "null"])

    def _condition(self, scope: Scope, depth: int) -> str:
        """One that is true, false or null."""
        number, text = self._of(scope, "int"), self._of(scope, "string")
        ids = self._column(scope, "bigint") or "1"
        few = self._random.sample(range(IDS), 6)
        forms = [
            f"{number} {self._choice(['=', '<', '>=', '<>'])} {self._of(scope, 'int')}",
            f"{ids} in ({', '.join(map(str, few))})",
            f"{ids} % 3 = {self._choice([0, 1, 2])}",
            f"{ids} between {min(few)} and {max(few)}",
            f"{ids} = {few[0]}",
            f"{text} like '{self._choice(['a%', '%b', '%'])}'",
            f"{text} is {self._choice(['', 'not '])}null",
            f"{number} is not distinct from {self._of(scope, 'int')}",
            f"{self._column(scope, 'string')} in ('eu', 'ann', 'd')",
            f"{self._of(scope, 'date')} > date '2024-02-01'",
            f"{self._of(scope, 'double')} <= 1.5",
            self._of(scope, "boolean"),
            "region = 'eu'" if len(scope) == 1 else f"{scope[0][0]}.region = 'eu'",
        ]
        if depth:
            forms += [self._asking(scope) for _ in range(6)]
            forms.append(f"({self._condition(scope, 0)}) {self._choice(['and', 'or'])} ({self._condition(scope, 0)})")
            forms.append(f"not ({self._condition(scope, 0)})")
        return self._choice(forms)

    def _asking(self, scope: Scope) -> str:
        """A condition with a sub-query."""
        outer = scope[0][0]
        table, name = self._choice([("shop.o", "i"), ("shop.t", "j")] if not self._beside else [("shop.o", "i")])
        inner = [(name, list(OTHER))]
        where = self._condition(inner, 0)
        return self._choice(
            [
                f"{outer}.id in (select {name}.id from {table} as {name} where {where})",
                f"{outer}.id not in (select {name}.id from {table} as {name} where {where})",
                f"exists (select 1 from {table} as {name} where {name}.id = {outer}.id and {where})",
                f"not exists (select 1 from {table} as {name} where {name}.region = {outer}.region and {where})",
                f"{outer}.n > {self._scalar(scope, 'n')}",
            ]
        )

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _choice(self, values: Sequence[_T]) -> _T:
        return self._random.choice(values)


_OF_TYPE = {"int": "n", "date": "day", "boolean": "flag", "double": "x"}


def _written(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case date():
            return f"date '{value}'"
        case str():
            return f"'{value}'"
    return str(value)


def _typed(literal: str, kind: str) -> str:
    """A literal that has its type even when it is null."""
    return f"cast(null as {kind})" if literal == "null" else literal
