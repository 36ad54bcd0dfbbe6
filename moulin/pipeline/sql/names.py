"""The lake tables that a statement names, found in Spark's own plan of it, and replaced there by their rows.

Spark parses the text and resolves every column, alias, hint and star, as it does for its own tables. Only the leaves of
the plan that name lake tables change: each becomes a frame under the table's full name. What Spark parses and this
module does not know is refused, so that no other table of the same name answers.
"""

# Decisions: docs/decisions/0181, docs/decisions/0251

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from moulin.errors import InvalidInput, PermissionDenied, Unsupported
from moulin.model.names import full_name, quote
from moulin.model.view_history import Home
from moulin.pipeline.read.hidden import NAMES as HIDDEN
from moulin.pipeline.read.metadata import METADATA
from moulin.pipeline.read.reader import NamedFrame
from moulin.pipeline.sql.catalyst import CATALOG, Catalyst, Expression, LogicalPlan, items
from moulin.pipeline.sql.expressions import literal_number, literal_text
from moulin.pipeline.sql.named import names_at_most, names_in
from moulin.table.versions import to_nanos

_CHANGES = {"InsertIntoStatement", "InsertIntoDir", "UpdateTable", "DeleteFromTable", "MergeIntoTable"}
_DESCRIPTIONS = {"DescribeRelation", "DescribeColumn", "DescribeRelationJsonCommand", "DescribeFunction"}
_RELATIONS = {"UnresolvedRelation", "RelationTimeTravel"}
_NAMES = {*_RELATIONS, "UnresolvedTableOrView"}
_FUNCTION = "UnresolvedTableValuedFunction"
CHANGES_FUNCTION = "table_changes"
_CHANGES_PARAMETERS = ("table", "since", "until")
_IDENTIFIER = "PlanWithUnresolvedIdentifier"
_HIDDEN = re.compile(rf'"nameParts":"\[(?:[^"\]]*, )?(?:{"|".join(HIDDEN)})\]"', re.IGNORECASE)
_FILES = re.compile(r'"nameParts":"?\[[^\]]*\b(?:_metadata|input_file_\w+)\b', re.IGNORECASE)
_SEPARATOR = "\0"
_PRIVILEGES = "__required_write_privileges__"  # the option by which Spark's parser marks the table to change
_SPARK_CATALOGS = ("spark_catalog", "system")
_WRITTEN_NAME = re.compile(
    r'"class":"[\w.]*\.Unresolved(?:Relation|Table|View|TableOrView|Identifier|Namespace)"[^{}]*?'
    r'"(?:multipartIdentifier|nameParts)":"\[(.*?)\]"'
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that a statement names, with the version or the time it asks for.

    `is_target` says that it is the table that the statement changes.
    With `part`, the metadata of that name is asked for and not the rows; with `since`, the changes after that version.
    """

    database: str
    name: str
    version: int | None = None
    timestamp_ns: int | None = None
    is_target: bool = False
    part: str | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True)
class _Site:
    """A part of the plan, the table it names, and what stands in its place once the rows of the table are known."""

    plan: LogicalPlan
    reference: Reference
    made_of: Callable[[NamedFrame], LogicalPlan]


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Refuses plans, by an error, before any part of them is evaluated: as they are written, and analyzed."""

    written: Callable[[LogicalPlan], None]
    analyzed: Callable[[LogicalPlan], None]


class Query:
    """A query that Spark has parsed, and the lake tables it names."""

    def __init__(
        self,
        catalyst: Catalyst,
        parsed: LogicalPlan,
        *,
        check: PlanCheck | None = None,
        views: Mapping[str, LogicalPlan] = MappingProxyType({}),
        changes: bool = False,
        home: Home | None = None,
    ) -> None:
        """With `check`, every name must be a lake table's, or that of one of the `views`, in lower case.

        With `changes`, it is a statement that changes a table. With `home`, names without a database are of the lake,
        too, and none means one of the `views`.
        """
        self._catalyst, self._check_plan, self._is_change = catalyst, check, changes
        self._outer: list[tuple[str, Callable[[LogicalPlan], LogicalPlan]]] = []
        with catalyst.active():
            plan = catalyst.opened(self._unwrapped(parsed))
            plan = with_views(catalyst, plan, views) if home is None else at_home(catalyst, plan, home)
        if check is not None:
            check.written(plan)
        self._plan, nodes = self._identified(plan)
        text = self._plan.toJSON()
        self._check(nodes, text)
        self.asks_hidden = _HIDDEN.search(text) is not None
        self.asks_files = _FILES.search(text) is not None
        if check is not None:
            self._check_names(nodes)
        self._sites = self._aliased(nodes) if self.asks_hidden else self._find(nodes)

    @property
    def references(self) -> Sequence[Reference]:
        """The lake tables it names, each once for each version."""
        return list(dict.fromkeys(site.reference for site in self._sites))

    def run(
        self,
        frames: Mapping[Reference, NamedFrame],
        described: Mapping[Reference, NamedFrame] | None = None,
        finish: Callable[[LogicalPlan], LogicalPlan] | None = None,
    ) -> DataFrame:
        """The result, with these rows for the references. One that has no frame is left to Spark.

        `described` are frames with the same columns, for statements that describe a table by its name. `finish` is
        applied to a plan that reads rows.
        """
        plan = self._filled(frames if described is None or self.reads else described)
        if finish is not None and self.reads:
            plan = finish(plan)
        for _, wrap in reversed(self._outer):
            plan = wrap(plan)
        return self._catalyst.run(plan)

    def resolved(self, frames: Mapping[Reference, NamedFrame]) -> LogicalPlan:
        """The statement that changes a table, with these rows for the references, resolved; nothing runs."""
        return self._catalyst.resolved(self._filled(frames))

    def analyzed(self, frames: Mapping[Reference, NamedFrame]) -> LogicalPlan:
        """The plan of the query, without EXPLAIN around it, as Spark's analyzer resolves it; nothing runs."""
        return self._catalyst.analyzed(self._filled(frames))

    @property
    def is_explained(self) -> bool:
        """Whether it asks for the plan of a query, and not for its rows."""
        return any(kind == "ExplainCommand" for kind, _ in self._outer)

    @property
    def reads(self) -> bool:
        """Whether it reads rows; else it describes a table, column or function."""
        return self._plan.nodeName() not in _DESCRIPTIONS

    def _filled(self, frames: Mapping[Reference, NamedFrame]) -> LogicalPlan:
        found = [(site.plan, frames.get(site.reference), site) for site in self._sites]
        changed = [(plan, site.made_of(frame)) for plan, frame, site in found if frame is not None]
        return self._catalyst.replace(self._plan, changed)

    def _unwrapped(self, plan: LogicalPlan) -> LogicalPlan:
        """The query inside EXPLAIN and DESCRIBE QUERY, which keep it out of reach of changes."""
        name = plan.nodeName()
        if name == "ExplainCommand":
            self._outer.append((name, lambda inner: plan.copy(inner, plan.mode())))
            return self._unwrapped(plan.logicalPlan())
        if name == "DescribeQueryCommand":
            self._outer.append((name, lambda inner: plan.copy(plan.queryText(), inner)))
            return self._unwrapped(plan.plan())
        return plan

    def _identified(self, plan: LogicalPlan) -> tuple[LogicalPlan, list[tuple[str, LogicalPlan]]]:
        """The plan and its nodes, once each `identifier(expression)` is the name that it stands for."""
        nodes = self._catalyst.nodes(plan)
        named = []
        for name, node in nodes:
            if name == _IDENTIFIER:
                named.append((node, self._relation_of(node)))
            elif name == "RelationTimeTravel" and (below := node.relation()).nodeName() == _IDENTIFIER:
                named.append((node, node.copy(self._relation_of(below), node.timestamp(), node.version())))
        if not named:
            return plan, nodes
        plan = self._catalyst.replace(plan, named)
        return plan, self._catalyst.nodes(plan)

    def _relation_of(self, node: LogicalPlan) -> LogicalPlan:
        name = self._value(node.identifierExpr(), "identifier", lambda value: value.cast("string"))
        return node.planBuilder().apply(self._catalyst.parts_of(name), node.children())

    def _check(self, nodes: Sequence[tuple[str, LogicalPlan]], text: str) -> None:
        if any(name in _CHANGES for name, _ in nodes[1 if self._is_change else 0 :]):
            raise InvalidInput(
                "A change cannot be part of a query, of EXPLAIN or of another change: run it separately."
            )
        root, plan = nodes[0]
        if root not in _DESCRIPTIONS and not self._is_change and self._catalyst.is_command(plan):
            raise InvalidInput(
                f"lake.sql does not run this statement ({root}): for statements about the Spark session, use "
                f"lake.spark().sql(...)."
            )
        reached = sum(name in _RELATIONS for name, _ in nodes)
        if names_at_most(text) != reached and names_in(text) != reached:
            raise Unsupported(
                "lake.sql does not support a clause of this query that names a table. Create views of the tables with "
                "table.to_spark().createOrReplaceTempView(...) and use lake.spark().sql(...)."
            )

    def _check_names(self, nodes: Sequence[tuple[str, LogicalPlan]]) -> None:
        for name, node in nodes:
            if name in _NAMES and self._reference(node, name) is None:
                raise PermissionDenied("A safe query can only read tables of the lake: write them as database.table.")

    def _find(self, nodes: Sequence[tuple[str, LogicalPlan]]) -> list[_Site]:
        found = [(node, name, self._reference(node, name)) for name, node in nodes]
        return [
            _Site(node, reference, self._maker(node, name, reference))
            for node, name, reference in found
            if reference is not None
        ]

    def _aliased(self, nodes: Sequence[tuple[str, LogicalPlan]]) -> list[_Site]:
        """Every mention of a table with the alias around it, so that no two are equal: hidden columns need that."""
        sites: list[_Site] = []
        inner: list[LogicalPlan] = []
        for name, node in nodes:
            if name == "SubqueryAlias" and (kind := node.child().nodeName()) in _RELATIONS:
                below, reference = node.child(), self._reference(node.child(), kind)
                if reference is not None:
                    inner.append(below)
                    make = self._maker(below, kind, reference)
                    sites.append(_Site(node, reference, _around(self._catalyst, node, below, make)))
            elif (reference := self._reference(node, name)) is not None:
                if node in inner:
                    inner.remove(node)
                else:
                    sites.append(_Site(node, reference, self._maker(node, name, reference)))
        if len({site.plan for site in sites}) < len(sites):
            raise InvalidInput(
                f"A query that asks for {' or '.join(HIDDEN)} must give every table that it uses twice an alias: write "
                "`from db.t as a join db.t as b`."
            )
        return sites

    def _reference(self, node: LogicalPlan, name: str) -> Reference | None:
        """The lake table that this node names; None when it names none."""
        if name == _FUNCTION:
            return self._changes(node)
        if name not in _NAMES:
            return None
        named = node.relation() if name == "RelationTimeTravel" else node
        reference = reference_of(named)
        if reference is None or name == "UnresolvedTableOrView":
            return reference
        is_target = self._is_change and named.options().containsKey(_PRIVILEGES)
        if not is_target:
            _check_plain(named, reference)
        if name == "UnresolvedRelation":
            return replace(reference, is_target=is_target)
        if node.version().isDefined():
            return replace(reference, version=_version(node.version().get()))
        return replace(reference, timestamp_ns=self._nanos(node.timestamp().get()))

    def _maker(self, node: LogicalPlan, name: str, reference: Reference) -> Callable[[NamedFrame], LogicalPlan]:
        if name == "UnresolvedTableOrView":
            rest = (node.commandName(), node.allowTempView(), node.tableNotFoundSearchPathMode())
            return lambda frame: node.copy(self._catalyst.name(frame.view), *rest)
        if name == _FUNCTION:
            return lambda frame: self._catalyst.relation((CHANGES_FUNCTION,), frame.frame)
        if reference.part is not None:
            parts = reference.database, reference.name, reference.part
            return lambda frame: self._catalyst.relation(parts, frame.frame)
        own = (reference.database, reference.name)

        def table(frame: NamedFrame) -> LogicalPlan:
            if frame.hidden:
                return self._catalyst.table_with_hidden(*own, frame.frame, frame.hidden)
            return self._catalyst.table(*own, frame.frame)

        return table

    def _changes(self, node: LogicalPlan) -> Reference | None:
        """The changes that `table_changes(table, since[, until])` asks for; None for another function."""
        if node.name().mkString(_SEPARATOR).lower() != CHANGES_FUNCTION:
            return None
        given = dict(zip(_CHANGES_PARAMETERS, [None, None, None], strict=True))
        for index, argument in enumerate(items(node.functionArgs())):
            named = argument.nodeName() == "NamedArgumentExpression"
            parameter = argument.key().lower() if named else _CHANGES_PARAMETERS[min(index, 2)]
            if index > 2 or parameter not in given or given[parameter] is not None:
                raise InvalidInput(
                    f"{CHANGES_FUNCTION} must be called as ('database.table', since[, until]), each argument once."
                )
            given[parameter] = argument.value() if named else argument
        if given["table"] is None or given["since"] is None:
            raise InvalidInput(f"{CHANGES_FUNCTION} must be called as ('database.table', since[, until]).")
        text = self._text(given["table"])
        parts = self._catalyst.parts_of(text).mkString(_SEPARATOR).split(_SEPARATOR)
        reference = named_by(parts)
        if reference is None or reference.part is not None:
            raise InvalidInput(f"{CHANGES_FUNCTION} needs a table of the lake as 'database.table'.")
        until = given["until"]
        return replace(
            reference, since=self._number(given["since"]), version=None if until is None else self._number(until)
        )

    def _text(self, expression: Expression) -> str:
        text = literal_text(expression.toJSON())
        return self._value(expression, CHANGES_FUNCTION, lambda value: value.cast("string")) if text is None else text

    def _number(self, expression: Expression) -> int:
        number = literal_number(expression.toJSON())
        if number is None:
            number = int(self._value(expression, CHANGES_FUNCTION, lambda value: value.cast("bigint")))
        return number

    def _nanos(self, expression: Expression) -> int:
        text = literal_text(expression.toJSON())
        if text is not None:
            return to_nanos(text)
        micros = self._value(expression, "timestamp as of", lambda value: F.unix_micros(value.cast("timestamp")))
        return max(-(2**63), min(int(micros) * 1000, 2**63 - 1))

    def _value(self, expression: Expression, clause: str, convert: Callable[[Column], Column]) -> str:
        """The value of an expression that may ask no table."""
        wanted = f"{clause} takes an expression that has one value for the whole query"
        if names_at_most(expression.toJSON()):
            raise InvalidInput(f"{wanted}, and no sub-query.")
        try:
            value = self._catalyst.evaluate(expression)
            if self._check_plan is not None:
                self._check_plan.analyzed(value._jdf.queryExecution().analyzed())
            row = value.select(convert(F.col("value"))).first()
        except PySparkException as error:
            raise InvalidInput(f"{wanted}: {str(error).strip().partition(chr(10))[0]}") from None
        if row is None or row[0] is None:
            raise InvalidInput(f"{wanted}, and this one is null.")
        return str(row[0])


def _around(
    catalyst: Catalyst, node: LogicalPlan, below: LogicalPlan, make: Callable[[NamedFrame], LogicalPlan]
) -> Callable[[NamedFrame], LogicalPlan]:
    return lambda frame: catalyst.replace_below(node, below, make(frame))


def with_views(catalyst: Catalyst, plan: LogicalPlan, views: Mapping[str, LogicalPlan]) -> LogicalPlan:
    """An opened plan with these plans, which are opened too, in place of their names, which are in lower case."""
    if not views:
        return plan
    found = []
    for kind, node in catalyst.nodes(plan):
        if kind == "UnresolvedRelation" and len(parts := parts_of(node)) == 1 and parts[0].lower() in views:
            found.append((node, catalyst.alias(parts[0], views[parts[0].lower()])))
    return catalyst.replace(plan, found)


def at_home(catalyst: Catalyst, plan: LogicalPlan, home: Home) -> LogicalPlan:
    """An opened plan with the names in it in full."""

    def named(node: LogicalPlan) -> LogicalPlan | None:
        if node.nodeName() != "UnresolvedRelation" or (full := home.full(parts_of(node))) == parts_of(node):
            return None
        return node.copy(catalyst.name(*full), node.options(), node.isStreaming())

    found = []
    for kind, node in catalyst.nodes(plan):
        if kind == "RelationTimeTravel" and (below := named(node.relation())) is not None:
            found.append((node, node.copy(below, node.timestamp(), node.version())))
        elif (changed := named(node)) is not None:
            found.append((node, changed))
    return catalyst.replace(plan, found) if found else plan


def _check_plain(node: LogicalPlan, reference: Reference) -> None:
    """Refuse what a lake table does not take."""
    if node.isStreaming():
        raise Unsupported('lake.sql does not stream: use spark.readStream.format("moulin").')
    if not node.options().isEmpty():
        raise Unsupported(
            f"Table {full_name(reference.database, reference.name)} cannot have options: remove `with (...)`."
        )


def databases_in(plan: LogicalPlan) -> set[str]:
    """The databases that a plan may name, of tables that it reads or changes and by themselves.

    REQUIRES: the plan is opened.
    """
    found: set[str] = set()
    for name in _WRITTEN_NAME.findall(plan.toJSON()):
        parts = name.split(", ")
        if len(parts) == 3 and parts[0].lower() == CATALOG:
            del parts[0]
        found |= {parts[0]} if len(parts) <= 2 else set()
    return found


def parts_of(node: LogicalPlan) -> list[str]:
    """The parts of the name that a node has."""
    parts: list[str] = node.multipartIdentifier().mkString(_SEPARATOR).split(_SEPARATOR)
    return parts


def reference_of(node: LogicalPlan) -> Reference | None:
    """The lake table of this name: not one of Spark's temporary views or other catalogs, nor a file's path."""
    return named_by(parts_of(node))


def named_by(parts: Sequence[str]) -> Reference | None:
    """The lake table, or its metadata, that a name of these parts means; None when it may be Spark's."""
    if len(parts) > 2 and parts[0].lower() == CATALOG:
        parts = parts[1:]
    part = parts[2].lower() if len(parts) == 3 else None
    if part is not None and (part not in METADATA or parts[0].lower() in _SPARK_CATALOGS):
        return None
    if len(parts) not in (2, 3) or parts[0].lower() == "global_temp" or "/" in parts[1]:
        return None
    return Reference(parts[0], parts[1], part=part)


def is_lake_name(parts: Sequence[str]) -> bool:
    """Whether a name of these parts is a lake table's, or that of its metadata."""
    return named_by(parts) is not None


def _version(text: str) -> int:
    if not text.isdecimal():
        raise InvalidInput(f"version as of needs the number of a version, not {text!r}.")
    return int(text)


def spelled(name: str, known: Sequence[str]) -> str | None:
    """The one of these names that is `name`, or else differs from it in case alone, if there is one."""
    if name in known:
        return name
    same = [other for other in known if other.lower() == name.lower()]
    if len(same) > 1:
        names = " and ".join(quote(other) for other in sorted(same))
        raise InvalidInput(f"{quote(name)} is ambiguous ({names}): write it exactly.")
    return same[0] if same else None
