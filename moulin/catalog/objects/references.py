"""References to a table: live views with it as a member, live tokens that route to it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.errors import FailedPrecondition
from moulin.model.entities import Named


@dataclass(frozen=True, slots=True)
class ViewReference:
    """A view with the table as a member; the others in the view's order."""

    id: UUID
    name: str
    other_members: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class TokenReference:
    """A token that routes these signals to the table."""

    id: UUID
    name: str
    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class References:
    views: tuple[ViewReference, ...]
    tokens: tuple[TokenReference, ...]

    def __bool__(self) -> bool:
        return bool(self.views or self.tokens)

    def __str__(self) -> str:
        views, tokens = ([item.name for item in items] for items in (self.views, self.tokens))
        parts = [("view", views), ("ingest token", tokens)]
        return " and ".join(
            f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}" for kind, names in parts if names
        )


class InUse(FailedPrecondition):
    """A table cannot be dropped while it is referenced; `references` lists all references."""

    def __init__(self, message: str, references: References) -> None:
        super().__init__(message)
        self.references = references


def to_table(connection: sa.Connection, table_id: UUID) -> References:
    """All live views and tokens that refer to a table, by name."""
    from moulin.model.ingest import Routing

    v, m, t, k = s.views, s.view_members, s.tables, s.ingest_tokens
    using = sa.select(v.c.id, v.c.name).join(m, m.c.view_id == v.c.id)
    using = using.where(m.c.table_id == table_id, v.c.tombstoned_at.is_(None)).order_by(v.c.name, v.c.id)
    views = []
    for view in connection.execute(using).all():
        others = sa.select(m.c.table_id, t.c.name).join(t, t.c.id == m.c.table_id)
        others = others.where(m.c.view_id == view.id, m.c.table_id != table_id).order_by(m.c.ordinal)
        members = tuple(Named(*row) for row in connection.execute(others))
        views.append(ViewReference(view.id, view.name, members))
    targets = sa.or_(*(column == table_id for column in (k.c.traces_table_id, k.c.logs_table_id, k.c.metrics_table_id)))
    routed = sa.select(k).where(targets, k.c.tombstoned_at.is_(None)).order_by(k.c.name, k.c.id)
    tokens = tuple(
        TokenReference(
            row.id,
            row.name,
            Routing(row.traces_table_id, row.logs_table_id, row.metrics_table_id).signals_to(table_id),
        )
        for row in connection.execute(routed)
    )
    return References(tuple(views), tokens)
