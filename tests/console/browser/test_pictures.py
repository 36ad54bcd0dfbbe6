"""Pictures that explain: a compaction as it happens, versions as a line with branches, ingest up to segments."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.pipeline.nursery.nursery import Nursery
from moulin.table.compact.worker import CompactionWorker
from tests.console.browser.test_screens import AXE, check_axe, shoot
from tests.console.conftest import Serve, ids
from tests.console.logs import Writer, request

Watch = Callable[..., Any]
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@SCHEMES
def test_a_compaction_is_shown_as_it_happens(
    shop: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    api = serve(shop)
    orders = ids(api)["shop.orders"]
    watched = watch(api.port, color_scheme=scheme)
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go(f"table/{orders}")
    page.wait_for_selector("svg.levels")
    assert page.locator(".moving li").count() == 0
    assert api.post(f"/tables/{orders}/merges").json()["tasks"] == 2
    page.wait_for_selector(".moving li.waiting >> nth=1")
    context = shop.context
    claimed = context.catalog.maintenance.claim_merge_task("worker-7")
    assert claimed is not None
    page.wait_for_selector(".moving li.claimed:has-text('being compacted by worker-7')")
    page.wait_for_selector("svg .task.claimed .goal")
    page.wait_for_selector("svg .task.waiting .frame")
    (inputs,) = [one["inputs"] for one in api.json(f"/tables/{orders}/tasks")["items"] if one["state"] == "claimed"]
    assert inputs == [str(number) for number in sorted(claimed.inputs)]
    shoot(page, pictures, f"compaction-{scheme}")
    check_axe(page, "compaction")
    api.post(f"/tasks/{claimed.claim.task_id}/release")
    worker = CompactionWorker(context, "worker-8")
    assert len(list(worker.run_all())) == 2
    page.wait_for_selector("svg .came", state="attached")
    page.wait_for_selector(".moving li", state="detached")
    page.wait_for_selector("svg.levels[aria-label*='level 1: ']")


@SCHEMES
def test_versions_are_a_line_with_branches(shop: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str) -> None:
    row = {"id": 900, "customer": "c1", "amount": 2.0}
    for name in ("nightly-fix", "try-out"):
        with shop.branch(name) as branch:
            for number in range(3):
                branch.table("shop.orders").append([{**row, "id": 900 + number}])
        shop.table("shop.stock").put_batch([{"sku": name, "count": 1}])
        shop.table("shop.stock").flush()
    published = shop.publish("nightly-fix").version
    shop.table("shop.orders").delete_where("id = 11")
    api = serve(shop)
    watched = watch(api.port, color_scheme=scheme)
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go("branches")
    page.wait_for_selector(f"svg.versions[aria-label*='published as {published}']")
    assert page.locator("svg.versions .branch-line").count() == 2
    on_branches = sum(any(x["branch"] for x in one["changes"]) for one in api.json("/lake/activity")["items"])
    assert on_branches >= 6
    assert page.locator("svg.versions circle.line-1, svg.versions circle.line-2").count() == on_branches
    shoot(page, pictures, f"branch-lines-{scheme}")
    check_axe(page, "branches")
    watched.go("activity")
    page.wait_for_selector("svg.versions .branch-line >> nth=1")
    check_axe(page, "activity")
    watched.go(f"versions/{ids(api)['shop.orders']}")
    page.wait_for_selector("svg.versions .branch-line >> nth=1")
    page.wait_for_selector("svg.versions .tag:has-text('before')")
    kept = api.json(f"/tables/{ids(api)['shop.orders']}/commits")["items"]
    assert page.locator("svg.versions circle.knot-main").count() == len({one["version"] for one in kept})
    page.hover("svg.versions circle.knot-main >> nth=-1")
    page.wait_for_selector(".readout:has-text('delete')")
    shoot(page, pictures, f"version-line-{scheme}")
    check_axe(page, "versions")


@SCHEMES
def test_ingest_is_shown_from_collector_to_segments(
    shop: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    token = set_up(shop).token
    assert token is not None
    writer = Writer(shop, token)
    api = serve(shop)
    watched = watch(api.port, color_scheme=scheme)
    page = watched.page
    page.add_init_script(path=AXE)
    for number in range(3):
        writer.send(request([(time.time_ns(), f"record {number}")]))
    watched.go("streams")
    page.wait_for_selector(".flow .step:has-text('3 baby segments')")
    page.wait_for_selector(".flow .arrow:has-text('newest stored')")
    page.wait_for_selector(".flow .arrow:has-text('oldest waits')")
    Nursery(shop, spark=False).run_once()
    page.wait_for_selector(".flow .step:has-text('Nothing waits')")
    page.wait_for_selector(".flow .step:has-text('otel.logs')")
    page.wait_for_selector(".flow .step:has-text('1 segment at level 0')")
    shoot(page, pictures, f"flow-{scheme}")
    check_axe(page, "flow")
