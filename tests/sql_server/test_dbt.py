"""The dbt project of examples/dbt builds its models through the SQL server, and updates them from changed sources."""

# Decisions: docs/decisions/0282

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import moulin
from moulin import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from tests.interop.environment import python_with, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]

_ROOT = Path(__file__).parents[2]
_START = datetime(2026, 1, 7, tzinfo=UTC)
_COUNTRIES = {"fr": "France", "de": "Germany", "pl": "Poland"}

Row = dict[str, Any]
Dbt = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with dbt."""
    return python_with(str(_ROOT / "requirements" / "dbt.lock"), tmp_path_factory.mktemp("dbt"), "--no-deps", "-r")


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("raw")
        customers = [("id", "long", False), ("name", "string"), ("country", "string")]
        orders = [("id", "long"), ("customer", "long"), ("amount", "double"), ("day", "date")]
        lake.create_table("raw.customers", customers, primary_key=["id"])
        lake.create_table("raw.orders", [*orders, ("updated_at", "timestamptz")])
        yield lake


@pytest.fixture
def dbt(lake: Lake, python: Path, tmp_path: Path) -> Iterator[Dbt]:
    """Runs a command of dbt on the project."""
    from moulin.sql_server.server import SqlServer

    project = tmp_path / "project"
    shutil.copytree(_ROOT / "examples" / "dbt", project)
    access = AccessFile(tmp_path / "access.toml")
    token = access.create("dbt", Role.WRITE)
    config = ServeConfig(bind="127.0.0.1:0", http_bind="", auth="on", access_file=str(access.path), drain_seconds=5)
    server = SqlServer(lake, config).start()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        settings = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_PROFILES_DIR": str(project)}
        remote = f"{server.address}/;token={token}"
        command = python.with_name("dbt")
        return run_python(python, command, *arguments, folder=project, SPARK_REMOTE=remote, **settings)

    yield run
    server.stop()


def test_a_dbt_project_builds_its_models_and_updates_them(lake: Lake, dbt: Dbt) -> None:
    orders = {n: _order(n) for n in range(1, 31)}
    customers = {n: {"id": n, "name": f"n{n}", "country": ["fr", "de", "pl", None][n % 4]} for n in range(1, 7)}
    lake.table("raw.orders").append(list(orders.values()))
    lake.table("raw.customers").append(list(customers.values()))
    done = dbt("build")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "ERROR=0 SKIP=0" in done.stdout
    latest, sales = _clean(orders), _daily(orders)
    _check(lake, orders, customers, latest, sales)
    versions = {name: lake.table(f"shop.{name}").version for name in ("latest_orders", "daily_sales")}

    new = {n: _order(n) for n in range(31, 35)} | {3: {**_order(3), "amount": 99.5, "updated_at": _at(40)}}
    gone = next(n for n in orders if orders[n]["day"] not in {one["day"] for one in new.values()})
    lake.sql(f"delete from raw.orders where id = {gone}")  # no time column shows the delete, so the model keeps its row
    lake.sql(f"update raw.orders set amount = 99.5, updated_at = timestamp '{_at(40).isoformat()}' where id = 3")
    lake.table("raw.orders").append([new[n] for n in range(31, 35)])
    customers[2]["country"] = "fr"
    lake.table("raw.customers").append([customers[2]])
    orders = {n: one for n, one in (orders | new).items() if n != gone}
    done = dbt("build")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    _check(lake, orders, customers, latest | _clean(new), sales | _of_days(_daily(orders), new))
    for name, version in versions.items():  # a full refresh would have made another table
        assert lake.sql(f"select count(*) from shop.{name} version as of {version}").first()[0] > 0

    lake.table("raw.orders").append([{**_order(36), "id": 34}])
    done = dbt("test", "--select", "clean_orders")
    assert done.returncode == 1
    assert "PASS=1 WARN=0 ERROR=1" in done.stdout


def _check(
    lake: Lake, orders: dict[int, Row], customers: dict[int, Row], latest: dict[int, tuple[Any, ...]], sales: Any
) -> None:
    con = duckdb.connect(config={"threads": 1})
    con.execute("create table o (id bigint, customer bigint, amount decimal(12, 2), day date)")
    con.execute("create table c (id bigint, name varchar, country varchar)")
    for one in orders.values():
        if one["amount"] is not None:
            con.execute(
                "insert into o values (?, ?, ?, ?)", [one[name] for name in ("id", "customer", "amount", "day")]
            )
    for one in customers.values():
        con.execute(
            "insert into c values (?, ?, ?)", [one["id"], one["name"], _COUNTRIES.get(one["country"], "unknown")]
        )
    by_customer = (
        "select c.id, name, country, count(o.id), sum(amount) as amount from c left join o on customer = c.id "
        "group by all"
    )
    columns = "id, customer, amount, day"
    assert _rows(lake, "clean_orders", columns) == _sorted(con.execute(f"select {columns} from o").fetchall())
    assert _rows(lake, "orders_by_customer", "*") == _sorted(con.execute(by_customer).fetchall())
    ranked = f"select *, rank() over (partition by country order by amount desc nulls last, id) from ({by_customer})"
    assert _rows(lake, "best_customers", "*") == _sorted(con.execute(ranked).fetchall())
    assert _rows(lake, "latest_orders", columns) == _sorted(latest.values())
    assert _rows(lake, "daily_sales", "day, orders, amount") == _sorted(sales.values())
    assert _rows(lake, "countries", "code, country") == sorted(_COUNTRIES.items())


def _rows(lake: Lake, name: str, columns: str) -> list[tuple[Any, ...]]:
    return _sorted(tuple(row) for row in lake.sql(f"select {columns} from shop.{name}").collect())


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=str)


def _at(number: int) -> datetime:
    return _START + timedelta(minutes=number)


def _order(number: int) -> Row:
    amount = None if number % 9 == 8 else number * 1.25
    day = date(2026, 1, 1 + number % 5 + (number > 30) * 2)
    return {"id": number, "customer": number % 6 + 1, "amount": amount, "day": day, "updated_at": _at(number)}


def _clean(orders: dict[int, Row]) -> dict[int, tuple[Any, ...]]:
    """The rows of `clean_orders` without their times."""
    cent = Decimal("0.01")
    return {
        n: (n, one["customer"], Decimal(one["amount"]).quantize(cent, "ROUND_HALF_UP"), one["day"])
        for n, one in orders.items()
        if one["amount"] is not None
    }


def _daily(orders: dict[int, Row]) -> dict[date, tuple[date, int, Decimal]]:
    found: dict[date, list[Decimal]] = {}
    for _, _, amount, day in _clean(orders).values():
        found.setdefault(day, []).append(amount)
    return {day: (day, len(amounts), sum(amounts, Decimal(0))) for day, amounts in found.items()}


def _of_days(sales: dict[date, Any], orders: dict[int, Row]) -> dict[date, Any]:
    days = {one["day"] for one in orders.values() if one["amount"] is not None}
    return {day: found for day, found in sales.items() if day in days}
