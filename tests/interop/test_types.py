"""Engines read values of every type, alone and inside structs, lists and maps."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.iceberg.projection.engines import readers
from moulin.iceberg.projection.projection import project
from tests.interop.engines import ENGINES
from tests.table.every_type import VALUES, columns, row, shown


@pytest.mark.parametrize("kind", list(VALUES))
def test_engines_read_every_type_in_every_place(kind: str, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", columns(kind), primary_key=["id"])
        table.append([row(kind, 1, 0), row(kind, 2, None), row(kind, 3, 1), row(kind, 4, 0)])
        table.put(row(kind, 4, 1))
        table.delete(3)
        table.flush()
        made = project(lake.context, table.id)
        expected = [shown(row(kind, 1, 0)), shown(row(kind, 2, None)), shown(row(kind, 4, 1))]
        for able in readers(made.metadata):
            for name in (able.engine, f"{able.engine} native"):
                if able.reads and name in ENGINES:
                    found = ENGINES[name](made.location).to_pylist()
                    if name == "pyiceberg":  # shows a null list of structs as an empty one
                        found = [{**one, "structs": one["structs"] or None} for one in found]
                    assert sorted(map(shown, found), key=lambda one: one["id"]) == expected, name
                elif name in ENGINES:
                    with pytest.raises(Exception, match=r".+"):
                        ENGINES[name](made.location)
