"""Spark's optimizer, asked which rows of a table a query wants, over a stand-in for the table.

A stand-in is a leaf of a plan with the columns of a table and no rows. The optimizer cannot look into it, and moves to
it every filter that the query has for those rows: through CTEs, views, unions, both sides of joins and sub-queries.
A stand-in that is run by mistake fails: it never passes for an empty table.
"""

# Decisions: docs/decisions/0300

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from moulin.pipeline.read.columns import quoted
from moulin.pipeline.sql.catalyst import Catalyst, Expression, LogicalPlan

_LEAF = "LogicalRDD"
_SEPARATOR = "\0"


@dataclass(frozen=True)
class StandIn:
    """A frame that stands for a table, and the number by which its leaves are known in plans.

    `own` has its columns but the last two: those of the table, where they tell where a row is.
    """

    frame: DataFrame
    number: int

    @cached_property
    def own(self) -> DataFrame:
        return without_place(self.frame)


@dataclass(frozen=True)
class Leaf:
    """A stand-in in a plan. Leaves of one stand-in have columns of their own, which `key` tells apart."""

    plan: LogicalPlan
    number: int
    key: int

    @cached_property
    def columns(self) -> dict[int, str]:
        """The names of its columns, by the ids of their attributes."""
        names = [column["name"] for column in json.loads(self.plan.schema().json())["fields"]]
        written = str(self.plan.output().mkString(_SEPARATOR)).split(_SEPARATOR)  # as name#12, or name#12L
        ids = [int(one.rpartition("#")[2].rstrip("L")) for one in written]
        return dict(zip(ids, names, strict=True))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the optimizer asks of a leaf: the rows of a filter, if it has one, and their columns, if it needs any."""

    leaf: Leaf
    filter: Expression | None = None
    columns: bool = True


def without_place(frame: DataFrame) -> DataFrame:
    """The rows of a table to change without where they are, which the last two columns tell."""
    return frame.select(*(F.col(quoted(name)) for name in frame.columns[:-2]))


def make_stand_in(spark: SparkSession, columns: StructType) -> StandIn:
    """A stand-in with these columns."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc.sc()
    strings = jvm.java.util.ArrayList()
    strings.add("a stand-in for a table is planned and never read")
    sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(strings).toSeq()
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.spark.sql.Row"))
    frame = session.createDataFrame(context.parallelize(sequence, 1, tag), session.parseDataType(columns.json()))
    return StandIn(DataFrame(frame, spark), int(frame.logicalPlan().rdd().id()))


def leaves(nodes: Sequence[tuple[str, LogicalPlan]]) -> list[Leaf]:
    """The stand-ins among the nodes of a plan, and other leaves that look like them."""
    return [leaf_of(node) for name, node in nodes if name == _LEAF]


def asked(catalyst: Catalyst, analyzed: LogicalPlan) -> Iterator[Asked]:
    """What is asked of the leaves that the optimizer leaves in a plan."""
    found, told = [], Counter[int]()
    for name, node in catalyst.nodes(catalyst.optimized(analyzed)):
        if name == _LEAF:
            found.append(leaf_of(node))
        elif name in ("Filter", "Project") and (below := node.child()).nodeName() == _LEAF:
            if name == "Filter":
                yield Asked(leaf := leaf_of(below), node.condition())
            elif node.projectList().isEmpty():
                yield Asked(leaf := leaf_of(below), columns=False)
            else:
                continue
            told[leaf.key] += 1
    for leaf in found:  # those that were told of are among them once more
        told[leaf.key] -= 1
        if told[leaf.key] < 0:
            yield Asked(leaf)


def leaf_of(node: LogicalPlan) -> Leaf:
    """A node that looks like a stand-in."""
    output = node.output()
    return Leaf(node, int(node.rdd().id()), int(output.head().exprId().id()) if output.nonEmpty() else -1)
