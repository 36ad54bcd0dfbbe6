"""Which addresses name a branch of a lake."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.storage.address import split_branch, with_branch


@pytest.mark.parametrize(
    ("address", "lake", "branch"),
    [
        ("grpc://host:9560@exp", "grpc://host:9560", "exp"),
        ("grpcs://[::1]:9560@exp-1", "grpcs://[::1]:9560", "exp-1"),
        ("grpc://host", "grpc://host", None),
        ("grpc://host@main", "grpc://host", None),
        ("postgresql://u:p@host/db", "postgresql://u:p@host/db", None),
        ("postgresql://u:p@host/db@exp", "postgresql://u:p@host/db", "exp"),
        ("postgres://u@host/db@exp?sslmode=require", "postgres://u@host/db?sslmode=require", "exp"),
        ("postgresql:///db@exp", "postgresql:///db", "exp"),
        ("postgresql://u:p@host", "postgresql://u:p@host", None),
        ("postgresql://host/d%40b", "postgresql://host/d%40b", None),
        ("./nothing@exp", "./nothing@exp", None),
        ("/a@b/lake", "/a@b/lake", None),
        ("@exp", "@exp", None),
        ("./@exp", "./@exp", None),
    ],
)
def test_a_branch_stands_at_the_end_of_an_address(address: str, lake: str, branch: str | None) -> None:
    assert split_branch(address) == (lake, branch)
    if branch is not None:
        assert split_branch(with_branch(lake, branch)) == (lake, branch)


@pytest.mark.parametrize("address", ["grpc://host@", "grpc://host@a@b", "grpc://host@../x", "postgresql://h/db@a b"])
def test_an_address_with_a_bad_branch_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="cannot name a branch"):
        split_branch(address)


def test_a_folder_with_an_at_in_its_name_goes_before_a_branch(tmp_path: Path) -> None:
    for name in ("lake", "lake@two", "fresh@name"):
        with moulin.connect(f"{tmp_path}/{name}/") as lake:
            lake.create_database(name.partition("@")[2] or "main")
    with moulin.connect(tmp_path / "lake") as lake:
        lake.branch("one")
        lake.branch("two")
    for address, branch, database in [
        ("lake@one", "one", "main"),
        ("lake@two", None, "two"),
        ("lake@two/", None, "two"),
        ("lake@main", None, "main"),
        ("fresh@name", None, "name"),
        ("lake@three/", None, None),
    ]:
        with moulin.connect(f"{tmp_path}/{address}") as lake:
            assert lake.on_branch == branch
            assert [one.name for one in lake.databases()] == ([] if database is None else [database])
    with moulin.connect(f"{tmp_path}/lake@two") as lake:
        lake.branch("deep")
    with moulin.connect(f"{tmp_path}/lake@two@deep") as lake:
        assert (lake.on_branch, lake.uri) == ("deep", f"{tmp_path}/lake@two@deep")


def test_a_branch_is_opened_by_its_address_and_closes_with_its_lake(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long")]).append([{"id": 1}])
        lake.branch("exp")
    with moulin.connect(f"{tmp_path}/lake@exp") as branch:
        branch.table("shop.orders").append([{"id": 2}])
        for refused in (branch.branch, branch.open_branch, branch.drop_branch, branch.resurrect_branch):
            with pytest.raises(FailedPrecondition, match="This lake is the branch 'exp'"):
                refused("other")
    with moulin.connect(tmp_path / "lake") as lake:
        assert lake.table("shop.orders").scan().count() == 1
        assert lake.table("shop.orders@exp").scan().count() == lake.table("shop@exp.orders").scan().count() == 2
        for missing in ("shop.orders@nope", "shop@nope.orders"):
            with pytest.raises(NotFound, match="Branch 'nope' does not exist"):
                lake.table(missing)
        for wrong in ("shop@exp.orders@exp", "shop@a@exp.orders", "shop.@exp", "shop.orders@exp/../x", "shop.orders@"):
            with pytest.raises((InvalidInput, NotFound)):
                lake.table(wrong)
        with pytest.raises(AlreadyExists):
            lake.create_table("shop.orders@exp", [("id", "long")])
        lake.create_table("shop.more@exp", [("id", "long")])
        assert [one.name for one in lake.tables("shop")] == ["orders"]
        assert [one.name for one in lake.open_branch("exp").tables("shop")] == ["more", "orders"]
        with pytest.raises(InvalidInput, match="stays on its branch"):
            lake.rename_table("shop.orders", "shop.moved@exp")
    with pytest.raises(NotFound, match="Branch 'nope' does not exist"):
        moulin.connect(f"{tmp_path}/lake@nope")


def test_a_read_only_lake_is_opened_on_a_branch_and_reads_tables_that_nobody_opened(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long")])
        orders.append([{"id": 1}])
        users = lake.create_table("shop.users", [("id", "long", False), ("n", "long")], primary_key=["id"])
        users.put({"id": 7, "n": 1})
        lake.flush()
        branch = lake.branch("exp")
        orders.append([{"id": 2}])
        lake.flush()
        with moulin.connect(f"{tmp_path}/lake@exp", read_only=True) as replica:
            shown = replica.table("shop.orders")
            assert (shown.scan().count(), replica.table("shop.users").get(7)) == (1, {"id": 7, "n": 1})
            assert [one.name for one in replica.tables("shop")] == ["orders", "users"]
            assert lake.catalog.branch("exp").opened == 0
            replica.refresh()
            assert shown.scan().count() == 1
            branch.table("shop.orders").append([{"id": 3}, {"id": 4}])
            lake.flush()
            replica.refresh()
            assert replica.table("shop.orders").scan().count() == 3
            assert replica.table("shop.users").scan().count() == 1
            with pytest.raises(FailedPrecondition, match="read-only"):
                shown.append([{"id": 9}])
        with moulin.connect(tmp_path / "lake", read_only=True) as whole:
            assert whole.table("shop.orders@exp").scan().count() == 3
            assert whole.table("shop.users@exp").scan().count() == 1
