"""`moulin demo`: a tour on generated data."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.panel import Panel

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.cli.demo.stay import stay
from moulin.cli.demo.telemetry import telemetry
from moulin.cli.help import examples
from moulin.cli.output import console, errors, show_rows
from moulin.cli.values import size
from moulin.errors import FailedPrecondition
from moulin.lake import Lake, locate
from moulin.storage import paths
from moulin.table.keyed.left_logs import regions_in_logs
from moulin.table.table import Table

REGIONS = ("berlin", "lagos", "lima", "osaka", "paris", "pune")
PRODUCTS = 500
LOADS = 8
_START = 1_709_251_200_000_000  # 2024-03-01, in microseconds
_DAY = 86_400_000_000


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin demo --rows 100000"))(demo)


def demo(
    folder: Annotated[Path | None, typer.Option(help="The folder of the lake; by default a temporary one.")] = None,
    rows: Annotated[int, typer.Option(help="Number of rows to load.", min=8_000)] = 3_000_000,
    keep_open: Annotated[bool, typer.Option("--stay", help="Serve the console in the browser at the end.")] = False,
) -> None:
    """A tour: load, query, update, delete, time travel, compaction, telemetry, and recovery of a lost catalog."""
    keep = folder is not None
    root = folder if folder is not None else Path(tempfile.mkdtemp(prefix="moulin-demo-"))
    if (root / paths.marker()).exists():
        raise FailedPrecondition(f"{root} already contains a lake; choose another folder.")
    started = time.perf_counter()
    lake = root if keep else root / "lake"
    try:
        _tour(lake, rows)
        _farewell(time.perf_counter() - started, root if keep else None)
        if keep_open:
            stay(lake)
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


def _tour(root: Path, rows: int) -> None:
    lake = moulin.connect(root, stream_flush_seconds=0.2)
    try:
        sales = _load(lake, rows)
        _query(lake)
        _correct(lake, sales)
        _compact(lake, sales)
        _telemetry(lake)
        expected = sales.scan().count()
        lake = _lose_and_recover(lake, root, expected)
    finally:
        lake.close()


def _load(lake: Lake, rows: int) -> Table:
    _chapter("1. A lake, and a few million rows", "One folder, no server. Six shops report their sales of March.")
    with _timed("Created the lake and table shop.sales"):
        lake.create_database("shop")
        sales = lake.create_table(
            "shop.sales",
            [
                ("sale", "long", False),
                ("at", "timestamptz", False),
                ("shop", "string"),
                ("product", "int"),
                ("price", "double"),
                ("note", "string"),
            ],
            event_time="at",
        )
    with _timed(f"Appended {rows:,} rows in {LOADS} loads, each one a version"):
        for load in range(LOADS):
            sales.append(_sales(load, rows // LOADS))
    stats = sales.stats()
    console.print(f"   {stats.segments} segments, {size(stats.bytes)}, version {stats.version}")
    return sales


def _sales(load: int, count: int) -> pa.Table:
    """One shop report: vectorised, and the same every time."""
    random = np.random.default_rng(load)
    product = random.integers(0, PRODUCTS, count, dtype=np.int32)
    at = _START + random.integers(0, 31 * _DAY, count)
    price = np.round(1 + product * 0.4 + random.exponential(5, count), 2)
    if load == 5:
        price *= 100  # this till reported cents
    shops = pa.DictionaryArray.from_arrays(random.integers(0, len(REGIONS), count, dtype=np.int8), list(REGIONS))
    notes = pa.array(["", "gift", "returned once", "loyalty card"]).take(pa.array(random.integers(0, 4, count)))
    return pa.table(
        {
            "sale": pa.array(np.arange(count, dtype=np.int64) + load * 1_000_000_000),
            "at": pa.array(at).cast(pa.timestamp("us", tz="UTC")),
            "shop": shops.cast(pa.string()),
            "product": product,
            "price": price,
            "note": notes,
        }
    )


_BY_SHOP = (
    "select shop, count(*) as sales, round(avg(price), 2) as mean_price from shop.sales{} group by shop order by shop"
)


def _query(lake: Lake) -> None:
    _chapter("2. Query with Spark SQL", "Spark reads the Parquet files natively.")
    with _timed("Started Spark"):
        lake.spark()
    with _timed("Sales by shop"):
        answer = _ask(lake, _BY_SHOP.format(""))
    show_rows(answer, False)
    dear = _ask(
        lake,
        "select floor(sale / 1000000000) as load, round(avg(price), 2) as mean from shop.sales group by 1 order by 1",
    )
    show_rows(dear, False)
    console.print("   The prices of load 5 are a hundred times too high: that shop reports cents.")


def _correct(lake: Lake, sales: Table) -> None:
    _chapter("3. Fix it", "Replace the wrong load and delete some rows: two versions, no file rewritten.")
    wrong = sales.version
    fixed = _sales(5, sales.scan(where="sale >= 5000000000 and sale < 6000000000").count())
    fixed = fixed.set_column(4, "price", pa.array(np.round(fixed.column("price").to_numpy() / 100, 2)))
    with _timed("Overwrote load 5 with the right prices"):
        outcome = sales.overwrite(fixed, where="sale >= 5000000000 and sale < 6000000000")
    console.print(f"   {outcome.rows_deleted:,} rows out, {outcome.rows_added:,} rows in, version {outcome.version}")
    with _timed("Deleted a product that was recalled, and a customer's notes"):
        outcome = sales.delete_where("product = 13 or (shop = 'osaka' and note = 'returned once')")
    console.print(f"   {outcome.rows_deleted:,} rows hidden by deletion vectors, version {outcome.version}")
    with _timed(f"Now, and as it was at version {wrong}"):
        now = {row["shop"]: row for row in _ask(lake, _BY_SHOP.format(""))}
        then = _ask(lake, _BY_SHOP.format(f" version as of {wrong}"))
    show_rows(
        [
            {
                "shop": row["shop"],
                "mean price then": row["mean_price"],
                "mean price now": now[row["shop"]]["mean_price"],
            }
            for row in then
        ],
        False,
    )


def _compact(lake: Lake, sales: Table) -> None:
    _chapter(
        "4. Compact",
        "Spark tasks rewrite the new segments into sorted, compressed ones; readers and writers continue.",
    )
    query = (
        "select shop, round(sum(price), 2) as turnover from shop.sales "
        "where at >= '2024-03-08' and at < '2024-03-09' group by shop order by shop"
    )
    before, answer = sales.stats(), _ask(lake, query)
    slow = _median(lambda: _ask(lake, query))
    with _timed("Compacted"):
        sales.compact(everything=True)
    after = sales.stats()
    fast = _median(lambda: _ask(lake, query))
    same = _ask(lake, query) == answer
    show_rows(
        [
            {"": "segments", "before": before.segments, "after": after.segments},
            {"": "size", "before": size(before.bytes), "after": size(after.bytes)},
            {"": "deleted rows still stored", "before": before.deleted_rows, "after": after.deleted_rows},
            {"": "one day's turnover, ms", "before": f"{slow * 1e3:,.0f}", "after": f"{fast * 1e3:,.0f}"},
        ],
        False,
    )
    console.print(f"   The result is {'the same' if same else 'DIFFERENT'}.")


def _telemetry(lake: Lake) -> None:
    _chapter(
        "5. Telemetry",
        "Services send OTLP to a collector; SQL sees it at once; the nursery and compaction make it compact.",
    )
    telemetry(lake, _timed, _ask)


def _lose_and_recover(lake: Lake, root: Path, expected: int) -> Lake:
    _chapter("6. Lose the catalog", "Delete the database file. The manifests in storage hold every version.")
    version = lake.version
    lake.close()
    for file in root.glob(f"{paths.catalog_file()}*"):
        file.unlink()
    try:
        moulin.connect(root)
    except FailedPrecondition as error:
        console.print(f"   [red]{error.message}[/red]")
    with _timed("moulin recover"):
        catalog_uri, store, config = locate(str(root), None, None, None)
        found = recover(store, catalog_uri, config, find_regions=partial(regions_in_logs, store, config))
    lake = moulin.connect(root)
    sales = lake.table("shop.sales")
    rows, versions = sales.scan().count(), len(sales.history())
    console.print(
        f"   Back at version {found.version} of {version}, with {versions} versions of shop.sales "
        f"and {rows:,} rows ({'as before' if rows == expected else 'NOT as before'})."
    )
    return lake


def _farewell(seconds: float, folder: Path | None) -> None:
    address = folder or "./lake"
    hint = "" if folder else "   (this tour's lake was temporary; `moulin demo --folder ./lake` keeps it)\n"
    console.print(
        Panel(
            f"That took {seconds:.0f} seconds. What to try next:\n{hint}\n"
            f"  moulin --lake {address} table show shop.sales\n"
            f"  moulin --lake {address} table history shop.sales\n"
            f'  moulin --lake {address} sql "select count(*) from shop.sales"\n'
            f"  moulin --lake {address} check\n\n"
            "  README.md shows the same in Python; docs/semantics.md lists the guarantees.",
            title="Done",
            title_align="left",
            expand=False,
        )
    )


def _chapter(title: str, text: str) -> None:
    console.print(f"\n[bold]{title}[/bold]\n   [dim]{text}[/dim]")


@contextmanager
def _timed(what: str) -> Iterator[None]:
    started = time.perf_counter()
    with errors.status(f"{what} ..."):
        yield
    console.print(f"   {what}: {time.perf_counter() - started:.1f} s")


def _ask(lake: Lake, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lake.sql(text).toArrow().to_pylist()
    return rows


def _median(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return sorted(times)[1]
