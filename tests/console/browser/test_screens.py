"""The console in a real browser: every screen, light and dark, without a mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.conftest import HOSTILE, Serve, ids

Watch = Callable[..., Any]
AXE = Path(__file__).parent / "axe" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def shoot(page: Any, folder: Path, name: str) -> None:
    page.screenshot(path=folder / f"{name}.png")


def check_axe(chromium_page: Any, where: str) -> None:
    """No finding of axe. It is evaluated by the driver, past the policy of the page."""
    found = chromium_page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)["violations"]
    told = [(one["id"], one["help"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
    assert told == [], where


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_shows_the_lake_without_a_mistake(
    shop: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str, tmp_path: Path
) -> None:
    shop.branch("try-out", expires="7d")
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("ann", Role.ADMIN, 30)
    api = serve(shop, access, secret)
    orders, stock = ids(api)["shop.orders"], ids(api)["shop.stock"]
    watched = watch(api.port, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    page.add_init_script(path=AXE)
    watched.expected.append("401")  # who one is, asked before one logs in
    page.goto(watched.origin)
    page.wait_for_selector("form")
    shoot(page, pictures, f"login-{scheme}")
    check_axe(page, "login")
    page.fill("input", "mlt_wrong")
    page.press("input", "Enter")
    page.wait_for_selector("[role=alert]")
    page.fill("input", secret)
    page.press("input", "Enter")
    page.wait_for_selector("main h1:has-text('Lake')")
    api.post(f"/tables/{orders}/merges")
    for name, place, text in (
        ("lake", "", "orders"),
        ("table", f"table/{orders}", "customer_bucket=0"),
        ("keyed", f"table/{stock}", "Regions"),
        ("versions", f"versions/{orders}", "before"),
        ("activity", "activity", "create-table"),
        ("branches", "branches", "try-out"),
        ("streams", "streams", "No collector"),
        ("tasks", "tasks", "waiting"),
        ("trash", "trash", "shop.old"),
        ("access", "access", "ann"),
    ):
        watched.go(place)
        page.wait_for_selector(f"main :text('{text}')")
        shoot(page, pictures, f"{name}-{scheme}")
        check_axe(page, name)
    watched.go(f"table/{orders}")
    for tab in ("Schema", "Rows", "Readers", "Use it"):
        page.click(f"[role=tab]:has-text('{tab}')")
        page.wait_for_selector("[role=tabpanel] .grid, [role=tabpanel] pre")
        shoot(page, pictures, f"table-{tab.lower().replace(' ', '-')}-{scheme}")
        check_axe(page, tab)
    page.keyboard.press("Control+k")
    page.keyboard.type("cust")
    page.wait_for_selector("[role=option]:has-text('customer')")
    shoot(page, pictures, f"find-{scheme}")
    check_axe(page, "find")


def test_hostile_names_and_values_show_as_text(shop: Lake, serve: Serve, watch: Watch, pictures: Path) -> None:
    api = serve(shop)
    (name,) = [name for name in ids(api) if HOSTILE[:4] in name]
    watched = watch(api.port)
    watched.go("")
    page = watched.page
    page.click(f"td:has-text('{HOSTILE[4:9]}') a, td a:has-text('img')")
    page.wait_for_selector("h1:has-text('img src=x')")
    assert page.inner_text("main h1") == name
    page.click("[role=tab]:has-text('Rows')")
    page.wait_for_selector("[role=tabpanel] td")
    shown = page.locator("[role=tabpanel] td").all_inner_texts()
    assert shown == [HOSTILE, "right \\u202eto left\\u0007 ${7*7} {{7*7}}"]
    assert page.locator("[role=tabpanel] th").all_inner_texts() == ["<b>bold</b>", "note"]
    shoot(page, pictures, "hostile-light")
    page.keyboard.press("Control+k")
    page.keyboard.type("<img")
    page.wait_for_selector("[role=option]:has-text('onerror')")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img[src=x]").count() == 0


def test_a_new_version_appears_by_itself(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go("")
    page = watched.page
    page.wait_for_selector(f".live:has-text('live, version {shop.version}')")
    shop.create_table("shop.fresh", [("x", "int")])
    page.wait_for_selector("td:has-text('fresh')")
    page.wait_for_selector(f".live:has-text('version {shop.version}')")


def test_a_restore_asks_for_the_name(shop: Lake, serve: Serve, watch: Watch) -> None:
    api, table = serve(shop), shop.table("shop.orders")
    watched = watch(api.port)
    watched.go(f"versions/{table.id}")
    page = watched.page
    row = page.locator("tr", has_text="before")
    row.locator("button:has-text('Restore')").click()
    confirm = page.locator("dialog button.main")
    assert confirm.is_disabled()
    page.fill("dialog input", "wrong")
    assert confirm.is_disabled()
    page.fill("dialog input", "orders")
    confirm.click()
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector("td:has-text('restore')")
    assert table.scan().count() == 200


def test_a_diff_shows_what_two_versions_differ_in(shop: Lake, serve: Serve, watch: Watch, pictures: Path) -> None:
    table = shop.table("shop.orders")
    watched = watch(serve(shop).port)
    watched.go(f"versions/{table.id}")
    page = watched.page
    page.check(f"[aria-label='Compare from version {table.tags()['before']}']")
    page.check(f"[aria-label='Compare to version {table.version}']")
    page.wait_for_selector(".panel :text('− 10 rows')")
    shoot(page, pictures, "diff-light")


def test_a_dropped_table_is_brought_back(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go(f"table/{shop.table('shop.orders').id}")
    page = watched.page
    page.click("button:has-text('Drop')")
    page.fill("dialog input", "orders")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Trash')")
    page.click("[aria-label='Bring back orders']")
    page.click("dialog button.main")
    page.wait_for_selector("[aria-label='Bring back orders']", state="detached")
    assert shop.table("shop.orders").scan().count() == 190


def test_a_reader_sees_no_buttons_that_change(shop: Lake, serve: Serve, watch: Watch, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("bob", Role.READ)
    watched = watch(serve(shop, access).port)
    watched.expected.append("401")
    page = watched.page
    page.goto(watched.origin)
    page.fill("input", secret)
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('Lake')")
    for place in (f"table/{shop.table('shop.orders').id}", f"versions/{shop.table('shop.orders').id}", "trash"):
        watched.go(place)
        assert page.locator("main button:not([role=tab])").count() == 0, place
    access.revoke("bob")
    page.wait_for_selector("form :text('Access token')")


def test_one_of_ten_thousand_tables_is_found(lake: Lake, serve: Serve, watch: Watch) -> None:
    lake.create_database("many")
    lake.create_table("many.first", [("x", "int")])
    _copy_rows(lake, 10_000)
    watched = watch(serve(lake).port)
    watched.go("")
    page = watched.page
    page.wait_for_selector("td a")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    page.keyboard.press("Control+k")
    page.keyboard.type("t07654")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('t07654')")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('many.t07654')")
    watched.go("")
    page.fill("input[type=search]", "t0999")
    page.wait_for_selector("td:has-text('t09990')")
    assert page.locator("tbody tr").count() == 10


def _copy_rows(lake: Lake, count: int) -> None:
    """Tables like the first one, straight into the catalog: making each by itself takes minutes."""
    import sqlalchemy as sa

    from moulin.catalog.sql import schema as s
    from moulin.model.ids import new_id

    first = lake.table("many.first").id
    numbers = {new_id(): number for number in range(count)}
    with lake.own_catalog().pool.write() as write:
        for table in (s.tables, s.table_schemas, s.table_specs, s.table_sort_orders, s.table_commits):
            key = table.c.id if table is s.tables else table.c.table_id
            rows = [dict(row) for row in write.connection.execute(sa.select(table).where(key == first)).mappings()]
            write.connection.execute(
                table.insert(),
                [
                    {**row, key.name: new, **({"name": f"t{number:05}"} if table is s.tables else {})}
                    for row in rows
                    for new, number in numbers.items()
                ],
            )


def test_a_server_that_is_gone_is_said_and_found_again(shop: Lake, serve: Serve, watch: Watch) -> None:
    api = serve(shop)
    watched = watch(api.port)
    watched.expected += ["ERR_", "Failed to load"]
    watched.go("")
    page = watched.page
    page.wait_for_selector(".live:has-text('live')")
    assert api.server is not None
    api.server.stop()
    page.wait_for_selector(".live:has-text('stale since')")
    serve(shop, port=api.port)
    page.wait_for_selector(".live:has-text('version')")
    shop.create_table("shop.later", [("x", "int")])
    page.wait_for_selector("td:has-text('later')")
