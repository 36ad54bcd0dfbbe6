"""LakeViews: the methods of `Lake` that create, change, list and drop views."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from moulin.errors import InvalidInput, Unsupported
from moulin.lake.objects import LakeObjects
from moulin.model.entities import SPARK, Representation, View, ViewQuery
from moulin.model.names import parse_table_name


class LakeViews(LakeObjects):
    """Views of the lake: ordered unions of tables, and queries."""

    def create_view(
        self,
        name: str,
        tables: Sequence[str] | None = None,
        *,
        sql: str | None = None,
        dialect: str = SPARK,
        columns: Sequence[str | tuple[str, str | None]] = (),
        description: str | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
    ) -> View:
        """Create a view: an ordered union of `tables` of its database, or the query `sql`.

        Spark plans the query before it is stored with its columns. It can only use tables and views of the
        lake, as database.table. `columns` are new names for its columns, or pairs of a name and a comment.
        With `replace`, an existing view is replaced; with `if_not_exists`, it is kept.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> lake.create_view("shop.moves", ["orders", "returns"]).name
        'moves'
        >>> lake.duckdb().sql("select count(*) from shop.moves").fetchall()
        [(1,)]
        """
        database, view = parse_table_name(name, "view")
        if (tables is None) == (sql is None):
            raise InvalidInput("Give either tables= or sql= for a view.")
        catalog = self._open_catalog()
        if if_not_exists and any(one.name == view for one in catalog.views(database)):
            return catalog.view(database, view)
        if sql is None:
            if columns or properties:
                raise InvalidInput(
                    "A union has the columns of its tables and no properties: remove columns= and properties=."
                )
            return catalog.create_view(database, view, _members(database, tables or ()), description, replace=replace)
        if dialect != SPARK:
            raise Unsupported(f"Views must be written in Spark SQL, {SPARK!r}, not in {dialect!r}.")
        named = [(one, None) if isinstance(one, str) else one for one in columns]
        text, schema = self.context.spark().plan_view(database, view, sql, named)
        texts = {str(key): str(value) for key, value in (properties or {}).items()}
        query = ViewQuery((Representation(dialect, text),), schema, texts)
        return catalog.create_view(database, view, [], description, query=query, replace=replace)

    def set_view_properties(self, name: str, updates: Mapping[str, Any], removals: Collection[str] = ()) -> View:
        """Set and remove properties of a view with a query.

        >>> _ = lake.create_view("shop.large", sql="select id from shop.orders where amount > 5")
        >>> lake.set_view_properties("shop.large", {"owner": "ann"}).query.properties["owner"]
        'ann'
        """
        texts = {str(key): str(value) for key, value in updates.items()}
        return self._open_catalog().set_view_properties(*parse_table_name(name, "view"), texts, removals)

    def set_view_tables(self, name: str, tables: Sequence[str]) -> View:
        """Replace the tables of a view that is a union, in this order.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.set_view_tables("shop.moves", ["orders", "returns"]).name
        'moves'
        """
        database, view = parse_table_name(name)
        return self._open_catalog().set_view_members(database, view, _members(database, tables))

    def view(self, name: str) -> View:
        """Return a view by its name.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.view("shop.moves").name
        'moves'
        """
        return self._open_catalog().view(*parse_table_name(name))

    def views(self, database: str, *, include_dropped: bool = False) -> list[View]:
        """List the views of a database, optionally with dropped ones.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> [view.name for view in lake.views("shop")]
        ['moves']
        """
        return self._open_catalog().views(database, include_dropped=include_dropped)

    def rename_view(self, name: str, new_name: str) -> View:
        """Rename a view. A view with a query may move to another database.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.rename_view("shop.moves", "shop.all_moves").name
        'all_moves'
        """
        database, view = parse_table_name(name)
        new_database, new = parse_table_name(new_name)
        return self._open_catalog().rename_view(database, view, new, new_database)

    def drop_view(self, name: str) -> View:
        """Drop a view. It can be resurrected until its grace period ends.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.drop_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().drop_view(*parse_table_name(name))

    def resurrect_view(self, name: str) -> View:
        """Restore a dropped view.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> _ = lake.drop_view("shop.moves")
        >>> lake.resurrect_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().resurrect_view(*parse_table_name(name))


def _members(database: str, tables: Sequence[str]) -> list[str]:
    """The bare names of member tables; a name may include the database of the view."""
    names = []
    for table in tables:
        owner, name = parse_table_name(table) if "." in table else (database, table)
        if owner != database:
            raise InvalidInput(f"A view can only combine tables of its own database: {table} is not in {database!r}.")
        names.append(name)
    return names


__all__ = ["LakeViews"]
