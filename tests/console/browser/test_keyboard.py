"""Every flow by keyboard alone: nothing here clicks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.browser.test_logs import press_until
from tests.console.browser.test_traces import traced as traced
from tests.console.conftest import Serve, ids

Watch = Callable[..., Any]


def find(page: Any, text: str, hit: str) -> None:
    """Go somewhere by Ctrl-K. Keys that come before the box is drawn are not lost."""
    page.keyboard.press("Control+k")
    page.keyboard.type(text)
    page.wait_for_selector(f"[role=option][aria-selected=true]:has-text('{hit}')")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")


def press(page: Any, selector: str, key: str = "Enter") -> None:
    """Tab to an element, and press a key there."""
    page.wait_for_selector(selector)
    press_until(page, selector)
    page.keyboard.press(key)


def test_the_sql_screen_works_by_keyboard_alone(shop: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(shop).port)
    watched.go("")
    page = watched.page
    find(page, "sql", "SQL")
    page.wait_for_selector(".editor .cm-content:focus")
    page.keyboard.type("select * from sh")
    page.wait_for_selector(".cm-tooltip li:has-text('shop')")
    page.wait_for_timeout(200)  # a list that has only just come takes no key
    page.keyboard.press("Enter")
    page.keyboard.type(".ord")
    page.wait_for_selector(".cm-tooltip li:has-text('orders')")
    page.wait_for_timeout(200)
    page.keyboard.press("Enter")
    page.keyboard.type(" order by id limit 30")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".ran:has-text('30 rows × 4')")
    press(page, "[role=tab]", "ArrowRight")
    page.wait_for_selector("[role=tab][aria-selected=true]:has-text('Chart')")
    page.keyboard.press("ArrowLeft")
    press(page, ".sheet", "ArrowDown")
    page.keyboard.press("End")
    page.wait_for_selector(".sheet [aria-current=true][aria-rowindex='31']")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog h2:has-text('Row 30')")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert page.evaluate("document.activeElement.className") == "sheet"


def test_a_table_is_looked_at_named_restored_and_compared(shop: Lake, serve: Serve, watch: Watch) -> None:
    table = shop.table("shop.orders")
    api = serve(shop)
    newest = int(api.json(f"/tables/{table.id}")["version"])
    watched = watch(api.port)
    watched.go("")
    page = watched.page
    find(page, "shop.ord", "shop.orders")
    page.wait_for_selector("h1:has-text('shop.orders')")
    press(page, "svg.levels", "ArrowRight")
    page.wait_for_selector(".readout:has-text('segment ')")
    page.keyboard.press("Home")
    page.evaluate("document.querySelector('main').focus()")
    press(page, "[role=tab]", "ArrowRight")
    page.wait_for_selector("[role=tab][aria-selected=true]:has-text('Schema')")
    page.evaluate("document.querySelector('main').focus()")
    press(page, "a[href^='#/versions/']")
    page.wait_for_selector("h1:has-text('Versions of')")
    press(page, "svg.versions", "End")
    page.wait_for_selector(".readout:has-text('create-index')")
    press(page, "td button", "Enter")
    page.wait_for_selector("dialog h2:has-text('Name version')")
    page.keyboard.type("by-hand")
    page.keyboard.press("Enter")
    page.wait_for_selector(".badge:has-text('by-hand')")
    assert table.tags()["by-hand"] == newest
    page.evaluate("document.querySelector('main').focus()")
    press(page, "input[type=radio][name=from]", "Space")
    press(page, "input[type=radio][name=to]", "Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".panel h2:has-text('From version')")
    page.locator("tr", has_text="before").locator("button:has-text('Restore')").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog h2:has-text('Restore version')")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector("tbody tr >> nth=0 >> .badge:has-text('newest')")
    assert table.scan().count() == 200


def test_tasks_trash_and_tokens_are_handled(shop: Lake, serve: Serve, watch: Watch, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("ann", Role.ADMIN, 30)
    api = serve(shop, access, secret)
    watched = watch(api.port)
    watched.expected.append("401")
    page = watched.page
    page.goto(watched.origin)
    page.wait_for_selector("form")
    press_until(page, "input")
    page.keyboard.type(secret)
    page.keyboard.press("Enter")
    page.wait_for_selector("main h1:has-text('Lake')")
    api.post(f"/tables/{ids(api)['shop.orders']}/merges")
    find(page, "tasks", "Tasks")
    press(page, "button[aria-label^='Delete task']")
    name = page.inner_text("dialog code")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector("tbody tr >> nth=1", state="detached")
    find(page, "shop.ord", "shop.orders")
    page.wait_for_selector("h1:has-text('shop.orders')")
    press(page, "button.bad")
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Trash')")
    press(page, "[aria-label='Bring back orders']")
    press(page, "dialog button.main")
    page.wait_for_selector("[aria-label='Bring back orders']", state="detached")
    find(page, "access", "Access")
    press(page, "main button.main")
    page.keyboard.type("bob")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .secret")
    page.keyboard.press("Escape")
    press(page, "[aria-label='Revoke bob']")
    page.keyboard.type("bob")
    page.keyboard.press("Enter")
    page.wait_for_selector("[aria-label='Revoke bob']", state="detached")
    assert [one.name for one in access.tokens()] == ["ann"]


def test_a_trace_is_found_opened_and_read(traced: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(traced).port)
    watched.go("")
    page = watched.page
    find(page, "traces", "Traces")
    press_until(page, "input[name=service]")
    page.keyboard.type("checkout")
    page.keyboard.press("Enter")
    page.wait_for_selector("td a:has-text('POST /orders')")
    press_until(page, "td a[href*='00000001']")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('POST /orders')")
    press(page, "[role=tree]", "ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("aside")
    find(page, "service map", "Service map")
    page.wait_for_selector("svg.map a")
    press_until(page, "svg.map a")


def test_what_was_found_for_an_earlier_text_is_not_offered_for_a_later_one(
    shop: Lake, serve: Serve, watch: Watch
) -> None:
    watched = watch(serve(shop).port)
    watched.go("")
    page = watched.page
    page.keyboard.press("Control+k")
    page.keyboard.type("sto")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('shop.stock')")
    page.route("**/api/v1/search*", lambda route: None)  # the server is slow
    for _ in range(3):
        page.keyboard.press("Backspace")
    page.keyboard.type("sql")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('SQL')")
    assert page.locator("[role=option]:has-text('stock')").count() == 0
    page.unroute_all()
