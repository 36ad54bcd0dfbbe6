"""Resolves names in statements to tables, databases and columns of the lake."""

from __future__ import annotations

from collections.abc import Sequence

from moulin.errors import InvalidInput
from moulin.model.schema.schema import find_column, unknown_column
from moulin.model.schema.values import Schema
from moulin.pipeline.sql.catalyst import CATALOG, LogicalPlan, name_parts
from moulin.pipeline.sql.names import Reference, named_by, spelled
from moulin.pipeline.sql.resolver import databases_like
from moulin.pipeline.statements.session import Session


def parts_of(node: LogicalPlan) -> list[str]:
    """The parts of a name in a plan."""
    parts = name_parts(node)
    if parts is None:
        raise InvalidInput("Names in this statement must be plain: write database.table.")
    return parts


def table_name(parts: Sequence[str]) -> Reference:
    """The table of this name, as it is written."""
    reference = named_by(parts)
    if reference is None or reference.part is not None:
        raise InvalidInput("The statement needs a table of the lake: write database.table.")
    return reference


def table_named(session: Session, parts: Sequence[str]) -> Reference:
    """The table of this name as the lake spells it, where it has one; else its database as the lake spells that."""
    written = table_name(parts)
    found = session.spelled(written)
    return found if found != written else Reference(database_named(session, written.database), written.name)


def database_of(session: Session, node: LogicalPlan) -> str:
    """The database that a node of a plan names, as the lake spells it."""
    parts = parts_of(node)
    if len(parts) == 2 and parts[0].lower() == CATALOG:
        parts = parts[1:]
    if len(parts) != 1:
        raise InvalidInput(f"{'.'.join(parts)!r} is not a database: write one word, or `a.b` for one with levels.")
    return database_named(session, parts[0])


def database_named(session: Session, name: str) -> str:
    """The database of this name as the lake spells it; as it is when there is none."""
    if session.case_sensitive:
        return name
    return spelled(name, databases_like(session.lake, name)) or name


def column_named(session: Session, schema: Schema, parts: Sequence[str]) -> str:
    """The dotted path of a column as the schema spells it; NotFound when there is none."""
    name = ".".join(parts)
    if session.case_sensitive:
        field = find_column(schema, name)
    else:
        try:
            field = schema.find_field(name)
        except ValueError:
            try:
                field = schema.find_field(name, case_sensitive=False)
            except ValueError:
                raise unknown_column(schema, name) from None
    return schema.find_column_name(field.field_id) or name
