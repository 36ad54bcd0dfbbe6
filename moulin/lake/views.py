"""LakeViews: the part of `Lake` that makes, changes, lists and drops views."""

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
        """Make a view: an ordered union of `tables` of its database, or the query `sql`.

        Spark plans a query before it is stored, and its columns are kept with it. It may name tables and views of the
        lake alone, as database.table. `columns` are other names for its columns, or pairs of a name and a comment.
        With `replace`, the view takes the place of one that has the name; with `if_not_exists`, that one stays.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> lake.create_view("shop.moves", ["orders", "returns"]).name
        'moves'
        >>> lake.duckdb().sql("select count(*) from shop.moves").fetchall()
        [(1,)]
        """
        database, view = parse_table_name(name, "view")
        if (tables is None) == (sql is None):
            raise InvalidInput("A view is made of tables= or of sql=: give one of the two.")
        catalog = self._open_catalog()
        if if_not_exists and any(one.name == view for one in catalog.views(database)):
            return catalog.view(database, view)
        if sql is None:
            if columns or properties:
                raise InvalidInput("A union has the columns of its tables and no properties: leave both out.")
            return catalog.create_view(database, view, _members(database, tables or ()), description, replace=replace)
        if dialect != SPARK:
            raise Unsupported(f"Views are written in Spark's SQL, {SPARK!r}, and not in {dialect!r}.")
        named = [(one, None) if isinstance(one, str) else one for one in columns]
        text, schema = self.context.spark().plan_view(database, view, sql, named)
        texts = {str(key): str(value) for key, value in (properties or {}).items()}
        query = ViewQuery((Representation(dialect, text),), schema, texts)
        return catalog.create_view(database, view, [], description, query=query, replace=replace)

    def set_view_properties(self, name: str, updates: Mapping[str, Any], removals: Collection[str] = ()) -> View:
        """Set properties of a view that is a query, and remove some.

        >>> _ = lake.create_view("shop.large", sql="select id from shop.orders where amount > 5")
        >>> lake.set_view_properties("shop.large", {"owner": "ann"}).query.properties["owner"]
        'ann'
        """
        texts = {str(key): str(value) for key, value in updates.items()}
        return self._open_catalog().set_view_properties(*parse_table_name(name, "view"), texts, removals)

    def set_view_tables(self, name: str, tables: Sequence[str]) -> View:
        """Give a view that is a union other tables, in their order.

        >>> _ = lake.create_table("shop.returns", lake.table("shop.orders").schema)
        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.set_view_tables("shop.moves", ["orders", "returns"]).name
        'moves'
        """
        database, view = parse_table_name(name)
        return self._open_catalog().set_view_members(database, view, _members(database, tables))

    def view(self, name: str) -> View:
        """A view by its name.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.view("shop.moves").name
        'moves'
        """
        return self._open_catalog().view(*parse_table_name(name))

    def views(self, database: str, *, include_dropped: bool = False) -> list[View]:
        """The views of a database, dropped ones included if asked for.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> [view.name for view in lake.views("shop")]
        ['moves']
        """
        return self._open_catalog().views(database, include_dropped=include_dropped)

    def rename_view(self, name: str, new_name: str) -> View:
        """Rename a view. One that is a query may move to another database.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.rename_view("shop.moves", "shop.all_moves").name
        'all_moves'
        """
        database, view = parse_table_name(name)
        new_database, new = parse_table_name(new_name)
        return self._open_catalog().rename_view(database, view, new, new_database)

    def drop_view(self, name: str) -> View:
        """Drop a view. It can be brought back until its grace window ends.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> lake.drop_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().drop_view(*parse_table_name(name))

    def resurrect_view(self, name: str) -> View:
        """Bring back a dropped view.

        >>> _ = lake.create_view("shop.moves", ["orders"])
        >>> _ = lake.drop_view("shop.moves")
        >>> lake.resurrect_view("shop.moves").name
        'moves'
        """
        return self._open_catalog().resurrect_view(*parse_table_name(name))


def _members(database: str, tables: Sequence[str]) -> list[str]:
    """Bare names of member tables; a name may be given with its database, if that is the view's own."""
    names = []
    for table in tables:
        owner, name = parse_table_name(table) if "." in table else (database, table)
        if owner != database:
            raise InvalidInput(f"A view unites tables of its own database: {table} is not in {database!r}.")
        names.append(name)
    return names


__all__ = ["LakeViews"]
