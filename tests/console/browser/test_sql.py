"""The SQL screen in a real browser, on DuckDB in a real child process."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.browser.test_screens import AXE, check_axe, shoot
from tests.console.conftest import HOSTILE, Serve, ids
from tests.console.statements import children

Watch = Callable[..., Any]
ENDLESS = "select sum(hash(a.range * b.range)) from range(10000000) a, range(10000000) b"
WIDE = 24
MANY = 10_000


@pytest.fixture
def wide(shop: Lake) -> Lake:
    """A table of 10,000 rows and 24 columns, with the largest number and nanoseconds."""
    columns: dict[str, Any] = {"id": pa.array([2**63 - 1 - i for i in range(MANY)], pa.int64())}
    columns["moment"] = pa.array([1767225600000000001 + i for i in range(MANY)], pa.timestamp("ns"))
    for number in range(WIDE - 2):
        columns[f"value_{number}"] = pa.array([f"text {i % 97} of {number}" for i in range(MANY)])
    kinds = [("id", "long"), ("moment", "timestamp_ns"), *((f"value_{n}", "string") for n in range(WIDE - 2))]
    shop.create_table("shop.wide", kinds).append(pa.table(columns))
    return shop


def write(page: Any, text: str) -> None:
    page.click(".editor .cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def run(page: Any, text: str, until: str = "row") -> None:
    write(page, text)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f".ran:has-text('{until}')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sql_screen_shows_everything_without_a_mistake(
    wide: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    api = serve(wide)
    watched = watch(api.port, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go(f"table/{ids(api)['shop.wide']}")
    page.click("a:has-text('Query this table')")
    page.wait_for_selector(".editor .cm-line:has-text('shop.wide')")
    check_axe(page, "empty")
    shoot(page, pictures, f"sql-empty-{scheme}")
    page.fill("input[type=number]", str(MANY))
    run(page, "select * from shop.wide order by id desc limit 10000", "rows × 24")
    page.wait_for_selector(".sheet [role=cell]:has-text('9223372036854775807')")
    page.wait_for_selector(".sheet [role=cell]:has-text('2026-01-01 00:00:00.000000001')")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    shoot(page, pictures, f"sql-rows-{scheme}")
    check_axe(page, "rows")
    run(
        page,
        "select customer, count(*) n, sum(amount) total from shop.orders where id > 20 group by all order by 1",
        "7 rows",
    )
    page.click("[role=tab]:has-text('Chart')")
    page.wait_for_selector(".drawn path:not(.axis)")
    shoot(page, pictures, f"sql-chart-{scheme}")
    check_axe(page, "chart")
    page.click("[role=tab]:has-text('Plan')")
    page.wait_for_selector(".plan .step")
    page.wait_for_selector(".shares :text('of 8 segments')")
    shoot(page, pictures, f"sql-plan-{scheme}")
    check_axe(page, "plan")
    page.click("[role=tab]:has-text('History')")
    page.wait_for_selector(".past li")
    shoot(page, pictures, f"sql-history-{scheme}")
    check_axe(page, "history")
    run(page, "select id,\n  nosuch\nfrom shop.orders", "Failed")
    assert page.inner_text("main [role=alert]").startswith("Line 2, column 3:")
    page.wait_for_selector(".cm-mistake:has-text('nosuch')")
    shoot(page, pictures, f"sql-error-{scheme}")
    check_axe(page, "error")
    write(page, "select o.cus from shop.orders o")
    for _ in range(len(" from shop.orders o")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+ ")
    page.wait_for_selector(".cm-tooltip li:has-text('customer')")
    shoot(page, pictures, f"sql-completion-{scheme}")
    page.wait_for_timeout(200)  # a list that has only just come takes no key
    page.keyboard.press("Enter")
    page.wait_for_selector(".cm-line:has-text('select o.customer from shop.orders o')")


def test_a_statement_is_cancelled_and_a_killed_child_is_told(shop: Lake, serve: Serve, watch: Watch) -> None:
    api = serve(shop)
    watched = watch(api.port)
    watched.go("sql")
    page = watched.page
    run(page, ENDLESS, "Running on DuckDB")
    page.click("button:has-text('Cancel')")
    page.wait_for_selector(".ran:has-text('Cancelled')")
    run(page, ENDLESS, "Running on DuckDB")
    (pid,) = children()
    os.kill(pid, signal.SIGKILL)
    page.wait_for_selector("[role=alert]:has-text('is gone')")
    run(page, "select 40 + 2 as answer", "1 row × 1")
    page.wait_for_selector(".sheet [role=cell]:has-text('42')")


def test_dangerous_statements_are_refused_in_words(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go("sql")
    for text in ("select * from read_csv('/etc/passwd')", "attach '/tmp/x.db'", "copy shop.orders to '/tmp/x'"):
        run(watched.page, text, "Failed")
        said = watched.page.inner_text("main [role=alert]")
        assert said.startswith(("The statement is rejected", "Only read statements")), said
        run(watched.page, "select 1", "1 row")


def test_hostile_values_and_names_show_as_text(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go("sql")
    page = watched.page
    name = HOSTILE.replace("/", "").replace('"', '""')
    run(page, f'select *, \'right \u202eto left\' as """><img src=x onerror=pwned=1>" from shop."{name}"', "1 row × 3")
    page.click(".sheet [role=cell] >> nth=0")
    page.wait_for_selector(".sheet [role=cell]:has-text('onerror')")
    page.wait_for_selector(".sheet [role=cell]:has-text('\\\\u202e')")
    page.focus(".sheet")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog dd:has-text('<img src=x')")
    page.keyboard.press("Escape")
    run(page, f'select nosuch as "<img src=x onerror=pwned=1>" from shop."{name}"', "Failed")
    page.click("[role=tab]:has-text('History')")
    page.wait_for_selector(".past code:has-text('onerror')")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img").count() == 0


def test_two_tabs_run_statements_of_their_own_and_share_the_history(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go("sql")
    one = watched.page
    two = one.context.new_page()
    two.goto(f"{watched.origin}/#/sql")
    two.wait_for_selector(".editor .cm-content")
    run(one, "select 'first' as a, count(*) as n from range(100000000)", "")
    run(two, "select 'second' as a", "1 row × 1")
    one.wait_for_selector(".ran:has-text('1 row × 2')")
    assert "first" in one.inner_text(".sheet")
    assert "second" in two.inner_text(".sheet")
    for page in (one, two):
        page.click("[role=tab]:has-text('History')")
        page.wait_for_selector(".past li:has-text('first')")
        page.wait_for_selector(".past li:has-text('second')")
    one.click("button:has-text('Clear the history')")
    two.wait_for_selector("text=Nothing yet")
    assert one.evaluate("Object.keys(localStorage).filter(key => key.includes('sql'))") == []
    two.close()


def test_an_export_from_the_screen_is_the_result(shop: Lake, serve: Serve, watch: Watch, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("ann", Role.READ)
    watched = watch(serve(shop, access).port, accept_downloads=True)
    watched.expected.append("401")
    page = watched.page
    page.goto(watched.origin)
    page.fill("input", secret)
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('Lake')")
    watched.go("sql")
    run(page, "select id, customer from shop.orders order by id", "190 rows × 2")
    with page.expect_download() as download:
        page.click(".exports a:has-text('csv')")
    head, *cells = csv.reader(download.value.path().read_text().splitlines())
    scanned = shop.table("shop.orders").scan(columns=["id", "customer"]).to_arrow().sort_by("id").to_pylist()
    assert (head, cells) == (["id", "customer"], [[str(row["id"]), row["customer"]] for row in scanned])
    access.revoke("ann")
    page.wait_for_selector("form :text('Access token')")
