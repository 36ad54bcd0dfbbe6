"""Dagster: an asset that is appended once for each day, however often its run is repeated, and one made of it."""

import os
from datetime import date

import dagster as dg

import moulin

days = dg.StaticPartitionsDefinition(["2026-03-01", "2026-03-02"])


def lake() -> moulin.Lake:
    opened = moulin.connect(os.environ.get("MOULIN_LAKE", "./lake"))
    opened.create_database("shop", if_not_exists=True)
    columns = [("day", "date"), ("region", "string"), ("amount", "double")]
    opened.create_table("shop.orders", columns, if_not_exists=True)
    return opened


@dg.asset(partitions_def=days)  # type: ignore[untyped-decorator] # of mypy where Dagster is not installed
def orders(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """The request id makes the append happen once: a run that is repeated finds it done."""
    day = date.fromisoformat(context.partition_key)
    rows = [{"day": day, "region": region, "amount": amount} for region, amount in (("eu", 1.0), ("us", 2.0))]
    with lake() as opened:
        done = opened.table("shop.orders").append(rows, request_id=f"orders-{day}")
    return dg.MaterializeResult(metadata={"version": done.version})


@dg.asset(deps=[orders])  # type: ignore[untyped-decorator]
def totals() -> dg.MaterializeResult:
    with lake() as opened:
        amounts = opened.table("shop.orders").to_arrow(columns=["amount"])["amount"].to_pylist()
    return dg.MaterializeResult(metadata={"total": sum(amounts), "rows": len(amounts)})


definitions = dg.Definitions(assets=[orders, totals])

if __name__ == "__main__":
    for day in ("2026-03-01", "2026-03-02", "2026-03-02"):  # the last one again
        assert dg.materialize([orders], partition_key=day).success
    found = dg.materialize([totals]).asset_materializations_for_node("totals")[0].metadata
    print("rows", found["rows"].value, "total", found["total"].value)
