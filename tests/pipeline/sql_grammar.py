"""Random nested queries over equally named tables of two databases: mixtures of names, CTEs, aliases and scopes.

Most columns are taken from what is in scope, under one of the names they have there; some are not, so that a share of
the queries is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

TABLES = {
    "shop.orders": "id bigint, v string, s struct<f:bigint,id:bigint>, tags array<bigint>",
    "other.orders": "id bigint, v string, w bigint",
    "shop.items": "id bigint, orders struct<id:bigint,f:bigint>, shop struct<orders:struct<id:bigint>>",
}
_NUMBERS = {
    "shop.orders": ["id", "s.f", "s.id", "tags[0]"],
    "other.orders": ["id", "w"],
    "shop.items": ["id", "orders.id", "orders.f", "shop.orders.id"],
}
_NAMES = ["orders", "items", "shop", "other", "o"]
_ANY = ["id", "orders.id", "shop.orders.id", "other.orders.id", "shop.items.id", "items.id", "shop.id", "o.id", "s.f"]
_AGGREGATES = ["count(*)", "max({0})", "sum({0})", "min({0})"]


_T = TypeVar("_T")


@dataclass(frozen=True)
class Source:
    """Something in FROM: the names that may stand before its columns, and its columns that are whole numbers."""

    qualifiers: tuple[str, ...]
    columns: tuple[str, ...]


Scope = Sequence[Source]


class Grammar:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def queries(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield self.query(self._choice([1, 1, 2]), (), {})

    def query(self, depth: int, outer: Scope, ctes: dict[str, Source], columns: int = 2, plain: bool = False) -> str:
        """One with this many columns, all whole numbers; `plain` when it may not have a star."""
        ctes, head = dict(ctes), ""
        if depth and self._chance(0.3):
            head = self._with(depth - 1, ctes)
        body = self._select(depth, outer, ctes, columns, plain)
        if depth and self._chance(0.15):
            operator = self._choice(["union all", "union", "except", "intersect"])
            body = f"{body} {operator} {self._select(depth - 1, outer, ctes, columns, plain=True)}"
        return head + body

    def _with(self, depth: int, ctes: dict[str, Source]) -> str:
        name = self._choice(_NAMES)
        text = self.query(depth, (), ctes, plain=True)
        ctes[name] = Source((name,), ("id", "n"))
        return f"with {name}(id, n) as ({text}) "

    def _select(self, depth: int, outer: Scope, ctes: dict[str, Source], columns: int, plain: bool) -> str:
        scope: list[Source] = []
        source = self._sources(depth, outer, ctes, scope)
        where = self._where(depth, scope, outer, ctes)
        if self._chance(0.2):
            by = self._column(scope)
            rest = [self._aggregate(scope) for _ in range(columns - 1)]
            having = f" having {self._condition(depth, [], outer, ctes, self._aggregate(scope))}" * self._chance(0.3)
            return f"select {', '.join([by, *rest])} from {source}{where} group by {by}{having}"
        if not plain and self._chance(0.25):
            stars = ["*", *(f"{name}.*" for one in scope for name in one.qualifiers)]
            return f"select {self._hint(scope)}{self._choice(stars)} from {source}{where}"
        listed = [self._value(depth, scope, ctes) for _ in range(columns)]
        return f"select {self._hint(scope)}{', '.join(listed)} from {source}{where}"

    def _hint(self, scope: Scope) -> str:
        kind = self._choice(["broadcast", "merge", "shuffle_hash"])
        name = self._choice([name for one in scope for name in one.qualifiers] or ["o"])
        return f"/*+ {kind}({name}) */ " * self._chance(0.1)

    # FROM

    def _sources(self, depth: int, outer: Scope, ctes: dict[str, Source], scope: list[Source]) -> str:
        text = self._source(depth, outer, ctes, scope, first=True)
        for _ in range(self._choice([0, 0, 0, 0, 1, 1, 2] if depth else [0, 0, 1])):
            before = list(scope)
            right = self._source(depth, outer, ctes, scope, first=False)
            kind = self._choice(["join", "left join", "full join", "left semi join", "left anti join", "using", ","])
            if kind == ",":
                text = f"{text}, {right}"
            elif kind == "using":
                text = f"{text} join {right} using (id)"
            else:
                on = f"{self._column(before, scope)} = {self._column(scope[len(before) :], scope)}"
                if depth and self._chance(0.1):
                    on += f" and exists ({self.query(0, scope, ctes, 1, plain=True)})"
                text = f"{text} {kind} {right} on {on}"
                if "semi" in kind or "anti" in kind:
                    del scope[len(before) :]
        if self._chance(0.07):
            scope.append(Source(("tag",), ("one",)))
            text += f" lateral view explode(array({self._column(scope[:-1])}, 7)) tag as one"
        return text

    def _source(self, depth: int, outer: Scope, ctes: dict[str, Source], scope: list[Source], first: bool) -> str:
        kinds = ["table"] * 6 + ["cte"] * (3 if ctes else 0) + ["values"]
        kinds += ["query"] * 2 * (depth > 0) + ["lateral"] * (depth > 0 and not first)
        kind = self._choice(kinds)
        if kind == "table":
            return self._table(scope)
        if kind == "cte":
            name = self._choice(list(ctes))
            return self._aliased(name, ctes[name].columns, (name,), scope, 0.3)
        if kind == "values":
            alias = self._choice(_NAMES)
            scope.append(Source((alias,), ("id", "n")))
            return f"values (1, 2), (2, 3) as {alias}(id, n)"
        alias = self._choice(_NAMES)
        inner = self.query(depth - 1, list(scope) if kind == "lateral" else (), ctes, plain=True)
        scope.append(Source((alias,), ("id", "n")))
        return f"{'lateral ' * (kind == 'lateral')}({inner}) as {alias}(id, n)"

    def _table(self, scope: list[Source]) -> str:
        name = self._choice(list(TABLES))
        database, table = name.split(".")
        written = self._choice([name, name, name, f"`{database}`.`{table}`", f"{database.upper()} . {table.title()}"])
        written += " tablesample (100 percent)" * self._chance(0.05)
        return self._aliased(written, tuple(_NUMBERS[name]), (name, table), scope, 0.35)

    def _aliased(
        self, written: str, columns: tuple[str, ...], own: tuple[str, ...], scope: list[Source], share: float
    ) -> str:
        if not self._chance(share):
            scope.append(Source(own, columns))
            return written
        alias = self._choice(_NAMES)
        scope.append(Source((alias,), columns))
        return f"{written} as {alias}"

    # WHERE

    def _where(self, depth: int, scope: Scope, outer: Scope, ctes: dict[str, Source]) -> str:
        conditions = []
        if outer and self._chance(0.8):
            conditions.append(f"{self._column(scope)} = {self._column(outer)}")
        if self._chance(0.6):
            conditions.append(self._condition(depth, scope, outer, ctes, self._column(scope)))
        return f" where {self._choice([' and ', ' and ', ' or ']).join(conditions)}" if conditions else ""

    def _condition(self, depth: int, scope: Scope, outer: Scope, ctes: dict[str, Source], left: str) -> str:
        kind = self._choice(["literal", "in", *["exists", "not exists", "in query", "scalar"] * (depth > 0)])
        if kind == "literal":
            return f"{left} {self._choice(['=', '<', '>=', '<>'])} {self._choice([1, 2, 3])}"
        if kind == "in":
            return f"{left} in ({self._choice([1, 2])}, 3)"
        if kind == "in query":
            return f"{left} in ({self.query(depth - 1, (), ctes, 1, plain=True)})"
        inner: list[Source] = []
        source = self._sources(depth - 1, (), ctes, inner)
        where = self._where(depth - 1, inner, scope or outer, ctes)
        if kind == "scalar":
            return f"{left} >= (select {self._aggregate(inner, plain=True)} from {source}{where})"
        return f"{kind} (select 1 from {source}{where})"

    # Values

    def _value(self, depth: int, scope: Scope, ctes: dict[str, Source]) -> str:
        if depth and self._chance(0.15):
            inner: list[Source] = []
            source = self._sources(depth - 1, (), ctes, inner)
            where = self._where(depth - 1, inner, scope, ctes)
            return f"(select {self._aggregate(inner, plain=True)} from {source}{where})"
        if self._chance(0.1):
            return f"sum({self._column(scope)}) over (partition by {self._column(scope)})"
        return self._column(scope)

    def _aggregate(self, scope: Scope, plain: bool = False) -> str:
        return self._choice(_AGGREGATES[1:] if plain else _AGGREGATES).format(self._column(scope))

    def _column(self, some: Scope, scope: Scope = ()) -> str:
        """A column of one of these sources, all of which are in `scope`."""
        scope = scope or some
        if not some or self._chance(0.03):
            return self._choice(_ANY)
        one = self._choice(list(some))
        column = self._choice(list(one.columns))
        if len(scope) == 1 and self._chance(0.25):
            return column
        names = [name for name in one.qualifiers if self._is_clear(name, one, scope)]
        return f"{self._choice(names or list(one.qualifiers))}.{column}"

    def _is_clear(self, name: str, one: Source, scope: Scope) -> bool:
        """Whether the name means this source alone; at times the question is not asked."""
        return self._chance(0.03) or not any(name in other.qualifiers for other in scope if other is not one)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _choice(self, values: Sequence[_T]) -> _T:
        return self._random.choice(values)
