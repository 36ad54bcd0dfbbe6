"""Safe mode: queries of people who are trusted with the lake's tables, and with nothing else of the machine.

A safe query runs in a session of its own, without the caller's views, functions and settings that reach files. It is
checked twice, each time against lists of what is allowed, so that what nobody thought of is refused:

1. as Spark's parser understands it, before anything is looked up or evaluated: classes of the syntax tree, names of
   functions and hints, and tables, which must be the lake's;
2. as Spark's analyzer understands it, over empty stand-ins for the tables: no other source of rows is left in the plan,
   and no expression runs foreign code or describes files. Stand-ins have the columns of the tables alone, and not the
   hidden ones with which Spark describes files.

Then the tables take the places of the stand-ins, and no hidden column may have come with them.
"""

# Decisions: docs/decisions/0227

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from moulin.errors import InvalidInput, PermissionDenied
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan
from moulin.pipeline.sql.names import PlanCheck, Query, Reference
from moulin.pipeline.sql.safe_functions import (
    ALLOWED_FUNCTIONS,
    ALLOWED_HINTS,
    ALLOWED_TABLE_FUNCTIONS,
    REFUSED_FUNCTIONS,
)

SETTINGS: Mapping[str, str] = {
    "spark.sql.runSQLOnFiles": "false",
    # Else ${env:NAME} anywhere in a text is the value of an environment variable.
    "spark.sql.variable.substitute": "false",
    # EXPLAIN shows addresses of files.
    "spark.sql.redaction.string.regex": r"\w+:/[^\s\],)]*",
}
"""What the session of safe queries has beside the settings of the lake's session."""

_CATALYST = "org.apache.spark.sql.catalyst."
_EXPRESSIONS = f"{_CATALYST}expressions."
_COMMANDS = "org.apache.spark.sql.execution.command."

_UNRESOLVED = """
MultiAlias PlanWithUnresolvedIdentifier RelationTimeTravel UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue
UnresolvedFunction UnresolvedFunctionName UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable UnresolvedOrdinal
UnresolvedPipeAggregateOrdinal UnresolvedQualify UnresolvedRegex UnresolvedRelation UnresolvedStar
UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableOrView
UnresolvedTableValuedFunction
"""
_WRITTEN_EXPRESSIONS = """
Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Collate Concat
CreateNamedStruct Cube CurrentDate CurrentPath CurrentRow CurrentTime CurrentTimestamp Divide EqualNullSafe EqualTo
Exists GreaterThan GreaterThanOrEqual GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction
LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower Multiply NamedArgumentExpression
Not NotLikeAll NotLikeAny Or Overlay PipeExpression PipeOperator RLike Remainder Rollup ScalarSubquery
SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned SortOrder SpecifiedWindowFrame StringLocate StringTrim
StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive UnboundedFollowing
UnboundedPreceding UnresolvedCollation UnresolvedNamedLambdaVariable UnspecifiedFrame WindowExpression
WindowSpecDefinition aggregate.AggregateExpression aggregate.AnyValue aggregate.First aggregate.Last
"""
_NODES = """
Aggregate CTERelationDef CTERelationRef DescribeColumn DescribeFunction DescribeRelation Distinct Except Filter Generate
GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit LocalRelation Offset OneRowRelation Pivot Project
RepartitionByExpression Sample Sort SubqueryAlias Union Unpivot UnresolvedHint WithCTE
"""
_ANALYZED_NODES = "Expand ResolvedHint Range UnionLoop UnionLoopRef Window"
_ANALYZED_COMMANDS = "DescribeColumnCommand DescribeFunctionCommand DescribeTableCommand"
_FOREIGN_EXPRESSIONS = """
CallMethodViaReflection CurrentUser FileSourceConstantMetadataAttribute FileSourceGeneratedMetadataAttribute
FileSourceMetadataAttribute FromAvro FromProtobuf InputFileBlockLength InputFileBlockStart InputFileName PythonUDAF
PythonUDF PythonUDTF ScalaUDF SchemaOfAvro SchemaOfXml ToAvro ToProtobuf TryReflect UnresolvedPolymorphicPythonUDTF
XmlToStructs
"""

_EITHER = {f"{_CATALYST}plans.logical.{name}" for name in _NODES.split()}
_WRITTEN = {
    *_EITHER,
    *(f"{_CATALYST}analysis.{name}" for name in _UNRESOLVED.split()),
    *(f"{_EXPRESSIONS}{name}" for name in _WRITTEN_EXPRESSIONS.split()),
}
_ANALYZED = {
    *_EITHER,
    *(f"{_CATALYST}plans.logical.{name}" for name in _ANALYZED_NODES.split()),
    *(f"{_COMMANDS}{name}" for name in _ANALYZED_COMMANDS.split()),
    f"{_CATALYST}analysis.ResolvedTempView",
}
_FILE_FIELDS = {"file_path", "file_block_start"}  # of the struct in which Spark describes the file of a row
_FOREIGN = frozenset(_FOREIGN_EXPRESSIONS.split())


class SafeSql:
    """Safe queries over the tables of one lake. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark.newSession()
        for key, value in {**spark.conf.getAll, **SETTINGS}.items():
            if self._session.conf.isModifiable(key):
                self._session.conf.set(key, value)
        self._catalyst = Catalyst(self._session)

    @property
    def catalyst(self) -> Catalyst:
        """The parser of its own session."""
        return self._catalyst

    def parse(self, text: str, args: Arguments | None = None) -> LogicalPlan:
        """The plan of a statement, which nothing was found out about."""
        try:
            return self._catalyst.parse(text, args)
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot parse the query: {_reason(error)}") from None

    def query(self, plan: LogicalPlan) -> Query:
        """The query, found to name lake tables alone; nothing was evaluated that may not be."""
        try:
            return Query(self._catalyst, plan, check=PlanCheck(_check_syntax, _check_analyzed))
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot parse the query: {_reason(error)}") from None

    def run(self, query: Query, frames: Mapping[Reference, NamedFrame]) -> DataFrame:
        """The result, with these rows for the references."""
        stand_ins = {reference: self._stand_in(frame) for reference, frame in frames.items()}
        try:
            _check_analyzed(query.analyzed(stand_ins))
            _check_hidden(query.analyzed(frames if query.reads else stand_ins))
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot analyze the query: {_reason(error)}") from None
        return query.run(frames, described=stand_ins)

    def _stand_in(self, frame: NamedFrame) -> NamedFrame:
        """A table without rows and with the same columns."""
        jvm: Any = self._session._jvm
        schema = frame.frame._jdf.schema()
        empty = self._session._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), schema)
        return NamedFrame(DataFrame(empty, self._session), frame.hidden)


def _check_syntax(plan: LogicalPlan) -> None:
    for fields in _parts(json.loads(plan.toJSON())):
        kind = fields["class"].removesuffix("$")
        if kind not in _WRITTEN:
            raise _foreign(kind)
        name = _short(kind)
        if name == "UnresolvedFunction":
            _check_function(_single(fields["nameParts"]), ALLOWED_FUNCTIONS)
            if fields["isInternal"]:
                raise PermissionDenied("A safe query cannot call Spark's internal functions.")
        elif name == "UnresolvedTableValuedFunction":
            _check_function(_single(fields["name"]), ALLOWED_TABLE_FUNCTIONS)
        elif name == "UnresolvedGenerator":
            _check_function(_single(fields["name"]), ALLOWED_FUNCTIONS)
        elif name == "UnresolvedHint" and str(fields["name"]).lower() not in ALLOWED_HINTS:
            raise PermissionDenied(f"A safe query has hints for joins alone, not {fields['name']}: leave it out.")


def _check_analyzed(plan: LogicalPlan) -> None:
    for fields in _parts(json.loads(plan.toJSON())):
        kind = fields["class"].removesuffix("$")
        if kind not in _ANALYZED and not _is_plain(kind):
            raise _foreign(kind)


def _check_hidden(plan: LogicalPlan) -> None:
    """A name that means a column of an outer query over stand-ins may mean Spark's hidden column over the tables."""
    for fields in _parts(json.loads(plan.toJSON())):
        kind = fields.get("dataType")
        if isinstance(kind, dict) and {field["name"] for field in kind.get("fields", ())} >= _FILE_FIELDS:
            raise PermissionDenied("A safe query cannot see the files of a table: leave out _metadata.")


def _foreign(kind: str) -> PermissionDenied:
    return PermissionDenied(f"A safe query cannot have {_short(kind)}: it reads tables of the lake and no more.")


def _is_plain(kind: str) -> bool:
    """Whether it is an expression of Spark's own that computes a value from others."""
    return kind.startswith(_EXPRESSIONS) and _short(kind) not in _FOREIGN


def _check_function(name: str | None, allowed: frozenset[str]) -> None:
    known = (name or "").lower()
    if known in allowed:
        return
    if known in REFUSED_FUNCTIONS:
        raise PermissionDenied(f"A safe query cannot call {known}: {REFUSED_FUNCTIONS[known]}.")
    raise PermissionDenied("A safe query calls functions that Spark documents, by their plain names, and no others.")


def _single(name: Any) -> str | None:
    """The only part of a function's name; None when there are several."""
    if isinstance(name, str):
        return name.removeprefix("[").removesuffix("]")
    parts = {key: value for key, value in name.items() if key != "product-class"}
    return parts["funcName"] if list(parts) == ["funcName"] else None


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """The nodes and expressions in the JSON of a plan, those in fields of others included."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            if isinstance(part, (dict, list)):
                yield from _parts(part)


def _short(kind: str) -> str:
    return kind.rpartition(".")[2]


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError) or "StackOverflowError" in str(error):
        return "it is nested too deep."
    return "it asks for something that this version of Spark does not have."
