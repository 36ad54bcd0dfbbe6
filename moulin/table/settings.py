"""TableSettings: the methods of `Table` for columns, properties, layout and indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.operations import AlterSchema, SetPartitioning, SetProperties, SetSortOrder
from moulin.model.region_spec import PROPERTY as REGIONS
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.change import (
    AddColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetDefault,
    SetDoc,
    SetNullable,
    SetRequired,
    WidenColumn,
)
from moulin.model.schema.schema import find_column
from moulin.model.schema.type_reader import to_type
from moulin.table.handle import TableHandle
from moulin.table.properties import check_properties
from moulin.table.write.writes import Outcome

if TYPE_CHECKING:
    from moulin.table.index.index import IndexInfo


class TableSettings(TableHandle):
    """Columns, properties, partitioning, sort order and secondary indexes of a table."""

    def add_column(
        self,
        name: str,
        type: Any,
        default: Any = None,
        *,
        required: bool = False,
        doc: str | None = None,
        from_sql: str | None = None,
    ) -> Outcome:
        """Add a column; rows without a value, old and new, read as `default`.

        With `from_sql`, an expression over the other columns, all existing rows get their value. It uses the syntax
        of `update`, or with Spark any row expression of Spark SQL. Only the new column is written, in
        separate files. Until all rows have it, the column is pending: it reads as null and cannot be
        written. Reads, writes and compactions continue. Repeat a killed call to resume it.

            orders.add_column("total", "double", from_sql="price * qty")

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.add_column("currency", "string", default="EUR")
        >>> _ = orders.add_column("net", "double", from_sql="amount / 1.25")
        >>> orders.scan(["currency", "net"]).to_pylist()
        [{'currency': 'EUR', 'net': 7.6}]
        """
        if from_sql is not None:
            from moulin.table.fill.adding import add_computed

            self._writable()
            if default is not None or required or doc is not None:
                raise InvalidInput(
                    "A column with from_sql cannot have default=, required= or doc=; set its comment with set_doc."
                )
            return add_computed(self._context, self._writable, self._keyed(), name, type, from_sql)
        return self._alter(AddColumn(name, to_type(type, f"column {name}"), default, required, doc))

    def add_columns(
        self,
        source: Any,
        *,
        read: Sequence[str] = (),
        batch: int | None = None,
        schema: Any = None,
        on: str | Sequence[str] | None = None,
    ) -> Outcome:
        """Add columns with values from a function, or joined from other rows. Only the new columns are written.

        A function takes a pyarrow RecordBatch of the columns `read`, of at most `batch` rows, and returns the new
        columns as a RecordBatch, a Table or a dict of arrays. `schema` has their names and types; without it, the
        function is called with the first rows to find out. Arrow data is joined by `on`, by default the primary key;
        rows without a match get null. `on="_row_id"` joins by row id. Columns are pending until all rows have them, as
        with `add_column(from_sql=...)`; repeating a killed call resumes it. Large tables are filled on
        Spark if there is a session.

            docs.add_columns(lambda batch: {"length": pc.utf8_length(batch["body"])}, read=["body"])

        >>> import pyarrow.compute as pc
        >>> orders = lake.table("shop.orders")
        >>> _ = orders.add_columns(lambda batch: {"length": pc.utf8_length(batch["customer"])}, read=["customer"])
        >>> orders.scan(["length"]).to_pylist()
        [{'length': 3}]
        """
        from moulin.table.fill.adding import add_from_function, add_from_rows

        self._writable()
        if callable(source):
            return add_from_function(self._context, self._writable, self._keyed(), source, read, batch, schema)
        return add_from_rows(self._context, self._writable, self._keyed(), source, on)

    def recompute_column(self, name: str, *, from_sql: str | None = None, unreported: bool = False) -> Outcome:
        """Compute new values of a column for all rows, from `from_sql`, or from the expression with which it was added.

        Only the column is written, in separate files. Until all rows have their new value, the old values are read and
        rows can be written as before. Then the new values replace them in one version, including rows that arrived in
        between. As with `add_column(from_sql=...)`, no row is marked as updated and the change feed reports nothing. A
        column that was not created by a computation needs `unreported=True`, because readers of the feed follow it;
        `update` reports each row. The expression may use the column itself. Repeating a killed call resumes it.
        Indexes of the column are dropped. Columns of the key, the partitioning, the sort order and the event
        time, and NOT NULL columns, are rejected.

            orders.recompute_column("total", from_sql="price * qty * 1.19")

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.add_column("net", "double", from_sql="amount / 1.25")
        >>> _ = orders.recompute_column("net", from_sql="amount / 2")
        >>> orders.scan(["net"]).to_pylist()
        [{'net': 4.75}]
        """
        from moulin.table.fill.adding import compute_again

        self._writable()
        return compute_again(self._context, self._writable, self._keyed(), name, from_sql, unreported=unreported)

    def rename_column(self, name: str, new_name: str) -> Outcome:
        """Rename a column. No rows are rewritten.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.rename_column("customer", "buyer")
        >>> orders.schema.names
        ['id', 'buyer', 'amount']
        """
        return self._alter(RenameColumn(name, new_name))

    def drop_column(self, name: str) -> Outcome:
        """Drop a column. Older versions still have it. Its name can be reused.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.drop_column("customer")
        >>> orders.schema.names
        ['id', 'amount']
        """
        return self._alter(DropColumn(name))

    def widen_column(self, name: str, type: Any) -> Outcome:
        """Change the type of a column to a wider one: int to long, float to double, decimal to more digits, date to
        timestamp.

        No rows are rewritten.

        >>> counts = lake.create_table("shop.counts", [("n", "int")])
        >>> _ = counts.widen_column("n", "long")
        >>> counts.schema.field("n").type
        DataType(int64)
        """
        return self._alter(WidenColumn(name, to_type(type, f"column {name}")))

    def cast_column(self, name: str, type: Any) -> Outcome:
        """Change the type of a column to any simple type. Rewrites all rows if widening is not enough.

        The cast is one version: rows keep their `_row_id`, and older versions their type. A value that does not fit
        raises InvalidInput with the value, and nothing changes. Columns of the key, partitioning and sort order cannot
        be cast. Runs on Spark if there is a session and the table is large. Indexes of the column are dropped.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.cast_column("amount", "decimal(9, 2)")
        >>> orders.scan(["amount"]).to_pylist()
        [{'amount': Decimal('9.50')}]
        """
        from moulin.table.casting import cast

        self._writable()
        return cast(self._context, self._writable, self._keyed(), name, to_type(type, f"column {name}"), self._alter)

    def set_regions(self, fields: Sequence[str] = ()) -> Outcome:
        """Change how the keys of this table are divided among writers; without fields, one writer has all keys.

        Fields are transforms of key columns, such as "bucket(8, id)" or "area", or expressions in the syntax of a
        `where`: conditions ("id < 1000000") and expressions that return integers or strings ("id - 5"). Each
        combination of their values is a region, which one process at a time may write. Memtables are flushed, puts
        wait, and no rows are rewritten: older segments are searched by all regions. Raises Fenced while another process
        has the table open for puts.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> _ = users.set_regions(["bucket(8, name)"])
        >>> users.put({"name": "ann", "age": 42})
        >>> users.properties["moulin.regions"], users.scan().to_pylist()
        ('bucket(8, name)', [{'name': 'ann', 'age': 42}])
        """
        state, keyed = self._writable(), self._keyed()
        if isinstance(fields, str):
            raise InvalidInput(f"set_regions takes a list of fields: use [{fields!r}].")
        text = ", ".join(fields)
        if keyed is None:
            raise FailedPrecondition(f"Table {state.full_name} has no primary key: only keyed tables have regions.")
        RegionSpec.of(state.schema, {REGIONS: text})
        if state.properties.get(REGIONS, "") == text:
            return Outcome(state.head_version)
        return Outcome(keyed.divide(text))

    def move_column(
        self, name: str, *, first: bool = False, after: str | None = None, before: str | None = None
    ) -> Outcome:
        """Move a column to the front, or after or before another one. No rows are rewritten.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.move_column("amount", after="id")
        >>> orders.schema.names
        ['id', 'amount', 'customer']
        """
        return self._alter(MoveColumn(name, first, after, before))

    def set_nullable(self, name: str) -> Outcome:
        """Make a required column nullable.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_nullable("id")
        >>> orders.schema.field("id").nullable
        True
        """
        return self._alter(SetNullable(name))

    def set_required(self, name: str) -> Outcome:
        """Make a column required. Raises FailedPrecondition if a row of the newest version has a null in it.

        Older versions keep their nulls. A write that was prepared before and contains a null raises Conflict.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_required("customer")
        >>> orders.schema.field("customer").nullable
        False
        """
        return self._alter(SetRequired(name))

    def set_doc(self, name: str, doc: str | None) -> Outcome:
        """Set the comment of a column; None removes it.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_doc("amount", "gross, in euro")
        >>> orders.schema.field("amount").metadata[b"doc"]
        b'gross, in euro'
        """
        return self._alter(SetDoc(name, doc))

    def set_default(self, name: str, default: Any) -> Outcome:
        """Set the default of a column for new rows. Existing rows do not change.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_default("amount", 1.0)
        >>> _ = orders.append([{"id": 2}])
        >>> orders.scan(["amount"], where="id = 2").to_pylist()
        [{'amount': 1.0}]
        """
        return self._alter(SetDefault(name, find_column(self._state().schema, name).field_type, default))

    def alter(self, *changes: SchemaChange) -> Outcome:
        """Apply several schema changes in order, as one version.

        >>> from moulin.model.schema.evolution import DropColumn, RenameColumn
        >>> orders = lake.table("shop.orders")
        >>> _ = orders.alter(RenameColumn("customer", "buyer"), DropColumn("amount"))
        >>> orders.schema.names
        ['id', 'buyer']
        """
        return self._alter(*changes)

    def set_properties(self, properties: Mapping[str, Any], *, remove: Sequence[str] = ()) -> Outcome:
        """Set properties, and remove those in `remove`.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_properties({"owner": "ann", "moulin.history-keep-seconds": 86400})
        >>> _ = orders.set_properties({}, remove=["owner"])
        >>> dict(orders.properties)
        {'moulin.history-keep-seconds': '86400'}
        """
        return self._set(SetProperties(check_properties(properties), tuple(remove)))

    def set_partitioning(self, fields: Sequence[str]) -> Outcome:
        """Set the partitioning of new rows. Older segments keep their partitioning.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.set_partitioning(["bucket(4, id)"])
        >>> _ = orders.set_partitioning([])
        """
        return self._set(SetPartitioning(tuple(fields)))

    def set_sort_order(self, fields: Sequence[str]) -> Outcome:
        """Set the sort order, such as ["region", "ts desc"], of new segments. Older segments are sorted when they are
        compacted.

        >>> _ = lake.table("shop.orders").set_sort_order(["customer", "amount desc"])
        """
        return self._set(SetSortOrder(tuple(fields)))

    # Secondary indexes

    def create_index(self, column: str, kind: str = "btree", name: str | None = None) -> IndexInfo:
        """Create an index on a column: `btree` finds values and ranges, `bloom` skips segments without a value.

        `bitmap` is for columns of few values, `label_list` for lists: it finds `array_contains(tags, 'new')`.

        Built on Spark if there is a session and the table is large. Compactions maintain it; segments written
        later are read without it until a compaction or `update_indexes` covers them.

        >>> orders = lake.table("shop.orders")
        >>> index = orders.create_index("customer")
        >>> index.name, index.kind
        ('customer_btree', 'btree')
        """
        from moulin.table.index.index import create_index

        state = self._writable()
        version = create_index(self._context, state, column, kind, name)
        return next(info for info in self.indexes() if info.created_version == version)

    def drop_index(self, name: str) -> Outcome:
        """Drop a secondary index.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.create_index("customer", name="by_customer")
        >>> _ = orders.drop_index("by_customer")
        >>> orders.indexes()
        []
        """
        from moulin.table.index.index import drop_index

        return Outcome(drop_index(self._context, self._writable(), name))

    def update_indexes(self) -> Outcome:
        """Extend every index to all current segments.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.create_index("customer")
        >>> _ = orders.append([{"id": 2, "customer": "bob", "amount": 3.0}])
        >>> _ = orders.update_indexes()
        >>> orders.indexes()[0].covered
        2
        """
        from moulin.table.index.index import update_indexes

        return Outcome(update_indexes(self._context, self._writable()))

    def indexes(self) -> list[IndexInfo]:
        """List the secondary indexes by name.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.create_index("customer", kind="bloom")
        >>> [(index.name, index.kind) for index in orders.indexes()]
        [('customer_bloom', 'bloom')]
        """
        from moulin.table.index.index import list_indexes

        return list_indexes(self._context, self._state())

    def _alter(self, *changes: SchemaChange) -> Outcome:
        if any(isinstance(change, SetRequired) for change in changes):
            from moulin.table.required import require_columns

            self._writable()
            return require_columns(self._context, self._writable, self._keyed(), changes)
        return self._set(AlterSchema(changes))
