"""Safe mode: queries of users who may read the lake's tables and nothing else on the machine.

A safe query runs in a session of its own, without the caller's views, functions and settings that reach files. It is
checked twice, each time against allow lists, so that everything unknown is rejected:

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
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from moulin.errors import InvalidInput, PermissionDenied
from moulin.model.view_history import Home
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.sql.catalyst import Arguments, Catalyst, LogicalPlan
from moulin.pipeline.sql.names import CHANGES_FUNCTION, PlanCheck, Query, Reference, is_lake_name
from moulin.pipeline.sql.safe_functions import (
    ALLOWED_FUNCTIONS,
    ALLOWED_HINTS,
    ALLOWED_TABLE_FUNCTIONS,
    REFUSED_FUNCTIONS,
)

_ADDRESS: Final = r"\w+:/[^\s\],)]*"
SETTINGS: Mapping[str, str] = {
    "spark.sql.runSQLOnFiles": "false",
    # Else ${env:NAME} anywhere in a text is the value of an environment variable.
    "spark.sql.variable.substitute": "false",
    "spark.sql.redaction.string.regex": _ADDRESS,  # of files, which EXPLAIN shows
}
"""What the session of safe queries has beside the settings of the lake's session."""

_CATALYST = "org.apache.spark.sql.catalyst."
_EXPRESSIONS = f"{_CATALYST}expressions."
_COMMANDS = "org.apache.spark.sql.execution.command."

_UNRESOLVED = """
MultiAlias PlanWithUnresolvedIdentifier RelationTimeTravel UnresolvedAlias UnresolvedAttribute UnresolvedDeduplicate
UnresolvedExtractValue UnresolvedFunction UnresolvedFunctionName UnresolvedGenerator UnresolvedHaving
UnresolvedInlineTable UnresolvedOrdinal UnresolvedPipeAggregateOrdinal UnresolvedQualify UnresolvedRegex
UnresolvedRelation UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedStarWithColumns
UnresolvedStarWithColumnsRenames UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableOrView
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
Aggregate CTERelationDef CTERelationRef DataFrameDropColumns DescribeColumn DescribeFunction DescribeRelation Distinct
Except Filter Generate GlobalLimit Intersect Join LateralJoin LimitAll LocalLimit LocalRelation Offset OneRowRelation
Pivot Project Range Repartition RepartitionByExpression Sample Sort SubqueryAlias Tail Union Unpivot UnresolvedHint
WithCTE
"""
_ANALYZED_NODES = "Deduplicate Expand ResolvedHint UnionLoop UnionLoopRef Window"
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
# What the DataFrame API makes of its operators. The parser of SQL has classes for them.
_OPERATOR_NAMES = "! != % & * + - / < <= <=> <> = == > >= ^ | || ~"
_OPERATORS = frozenset(_OPERATOR_NAMES.split())
_CHANGES = """
Assignment DeleteAction DeleteFromTable InsertAction InsertStarAction MergeIntoTable UpdateAction UpdateStarAction
UpdateTable
"""
_WRITTEN_CHANGES = {f"{_CATALYST}plans.logical.{name}" for name in _CHANGES.split()}
_FILE_FIELDS = {"file_path", "file_block_start"}  # of the struct in which Spark describes the file of a row
_FRAMES = "_moulin_frames"  # a name that no database has
_FOREIGN = frozenset(_FOREIGN_EXPRESSIONS.split())


def without_addresses(text: str) -> str:
    """What Spark says, without addresses of files."""
    return re.sub(_ADDRESS, "(a file)", text)


MAX_PARTITIONS: Final = 10_000
"""The most partitions that a safe query may ask for: a large number stops the driver."""
MAX_TEXT: Final = 1 << 20
MAX_LIST: Final = 10_000
"""Characters of a safe query, and members of its lists: Spark compares each member of a list with all others."""


MAX_CASES: Final = 8
"""CASE expressions inside one another: what Spark writes of a plan doubles with each."""
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_CASE_OR_END = re.compile(r"\b(case|end)\b", re.IGNORECASE)


def check_text(text: str) -> None:
    """Refuse a text that is so long that it would take much memory or many minutes to check."""
    if len(text) > MAX_TEXT:
        raise InvalidInput(f"A safe query has at most {MAX_TEXT} characters: put values into a table, and join it.")
    if text.count(",") > MAX_LIST:
        raise InvalidInput(f"A safe query can list at most {MAX_LIST} values: put them into a table, and join it.")
    depth = 0
    for word in _CASE_OR_END.findall(_QUOTED.sub(" ", text)):
        depth = depth + 1 if word.lower() == "case" else max(depth - 1, 0)
        if depth > MAX_CASES:
            raise too_many_cases()


def too_many_cases() -> InvalidInput:
    return InvalidInput(
        f"A safe query can nest at most {MAX_CASES} CASE expressions: compute the inner ones in a sub-query."
    )


@dataclass(frozen=True, slots=True)
class View:
    """A temporary view: its plan, which names tables, and the placed frames that this needs."""

    plan: LogicalPlan
    frames: tuple[NamedFrame, ...]


class SafeSql:
    """Safe queries over the tables of one lake. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = spark.newSession()
        for key, value in {**spark.conf.getAll, **SETTINGS}.items():
            if self._session.conf.isModifiable(key):
                self._session.conf.set(key, value)
        self._catalyst = Catalyst(self._session)
        self._views: dict[str, View] = {}
        self._frames: WeakValueDictionary[tuple[str, str], NamedFrame] = WeakValueDictionary()
        self._lock = threading.Lock()  # for `_views`

    @property
    def session(self) -> SparkSession:
        return self._session

    @property
    def catalyst(self) -> Catalyst:
        """The parser of its own session."""
        return self._catalyst

    def local_frame(self, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
        """A few rows as a frame of this session. PySpark makes the session active that does so; this is undone."""
        before = SparkSession._activeSession
        try:
            with self._catalyst.active():
                return self._session.createDataFrame(list(rows), schema)
        finally:
            SparkSession._activeSession = before

    def put_view(self, name: str, view: View) -> None:
        """Have queries of this session find a plan under a name of one part, whatever its case."""
        with self._lock:
            self._views[name.lower()] = view

    def drop_view(self, name: str) -> bool:
        """Whether there was one."""
        with self._lock:
            return self._views.pop(name.lower(), None) is not None

    def view_names(self) -> list[str]:
        with self._lock:
            return sorted(self._views)

    def place(self, frame: DataFrame) -> tuple[str, str, NamedFrame]:
        """A name under which queries of this session find a frame, for as long as the last of the three lives.

        REQUIRES: the frame was made of checked queries.
        """
        name, named = uuid4().hex, NamedFrame(frame)
        self._frames[_FRAMES, name] = named
        return _FRAMES, name, named

    def frames_of(self, references: Sequence[Reference]) -> dict[Reference, NamedFrame]:
        """Of these references, those to frames that were placed."""
        found = {reference: self._frames.get((reference.database, reference.name)) for reference in references}
        return {reference: named for reference, named in found.items() if named is not None}

    def _view_plans(self) -> dict[str, LogicalPlan]:
        with self._lock:
            return {name: view.plan for name, view in self._views.items()}

    def parse(self, text: str, args: Arguments | None = None) -> LogicalPlan:
        """The plan of a statement, which nothing was found out about."""
        check_text(text)
        try:
            return self._catalyst.parse(text, args)
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot parse the query: {_reason(error)}") from None

    def check_statement(self, plan: LogicalPlan) -> None:
        """Refuse a statement that calls functions or reads tables that a query may not, wherever it has them."""
        views = set(self.view_names())
        with self._catalyst.active():
            opened = self._catalyst.opened(plan)
        for fields in _parts(json.loads(opened.toJSON())):
            _check_call(fields)
            if _short(fields["class"]) == "UnresolvedRelation":
                parts = str(fields["multipartIdentifier"]).strip("[]").split(", ")
                if not is_lake_name(parts) and not (len(parts) == 1 and parts[0].lower() in views):
                    raise PermissionDenied(
                        "A statement can only read tables of the lake: write them as database.table."
                    )

    def change(self, plan: LogicalPlan) -> Query:
        """A statement that changes rows, found to be made of what queries may have, and to name lake tables alone."""
        with self._catalyst.active():
            opened = self._catalyst.opened(plan)
        for fields in _parts(json.loads(opened.toJSON())):
            kind = fields["class"].removesuffix("$")
            if kind not in _WRITTEN and kind not in _WRITTEN_CHANGES:
                raise _foreign(kind)
        self.check_statement(plan)
        return Query(self._catalyst, plan, views=self._view_plans(), changes=True)

    def check_change(self, resolved: LogicalPlan) -> None:
        """Refuse a change in which a name came to mean a hidden column of Spark's."""
        _check_hidden(resolved)

    def query(self, plan: LogicalPlan, catalyst: Catalyst | None = None, home: Home | None = None) -> Query:
        """The query, found to name lake tables alone; nothing was evaluated that may not be.

        `catalyst` is that of another session to run it in, for a text that is part of an ordinary query. `home` is
        where names without a database belong in the text of a view; without it they are those of temporary views.
        """
        check = PlanCheck(_check_syntax, _check_analyzed)
        try:
            if catalyst is not None or home is not None:
                return Query(catalyst or self._catalyst, plan, check=check, home=home)
            return Query(self._catalyst, plan, check=check, views=self._view_plans())
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot parse the query: {_reason(error)}") from None

    def run(
        self,
        query: Query,
        frames: Mapping[Reference, NamedFrame],
        finish: Callable[[LogicalPlan], LogicalPlan] | None = None,
    ) -> DataFrame:
        """The result, with these rows for the references; see `Query.run`."""
        stand_ins = {reference: self._stand_in(frame) for reference, frame in frames.items()}
        try:
            _check_analyzed(query.analyzed(stand_ins))
            _check_hidden(query.analyzed(frames if query.reads else stand_ins))
        except (Py4JError, RecursionError) as error:
            raise InvalidInput(f"Spark cannot analyze the query: {_reason(error)}") from None
        return query.run(frames, described=stand_ins, finish=finish)

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
        _check_call(fields)


def _check_call(fields: Mapping[str, Any]) -> None:
    """Refuse a function or a hint that is not in the lists."""
    name = _short(fields["class"].removesuffix("$"))
    if name == "UnresolvedFunction":
        _check_function(_single(fields["nameParts"]), ALLOWED_FUNCTIONS | _OPERATORS)
        if fields["isInternal"]:
            raise PermissionDenied("A safe query cannot call Spark's internal functions.")
    elif name == "UnresolvedTableValuedFunction":
        _check_function(_single(fields["name"]), ALLOWED_TABLE_FUNCTIONS | {CHANGES_FUNCTION})
    elif name == "UnresolvedGenerator":
        _check_function(_single(fields["name"]), ALLOWED_FUNCTIONS)
    elif name == "UnresolvedHint" and str(fields["name"]).lower() not in ALLOWED_HINTS:
        raise PermissionDenied(f"A safe query can only have join hints, not {fields['name']}: remove it.")


def _check_analyzed(plan: LogicalPlan) -> None:
    for fields in _parts(json.loads(plan.toJSON())):
        kind = fields["class"].removesuffix("$")
        if kind not in _ANALYZED and not _is_plain(kind):
            raise _foreign(kind)
        if _short(kind) == "Range" and (fields.get("numSlices") or 0) > MAX_PARTITIONS:
            raise InvalidInput(f"Use at most {MAX_PARTITIONS} partitions, not {fields['numSlices']}.")


def _check_hidden(plan: LogicalPlan) -> None:
    """A name that means a column of an outer query over stand-ins may mean Spark's hidden column over the tables."""
    for fields in _parts(json.loads(plan.toJSON())):
        kind = fields.get("dataType")
        if isinstance(kind, dict) and {field["name"] for field in kind.get("fields", ())} >= _FILE_FIELDS:
            raise PermissionDenied("A safe query cannot see the files of a table: remove _metadata.")


def _foreign(kind: str) -> PermissionDenied:
    return PermissionDenied(f"A safe query cannot have {_short(kind)}: it can only read tables of the lake.")


def _is_plain(kind: str) -> bool:
    """Whether it is an expression of Spark's own that computes a value from others."""
    return kind.startswith(_EXPRESSIONS) and _short(kind) not in _FOREIGN


def _check_function(name: str | None, allowed: frozenset[str]) -> None:
    known = (name or "").lower()
    if known in allowed:
        return
    if known in REFUSED_FUNCTIONS:
        raise PermissionDenied(f"A safe query cannot call {known}: {REFUSED_FUNCTIONS[known]}.")
    raise PermissionDenied("A safe query can only call documented Spark functions, by their plain names.")


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
