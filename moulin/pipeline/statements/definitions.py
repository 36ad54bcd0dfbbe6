"""Converts CREATE TABLE to the arguments of `lake.create_table`.

Spark's grammar has no clause for the event time, the sort order and types that Spark lacks: table properties named
after the arguments say them.
"""

# Decisions: docs/decisions/0250

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moulin.errors import InvalidInput, Unsupported
from moulin.model.schema.type_reader import parse_type
from moulin.model.schema.values import NestedField, Schema
from moulin.pipeline.sql.catalyst import LogicalPlan, content, items, texts
from moulin.pipeline.sql.names import Reference
from moulin.pipeline.statements.columns import lake_schema, typed
from moulin.pipeline.statements.grammar import SortKey, sort_keys
from moulin.pipeline.statements.session import Session
from moulin.pipeline.statements.spelling import column_named
from moulin.table.creation import create, new_table
from moulin.table.write.writes import Outcome

COMMENT = "comment"
EVENT_TIME, SORT_BY, COLUMN_TYPE = "event_time", "sort_by", "column_type."
"""Properties in SQL that are arguments of `create_table`, and not properties of the table."""
_FORMATS = ("moulin", "iceberg")  # what engines see of a table is an Iceberg table


@dataclass(frozen=True, slots=True)
class Definition:
    """A table to make."""

    schema: Schema
    primary_key: list[str]
    partition_by: list[str]
    sort_by: list[str]
    event_time: str | None
    properties: dict[str, str]

    def create(
        self, session: Session, reference: Reference, data: object | None = None, *, replace: bool = False
    ) -> Outcome:
        """Make the table, with its rows if there are any, in one version."""
        new = new_table(
            self.schema,
            primary_key=self.primary_key,
            partition_by=self.partition_by,
            sort_by=self.sort_by,
            event_time=self.event_time,
            properties=self.properties,
        )
        made, rows = create(session.lake.context, reference.database, reference.name, new, data, replace=replace)
        return Outcome(made.version, rows)


def definition_of(session: Session, plan: LogicalPlan, columns: list[NestedField], key: Sequence[str]) -> Definition:
    """The table that the clauses of a statement define, with these columns, and with `key` if it is not among them."""
    spec = plan.tableSpec()
    _check_clauses(spec)
    properties = texts(spec.properties())
    types = {
        name.removeprefix(COLUMN_TYPE): parse_type(properties.pop(name))
        for name in list(properties)
        if name.startswith(COLUMN_TYPE)
    }
    event_time, order = properties.pop(EVENT_TIME, None), properties.pop(SORT_BY, None)
    comment = content(spec.comment())
    if comment is not None:
        properties[COMMENT] = comment
    schema = lake_schema(typed(columns, types))
    partitioning, clustering = _transforms(session, schema, plan)
    sorting = sort_keys(order, f"'{SORT_BY}' = 'column [desc] [nulls last], ...'") if order else []
    if clustering and sorting:
        raise InvalidInput(f"CLUSTER BY and the property {SORT_BY!r} both set the sort order: remove one of them.")
    return Definition(
        schema,
        [column_named(session, schema, [name]) for name in _key(spec, key)],
        partitioning,
        clustering or sort_texts(session, schema, sorting),
        None if event_time is None else column_named(session, schema, event_time.split(".")),
        properties,
    )


def sort_texts(session: Session, schema: Schema, keys: Sequence[SortKey]) -> list[str]:
    """Sort keys as `create_table` and `set_sort_order` take them."""
    return [f"{column_named(session, schema, key.column)} {key.order}".rstrip() for key in keys]


def partition_text(
    session: Session, schema: Schema, transform: str | None, number: int | None, column: Sequence[str]
) -> str:
    """A partition field as `create_table` and `set_partitioning` take it."""
    name = column_named(session, schema, column)
    if transform is None or transform.lower() == "identity":
        return name
    return f"{transform}({name})" if number is None else f"{transform}({number}, {name})"


def _check_clauses(spec: Any) -> None:
    provider = content(spec.provider())
    if provider is not None and provider.lower() not in _FORMATS:
        raise Unsupported(f"Tables of the lake are in Moulin's own format, not {provider}: remove USING.")
    if content(spec.location()) is not None or spec.external():
        raise Unsupported("The lake chooses the location of a table: remove LOCATION and EXTERNAL.")
    if content(spec.serde()) is not None or not spec.optionExpression().options().isEmpty():
        raise Unsupported("Tables of the lake cannot have OPTIONS, ROW FORMAT or STORED AS: use TBLPROPERTIES.")
    if content(spec.collation()) is not None:
        raise Unsupported("Tables of the lake cannot have a collation: remove DEFAULT COLLATION.")


def _key(spec: Any, beside: Sequence[str]) -> list[str]:
    """The columns of the primary key."""
    found = [list(beside)] if beside else []
    for constraint in items(spec.constraints()):
        if constraint.nodeName() != "PrimaryKeyConstraint":
            raise Unsupported("Tables of the lake support only PRIMARY KEY and NOT NULL constraints.")
        found.append([str(name) for name in items(constraint.columns())])
    if len(found) > 1:
        raise InvalidInput("The table has two primary keys: remove one.")
    return found[0] if found else []


def _transforms(session: Session, schema: Schema, plan: LogicalPlan) -> tuple[list[str], list[str]]:
    """The partition fields, and the columns of CLUSTER BY."""
    partitioning: list[str] = []
    clustering: list[str] = []
    for transform in items(plan.partitioning()):
        name, columns = transform.name(), [list(one.fieldNames()) for one in transform.references()]
        if name == "cluster_by":
            clustering += [column_named(session, schema, column) for column in columns]
            continue
        numbers = [int(one.value()) for one in transform.arguments() if _is_literal(one)]
        if len(columns) != 1 or len(numbers) > 1 or name == "sorted_bucket":
            raise Unsupported(
                f"A partition field must be a transform of one column, such as days(ts): not {transform}."
            )
        partitioning.append(partition_text(session, schema, name, numbers[0] if numbers else None, columns[0]))
    return partitioning, clustering


def _is_literal(argument: Any) -> bool:
    return "Literal" in str(argument.getClass().getSimpleName())
