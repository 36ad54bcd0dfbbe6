"""`moulin table`: tables, their settings and their history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from moulin.cli.documents import write_document
from moulin.cli.help import examples
from moulin.cli.options import All, Json, Limit, OneDatabase, TableName, open_lake, rows_to_read, rows_to_show
from moulin.cli.output import say, say_dropped, show_limited, show_rows, show_values
from moulin.cli.progress import progress
from moulin.cli.tables import adoption
from moulin.cli.tables.plot import plot as draw_times
from moulin.cli.tables.stats import as_values, draw
from moulin.cli.values import Bytes, moment, size
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.filling import Filling, fillings_of
from moulin.model.tags import refs_of
from moulin.model.tags import shown as shown_properties
from moulin.table.stats import TableStats, sorting
from moulin.table.table import Table

app = typer.Typer(
    help="Tables.",
    no_args_is_help=True,
    epilog=examples(
        'moulin table create shop.visits id:long! at:timestamptz! page:string --event-time at --partition-by "day(at)"',
        "moulin table list shop",
        "moulin table show shop.orders --plot",
    ),
)


def register(root: typer.Typer) -> None:
    adoption.register(app)
    root.add_typer(app, name="table")


@app.command(
    epilog=examples(
        'moulin table create shop.visits id:long! at:timestamptz! page:string --event-time at --partition-by "day(at)"',
        "moulin table create shop.users id:long! name:string --primary-key id",
    )
)
def create(
    context: typer.Context,
    name: TableName,
    columns: Annotated[
        list[str],
        typer.Argument(metavar="COLUMN:TYPE...", help="Columns such as id:long! ts:timestamptz; ! means required."),
    ],
    primary_key: Annotated[list[str] | None, typer.Option(help="A primary key column; may be repeated.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="A partition field such as 'day(ts)'; may be repeated.")
    ] = None,
    sort_by: Annotated[list[str] | None, typer.Option(help="A sort column; may be repeated.")] = None,
    event_time: Annotated[str | None, typer.Option(help="The event time column, used to prune by time ranges.")] = None,
    if_not_exists: Annotated[bool, typer.Option(help="Do nothing if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Create a table."""
    with open_lake(context) as lake:
        made = lake.create_table(
            name,
            [_column(text) for text in columns],
            primary_key=primary_key or (),
            partition_by=partition_by or (),
            sort_by=sort_by or (),
            event_time=event_time,
            if_not_exists=if_not_exists,
        )
        say(f"Created table {name}.", as_json, id=made.id, name=name, version=made.version)


def _column(text: str) -> tuple[str, str, bool]:
    name, colon, kind = text.partition(":")
    if not colon or not name or not kind:
        raise InvalidInput(f"{text!r} is not a column: write NAME:TYPE, such as id:long.")
    return name, kind.removesuffix("!"), not kind.endswith("!")


@app.command("list", epilog=examples("moulin table list", "moulin table list shop"))
def list_all(
    context: typer.Context, database: OneDatabase = None, everything: All = False, as_json: Json = False
) -> None:
    """List the tables of a database, or of all."""
    with open_lake(context) as lake:
        rows = [
            {
                "database": t.database,
                "name": t.name,
                "rows": t.rows,
                "segments": t.segments,
                "bytes": Bytes(t.bytes),
                "version": t.head_version,
                **({"gone_at": moment(t.tombstone.delete_at) if t.tombstone else None} if everything else {}),
            }
            for t in lake.tables(database, include_dropped=everything)
        ]
        show_rows(
            rows, as_json, empty="There are no tables." if database is None else f"Database {database} has no tables."
        )


@app.command(epilog=examples("moulin table show shop.orders --plot"))
def show(
    context: typer.Context,
    name: TableName,
    engines: Annotated[bool, typer.Option("--engines", help="Show which Iceberg engines can read the table.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Plot the segments of each level along the event time.")] = False,
    as_json: Json = False,
) -> None:
    """Show a table: columns, partitioning, properties, size, levels, regions and indexes."""
    with open_lake(context) as lake:
        table = lake.table(name)
        if engines:
            _show_engines(lake, table, as_json)
            return
        stats = table.stats()
        description, columns = describe(lake, table, stats)
        if as_json:
            write_document({**description, "columns": columns, **as_values(stats)})
            return
        show_values(description, False)
        show_rows(columns, False)
        draw(stats)
        if plot:
            for line in draw_times(lake.catalog.segments(table.id, stats.version, with_columns=False)):
                say(line)


def _show_engines(lake: Lake, table: Table, as_json: bool) -> None:
    from moulin.iceberg.projection.readers import readers_of

    made, live, found = readers_of(lake.context, table.id)
    rows = [{"engine": r.engine, "version": r.version, "reads_it": r.reads, "why_not": r.reason} for r in found]
    show_rows(rows, as_json)
    beside = {number for segment in live for file in segment.facts.files for number in file.fields}
    left_out = [field.name for field in table.state(made.version).schema.fields if field.field_id in beside]
    if left_out and not as_json:
        count = sum(bool(segment.facts.files) for segment in live)
        say(
            f"Engines do not see {', '.join(left_out)} yet: {count} of {len(live)} segments have these columns in "
            f"separate "
            "files, until a compaction."
        )


def describe(lake: Lake, table: Table, stats: TableStats) -> tuple[dict[str, object], list[dict[str, object]]]:
    """The kind of a table, and its columns."""
    state = table.state()
    written = None if stats.write_amplification is None else round(stats.write_amplification, 2)
    description: dict[str, object] = {
        "name": stats.name,
        "id": str(state.id),
        "version": stats.version,
        "rows": stats.rows,
        "deleted_rows": stats.deleted_rows,
        "segments": stats.segments,
        "bytes": Bytes(stats.bytes),
        "read_amplification": stats.read_amplification,
        "write_amplification": written,
        "primary_key": [state.schema.find_column_name(number) for number in state.schema.identifier_field_ids],
        "partitioned_by": stats.partitioning or None,
        "sorted_by": sorting(state) or None,
        "event_time": state.event_time_field.name if state.event_time_field else None,
        "properties": dict(shown_properties(state.properties)),
        "tags": {name: ref.version for name, ref in refs_of(state.properties).items()},
        "oldest_version": state.oldest_version,
        "files": f"{lake.store.uri}/tables/{state.id}",
    }
    columns: list[dict[str, object]] = [
        {"column": f.name, "type": str(f.field_type), "required": f.required, "field_id": f.field_id, "doc": f.doc}
        for f in state.schema.fields
    ]
    if pending := fillings_of(state.properties, state.schema):
        description["pending_columns"] = {name: _filled(lake, state, one) for name, one in pending.items()}
    return description, columns


def _filled(lake: Lake, state: TableState, filling: Filling) -> str:
    """The progress of a pending column."""
    live = lake.catalog.segments(state.id, state.version, with_columns=False)
    done = sum(segment.facts.file_of(filling.number) is not None for segment in live)
    if filling.again:
        return f"{done} of {len(live)} segments have new values; reads return the old values until all do"
    return f"{done} of {len(live)} segments are filled; until all are, the column reads as null and cannot be written"


@app.command(epilog=examples("moulin table export shop.orders ./orders-iceberg"))
def export(
    context: typer.Context,
    name: TableName,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A folder or an object store.")],
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the data files too, instead of referring to those of the lake.")
    ] = False,
    version: Annotated[int | None, typer.Option(help="Export this version.")] = None,
    as_json: Json = False,
) -> None:
    """Export a table as a separate Iceberg table."""
    with open_lake(context) as lake, progress(f"Exporting {name}", quiet=as_json, lake=lake):
        done = lake.table(name).export_iceberg(directory, version=version, copy=copy)
    say(
        f"{name} at version {done.version} is an Iceberg table in {done.location}: {done.files:,} files "
        f"({size(done.bytes)}), metadata in {done.metadata_location}",
        as_json,
        version=done.version,
        location=done.location,
        metadata_location=done.metadata_location,
        files=done.files,
        bytes=done.bytes,
    )


@app.command(epilog=examples("moulin table history shop.orders --limit 5"))
def history(
    context: typer.Context,
    name: TableName,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show the history of a table, newest first."""
    count = rows_to_show(limit, as_json, usual=20)
    with open_lake(context) as lake:
        rows = [
            {
                "version": c.version,
                "when": moment(c.timestamp_ns),
                "operation": str(c.kind),
                "summary": dict(c.summary),
            }
            for c in lake.table(name).history(rows_to_read(count, as_json))
        ]
        show_limited(rows, as_json, count)
        state = lake.table(name).state()
        if not as_json and state.oldest_version > state.created_version:
            say(f"The history starts at version {state.oldest_version}; older versions were cleaned up.")


@app.command(epilog=examples("moulin table rename shop.orders shop.sales"))
def rename(context: typer.Context, name: TableName, new_name: str, as_json: Json = False) -> None:
    """Rename a table, within its database or to another one."""
    with open_lake(context) as lake:
        made = lake.rename_table(name, new_name)
        say(f"Table {name} is now {new_name}.", as_json, id=made.id, name=made.name)


@app.command(epilog=examples("moulin table clone shop.orders shop.copy"))
def clone(
    context: typer.Context,
    source: TableName,
    name: str,
    at: Annotated[str | None, typer.Option(help="A version, a tag or a time of the source; by default now.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the rows instead of sharing the files.")] = False,
    as_json: Json = False,
) -> None:
    """Create a table with the rows of another table, without copying its files."""
    with open_lake(context) as lake:
        with progress(f"Cloning {source}", quiet=as_json, lake=lake):
            made = lake.clone_table(source, name, at=_moment_of(at), copy=copy)
        say(f"Table {name} is a clone of {source}.", as_json, table=name, version=made.state().version)


def _moment_of(text: str | None) -> int | str | datetime | None:
    """A number is a version, a text that parses as a time is a time, anything else is a tag."""
    if text is None or (text.isascii() and text.isdigit()):
        return None if text is None else int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return text
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@app.command(epilog=examples("moulin table drop shop.customers"))
def drop(
    context: typer.Context,
    name: TableName,
    immediate: Annotated[bool, typer.Option(help="Drop at once and permanently, without a grace period.")] = False,
    as_json: Json = False,
) -> None:
    """Drop a table. It can be resurrected until its grace period ends."""
    with open_lake(context) as lake:
        dropped = lake.drop_table(name, immediate=immediate)
        say_dropped("Table", "table", name, dropped.tombstone, as_json)


@app.command(epilog=examples("moulin table resurrect shop.dropped"))
def resurrect(context: typer.Context, name: TableName, as_json: Json = False) -> None:
    """Restore a dropped table."""
    with open_lake(context) as lake:
        found = lake.resurrect_table(name)
        say(f"Table {name} is restored.", as_json, id=found.id, name=found.name)


@app.command(epilog=examples("moulin table restore shop.orders 7"))
def restore(context: typer.Context, name: TableName, version: int, as_json: Json = False) -> None:
    """Restore the rows and schema of an older version, as a new version."""
    with open_lake(context) as lake:
        done = lake.table(name).restore(version)
        counts = {"added": done.rows_added, "removed": done.rows_deleted, "updated": done.rows_updated}
        rows = ", ".join(f"{count:,} {what}" for what, count in counts.items())
        text = f"Restored {name} to version {version}, as version {done.version}. Rows: {rows}."
        say(text, as_json, version=done.version, rows=counts)
