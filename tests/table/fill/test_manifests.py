"""Column files in manifests: recoveries, replicas and mirrors have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.config import Config
from moulin.formats import manifest as codec
from moulin.mirror import Mirror
from moulin.storage import open_store, paths


def by_id(source: Any, column: str) -> dict[int, Any]:
    found = source.scan(columns=["id", column]).to_arrow()
    return dict(zip(found["id"].to_pylist(), found[column].to_pylist(), strict=True))


def test_recoveries_replicas_and_mirrors_know_column_files(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    with moulin.connect(root) as lake, moulin.connect(root, read_only=True) as replica:
        lake.create_database("d")
        table = lake.create_table("d.t", [("id", "long"), ("x", "double")], properties={"moulin.inline-bytes": 0})
        for first in (0, 50):
            table.append([{"id": n, "x": float(n)} for n in range(first, first + 50)])
        plain = lake.create_table("d.plain", [("id", "long")])
        plain.append([{"id": 1}])
        table.add_column("y", "double", from_sql="x * 2")
        table.delete_where("id = 60")
        replica.refresh()
        seen = {n: 2.0 * n for n in range(100) if n != 60}
        assert by_id(replica.table("d.t"), "y") == seen
        table.drop_column("x")
        table.append([{"id": 900, "y": 3.0}])
        seen[900] = 3.0
        replica.refresh()
        assert by_id(replica.table("d.t"), "y") == seen
        Mirror(lake, str(tmp_path / "mirror")).run_once()
        bits = {
            info.path: codec.decode(lake.store.get(info.path), info.path).manifest.reader_features & 32
            for one in (table, plain)
            for info in lake.store.list(paths.table_manifests_prefix(one.id))
        }
        assert any(bits.values())
        assert not any(bit for path, bit in bits.items() if str(plain.id) in path)
    for place in (root, tmp_path / "mirror"):
        for file in place.glob("catalog.sqlite*"):
            file.unlink()
        recover(open_store(place), f"sqlite:///{place}/catalog.sqlite", Config())
        with moulin.connect(place) as found:
            assert by_id(found.table("d.t"), "y") == seen
            assert list(check(found.own_catalog(), data=True)) == []
            found.table("d.t").fold()
            assert by_id(found.table("d.t"), "y") == seen
