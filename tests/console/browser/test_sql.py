"""The SQL screen in a real browser, on DuckDB in a real child process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moulin.lake import Lake
from tests.console.browser.test_screens import AXE, check_axe, shoot
from tests.console.conftest import Serve, ids

Watch = Callable[..., Any]
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
    page.keyboard.press("Enter")
    page.wait_for_selector(".cm-line:has-text('select o.customer from shop.orders o')")
