"""`moulin table show` of tables with pending columns, and with columns that engines do not see yet."""

from __future__ import annotations

from pathlib import Path

import moulin
from moulin.table.fill.fill import begin
from tests.cli.conftest import Run


def test_show_says_how_far_a_pending_column_is_and_what_engines_do_not_see(run: Run, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("x", "double")], properties={"moulin.projection": "lag"})
        table.append([{"id": 1, "x": 2.0}])
        kind = table.state().schema.find_field("x").field_type
        begin(table._context, table.state, None, [("y", kind)], ["x"], "x * 2")
    pending = run("table", "show", "shop.t", "--json").json()["pending_columns"]
    assert pending["y"].startswith("0 of 1 segments are filled")
    assert "moulin.filling" not in run("table", "show", "shop.t").out, "how it is kept is nobody's concern"
    with moulin.connect(tmp_path / "lake") as lake:
        lake.table("shop.t").add_column("y", "double", from_sql="x * 2")
    assert "pending_columns" not in run("table", "show", "shop.t", "--json").json()
    assert "Engines do not see y yet: 1 of 1 segments" in " ".join(
        run("table", "show", "shop.t", "--engines").out.split()
    )
    assert run("compact", "shop.t").code == 0
    assert "do not see" not in run("table", "show", "shop.t", "--engines").out
