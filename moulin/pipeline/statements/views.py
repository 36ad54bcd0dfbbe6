"""Statements about views."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from moulin.errors import InvalidInput, NotFound, Unsupported
from moulin.model.entities import SPARK, View
from moulin.model.names import full_name, quote
from moulin.pipeline.sql.catalyst import LogicalPlan, items
from moulin.pipeline.sql.names import Reference, named_by
from moulin.pipeline.statements.answer import Answer, nothing
from moulin.pipeline.statements.session import Session


def create_view(session: Session, plan: LogicalPlan) -> Answer:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(columns)] [COMMENT c] [TBLPROPERTIES p] AS query."""
    if plan.collation().isDefined():
        raise Unsupported("A view cannot have a default collation: remove it, and collate its columns.")
    if plan.viewSchemaMode().toString() != "COMPENSATION":
        raise Unsupported("The columns of a view cannot change: remove WITH SCHEMA.")
    pairs = [(pair._1(), pair._2()) for pair in items(plan.userSpecifiedColumns())]
    session.lake.create_view(
        _name(session, plan.child()),
        sql=plan.originalText().get(),
        columns=[(name, text.get() if text.isDefined() else None) for name, text in pairs],
        description=plan.comment().get() if plan.comment().isDefined() else None,
        properties=_properties(plan),
        replace=bool(plan.replace()),
        if_not_exists=bool(plan.allowExisting()),
    )
    return nothing()


def alter_view(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER VIEW v AS query. Its description and its properties stay."""
    view = _view(session, plan.child())
    session.lake.create_view(
        _full(view),
        sql=plan.originalText(),
        description=view.description,
        properties=None if view.query is None else view.query.properties,
        replace=True,
    )
    return nothing()


def rename_view(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER VIEW v RENAME TO w."""
    view = _view(session, plan.child())
    parts = items(plan.newName())
    new = named_by([view.database, *parts] if len(parts) == 1 else parts)
    session.lake.rename_view(_full(view), _full(_required(new)))
    return nothing()


def set_view_properties(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER VIEW v SET TBLPROPERTIES p."""
    session.lake.set_view_properties(_name(session, plan.child()), _properties(plan))
    return nothing()


def unset_view_properties(session: Session, plan: LogicalPlan) -> Answer:
    """ALTER VIEW v UNSET TBLPROPERTIES [IF EXISTS] (names)."""
    view, names = _view(session, plan.child()), items(plan.propertyKeys())
    known = {} if view.query is None else view.query.properties
    missing = [name for name in names if name not in known]
    if missing and not plan.ifExists():
        raise NotFound(f"View {_full(view)} has no property {missing[0]!r}: write IF EXISTS to ignore it.")
    session.lake.set_view_properties(_full(view), {}, names)
    return nothing()


def drop_view(session: Session, plan: LogicalPlan) -> Answer:
    """DROP VIEW [IF EXISTS] v. `lake.resurrect_view` brings it back."""
    with suppress(*([NotFound] if plan.ifExists() else [])):
        view = _view(session, plan.child())
        session.lake.drop_view(_full(view))
    return nothing()


def show_create_view(session: Session, plan: LogicalPlan) -> Answer:
    """SHOW CREATE TABLE v."""
    return pa.table({"createtab_stmt": [create_text(_view(session, plan.child()))]})


def is_view(session: Session, node: LogicalPlan) -> bool:
    """Whether a node of the plan names a view."""
    with suppress(NotFound):
        _view(session, node)
        return True
    return False


def create_text(view: View) -> str:
    """The statement that makes a view which is a query."""
    text = None if view.query is None else view.query.sql(SPARK)
    if view.query is None or text is None:
        raise InvalidInput(f"There is no CREATE VIEW statement for {_full(view)}: use `moulin view show`.")
    fields = [(quote(field.name), field.doc) for field in view.query.schema.fields]
    columns = [name if doc is None else f"{name} COMMENT {_literal(doc)}" for name, doc in fields]
    properties = [f"{_literal(key)} = {_literal(value)}" for key, value in sorted(view.query.properties.items())]
    parts = [
        f"CREATE VIEW {quote(view.database, view.name)} (\n  {_lines(columns)})",
        "" if view.description is None else f"COMMENT {_literal(view.description)}",
        f"TBLPROPERTIES (\n  {_lines(properties)})" if properties else "",
        f"AS {text}",
    ]
    return "\n".join(part for part in parts if part)


def refuse_temporary_view(session: Session, plan: LogicalPlan) -> Answer:
    """CREATE TEMPORARY VIEW."""
    raise InvalidInput(
        "Temporary views belong to Spark: use lake.sql(...).createOrReplaceTempView(name); lake.sql can then use it."
    )


def refuse_other_view(session: Session, plan: LogicalPlan) -> Answer:
    """Kinds of views that a lake does not have."""
    raise Unsupported("A view of the lake must be a query: remove WITH METRICS and WITH SCHEMA.")


def _view(session: Session, node: LogicalPlan) -> View:
    return session.lake.view(_name(session, node))


def _name(session: Session, node: LogicalPlan) -> str:
    """The view that a node of the plan names, as the lake spells it."""
    kind = node.nodeName()
    if kind == "PlanWithUnresolvedIdentifier":
        raise Unsupported("Write the name of the view as database.view, without identifier(...).")
    parts = node.nameParts() if kind == "UnresolvedIdentifier" else node.multipartIdentifier()
    return _full(session.spelled(_required(named_by(items(parts)))))


def _required(reference: Reference | None) -> Reference:
    if reference is None or reference.part is not None:
        raise InvalidInput("Write views of the lake as database.view.")
    return reference


def _full(named: Reference | View) -> str:
    return full_name(named.database, named.name)


def _lines(parts: list[str]) -> str:
    return ",\n  ".join(parts)


def _literal(text: str) -> str:
    """A text as Spark SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _properties(plan: LogicalPlan) -> dict[str, str]:
    pairs = items(plan.properties().toSeq())
    return {pair._1(): pair._2() for pair in pairs}
