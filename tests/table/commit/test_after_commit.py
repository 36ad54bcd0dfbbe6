"""What fails after a commit is never reported as if nothing had been committed."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.errors import NotFound, Unavailable
from moulin.table.keyed.keyed import KeyedTable


@pytest.mark.parametrize("change", ["append", "properties", "delete"])
def test_a_keyed_table_that_cannot_be_loaded_after_its_commit_reports_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """As when somebody drops the table at that very moment."""
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", [("id", "long", False), ("n", "long")], primary_key=["id"])
        table.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
        before = lake.version
        refresh = KeyedTable.refresh

        def fail_after_commit(keyed: KeyedTable) -> object:
            if lake.version > before:
                raise NotFound("There is no table d.t.")
            return refresh(keyed)

        with monkeypatch.context() as patch:
            patch.setattr(KeyedTable, "refresh", fail_after_commit)
            with pytest.raises(Unavailable, match="was committed"):
                if change == "append":
                    table.append([{"id": 3, "n": 3}])
                elif change == "delete":
                    table.delete_where("id = 1")
                else:
                    table.set_properties({"a": "b"})
        assert lake.version == before + 1
