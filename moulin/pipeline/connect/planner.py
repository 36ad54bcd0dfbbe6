"""Spark's own planner of Connect's messages. It runs in the driver, in the session of one client's safe queries.

REQUIRES: messages were checked (`allowed.check`), and have no relation that Spark's planner analyzes or runs at once
(`relations.Relations` plans those).
"""

# Decisions: docs/decisions/0265

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pyspark.sql.connect.proto as pb

from moulin.pipeline.sql.catalyst import Expression, LogicalPlan
from moulin.pipeline.sql.safe import SafeSql


class Planner:
    """Thread-safe."""

    def __init__(self, guard: SafeSql) -> None:
        spark = guard.session
        jvm: Any = spark._jvm
        service, proto = jvm.org.apache.spark.sql.connect, jvm.org.apache.spark.connect.proto
        holder = service.service.SessionHolder("moulin", str(uuid4()), spark._jsparkSession)
        self._planner = service.planner.SparkConnectPlanner(holder, jvm.scala.Option.empty())
        self._relation, self._expression = proto.Relation, proto.Expression
        self._catalyst = guard.catalyst
        self._types = jvm.org.apache.spark.sql.types.DataType

    def relation(self, message: pb.Relation) -> LogicalPlan:
        """The unresolved plan of a relation."""
        parsed = self._relation.parseFrom(message.SerializeToString())
        with self._catalyst.active():
            return self._planner.transformRelation(parsed)

    def expression(self, message: pb.Expression) -> Expression:
        parsed = self._expression.parseFrom(message.SerializeToString())
        with self._catalyst.active():
            return self._planner.transformExpression(parsed)

    def type_json(self, ddl: str) -> str:
        """The JSON of the type that a DDL string describes."""
        with self._catalyst.active():
            return str(self._planner.parseDatatypeString(ddl).json())

    def ddl(self, json: str) -> str:
        """The DDL of the columns that the JSON of a schema describes."""
        return str(self._types.fromJson(json).toDDL())
