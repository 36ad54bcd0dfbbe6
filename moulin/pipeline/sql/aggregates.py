"""Aggregates over a stand-in that catalog statistics can answer: counts, minima and maxima.

Spark's optimizer brings an aggregate over a table into one form: an Aggregate over a Filter over the table. When all
that it asks for are totals of rows that are told apart by `Wanted.by`, then these totals take the place of the rows,
and counts become sums of them.
"""

# Decisions: docs/decisions/0302

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from moulin.pipeline.sql.catalyst import Catalyst, Expression, LogicalPlan, items
from moulin.pipeline.sql.expressions import Node, read_expression
from moulin.pipeline.sql.optimizer import Leaf, leaf_of
from moulin.table.read.totals import Wanted

_AGGREGATES = ("Aggregate", "Distinct")
_FUNCTIONS = ("Count", "Min", "Max")
_PLAIN = frozenset({*_AGGREGATES, "Filter", "LogicalRDD", "Project", "SubqueryAlias", "View"})


@dataclass(frozen=True, slots=True)
class Answerable:
    """An aggregate of a statement, the table that it is over, the filter on its rows, and the totals that answer it."""

    node: LogicalPlan
    leaf: Leaf
    filter: Expression | None
    wanted: Wanted
    optimized: LogicalPlan

    def answered(self, catalyst: Catalyst, totals: DataFrame) -> LogicalPlan:
        """The aggregate of totals, whose columns are those of `Wanted`, the number of rows after those of `by`."""
        own = dict(zip(self.leaf.columns.values(), items(self.leaf.plan.output()), strict=True))
        rows = catalyst.under([own[name] for name in self.wanted.by], totals)
        columns = items(rows.output())[len(self.wanted.by) :]
        known = dict(zip([("Count", ""), *_ends(self.wanted)], columns, strict=True))
        if self.filter is not None:
            rows = catalyst.filtered(rows, self.filter)
        replaced = []
        for expression in items(self.optimized.aggregateExpressions()):
            for node, asked in _aggregated(expression, self.leaf):
                assert asked is not None
                found = expression.collect(catalyst.every).apply(node.index)
                replaced.append((found, catalyst.total(asked[0], known[asked])))
        return catalyst.aggregated(self.optimized, rows, replaced)


def answerable(
    catalyst: Catalyst, nodes: Sequence[tuple[str, LogicalPlan]], is_known: Callable[[Leaf], bool]
) -> Iterator[Answerable]:
    """The aggregates among the nodes of an analyzed plan that totals may answer, over leaves that are known."""
    for name, node in nodes:
        if name not in _AGGREGATES or catalyst.is_correlated(node) or not _may_be(name, node):
            continue
        below = catalyst.nodes(node)
        if sum(one in _AGGREGATES for one, _ in below) != 1 or not all(one in _PLAIN for one, _ in below):
            continue
        found = [leaf_of(one) for name, one in below if name == "LogicalRDD"]
        if len(found) != 1 or not is_known(found[0]):
            continue
        if (one := _read(node, catalyst.optimized(node))) is not None:
            yield one


def _may_be(name: str, node: LogicalPlan) -> bool:
    """Whether totals may answer all functions of an aggregate. It takes less time than to optimize it."""
    if name == "Distinct":
        return True
    functions = (
        one.operands[0].kind
        for expression in items(node.aggregateExpressions())
        for one in _nodes(read_expression(expression.toJSON()))
        if one.kind == "AggregateExpression"
    )
    return all(kind in _FUNCTIONS for kind in functions)


def _read(node: LogicalPlan, optimized: LogicalPlan) -> Answerable | None:
    """The aggregate, if its optimized plan has the form that totals answer."""
    if optimized.nodeName() != "Aggregate" or _ids(optimized) != _ids(node):
        return None
    below, condition = optimized.child(), None
    if below.nodeName() == "Project":
        below = below.child()
    if below.nodeName() == "Filter":
        below, condition = below.child(), below.condition()
        if not condition.deterministic():
            return None
    if below.nodeName() != "LogicalRDD":
        return None
    leaf = leaf_of(below)
    by = [_column(read_expression(one.toJSON()), leaf) for one in items(optimized.groupingExpressions())]
    if condition is not None:
        by += [_column(one, leaf) for one in _nodes(read_expression(condition.toJSON())) if _is_column(one)]
    ends: list[tuple[str, str]] = []
    for expression in items(optimized.aggregateExpressions()):
        for _, asked in _aggregated(expression, leaf):
            if asked is None:
                return None
            ends.append(asked)
    names = [name for name in dict.fromkeys(by) if name is not None]
    if None in by:
        return None
    least, greatest = (tuple(dict.fromkeys(name for kind, name in ends if kind == one)) for one in ("Min", "Max"))
    return Answerable(node, leaf, condition, Wanted(tuple(names), least, greatest), optimized)


def _ends(wanted: Wanted) -> list[tuple[str, str]]:
    return [*(("Min", name) for name in wanted.least), *(("Max", name) for name in wanted.greatest)]


def _aggregated(expression: Expression, leaf: Leaf) -> Iterator[tuple[Node, tuple[str, str] | None]]:
    """The aggregates in an expression, and what each asks for: Count, or Min or Max with a column; None for others."""
    for node in _nodes(read_expression(expression.toJSON())):
        if node.kind == "AggregateExpression":
            yield node, _asked(node, leaf)


def _asked(node: Node, leaf: Leaf) -> tuple[str, str] | None:
    if node.fields["isDistinct"] or len(node.operands) != 1 or len(node.operands[0].operands) != 1:
        return None
    (function,), (operand,) = node.operands, node.operands[0].operands
    if function.kind == "Count":
        is_rows = operand.kind == "Literal" and operand.fields["value"] is not None
        return ("Count", "") if is_rows else None
    name = _column(operand, leaf)
    return None if name is None or function.kind not in ("Min", "Max") else (function.kind, name)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for operand in node.operands:
        yield from _nodes(operand)


def _is_column(node: Node) -> bool:
    return node.kind == "AttributeReference"


def _column(node: Node, leaf: Leaf) -> str | None:
    """The column of the table that a node is."""
    return leaf.columns.get(int(node.fields["exprId"]["id"])) if _is_column(node) else None


def _ids(plan: LogicalPlan) -> Sequence[int]:
    return [int(attribute.exprId().id()) for attribute in items(plan.output())]
