"""A lake whose store does the work and loses the answers: nobody takes its own object for another's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.errors import AlreadyExists
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake, locate
from moulin.mirror import Mirror
from moulin.storage import open_store
from moulin.table.keyed.left_logs import regions_in_logs
from tests.conftest import S3_KEYS
from tests.lossy_proxy import Lossy, lossy_proxy

pytestmark = pytest.mark.s3


@pytest.fixture(params=["cut", "gateway"])
def proxy(request: pytest.FixtureRequest, s3_server: str) -> Iterator[Lossy]:
    with lossy_proxy(s3_server, request.param) as proxy:
        yield proxy


@pytest.fixture
def options(proxy: Lossy) -> dict[str, str]:
    return {"endpoint": proxy.address, **S3_KEYS}


@pytest.fixture
def lake(tmp_path: Path, s3_url: str, options: dict[str, str], proxy: Lossy) -> Iterator[Lake]:
    """Made through the proxy: the probe of a new lake and its marker lose answers, too."""
    with moulin.connect(tmp_path / "catalog", storage=s3_url, storage_options=options) as lake:
        assert any("put-if-absent" in request for request in proxy.lost)
        lake.create_database("shop")
        yield lake


def _ids(lake: Lake, name: str = "shop.t") -> list[int]:
    return sorted(lake.table(name).scan().to_arrow().column("id").to_pylist())


def test_commits_are_made_and_published(lake: Lake, proxy: Lossy) -> None:
    table = lake.create_table("shop.t", [("id", "long")])
    for n in range(3):
        table.append([{"id": n}])
    table.delete_where("id = 1")
    table.compact(everything=True)
    assert _ids(lake) == [0, 2]
    assert any(".parquet" in request for request in proxy.lost)
    assert any("manifests/" in request for request in proxy.lost)
    catalog = lake.own_catalog()
    assert catalog.publisher.published_version() == lake.version
    assert check(catalog) == []


def test_a_keyed_table_logs_and_flushes(lake: Lake, proxy: Lossy) -> None:
    table = lake.create_table("shop.t", [("id", "long", False), ("name", "string")], primary_key=["id"])
    for n in range(4):
        table.put({"id": n, "name": f"n{n}"})
    assert any(".log" in request for request in proxy.lost)
    table.flush()
    table.put({"id": 9, "name": "late"})
    assert table.get(9) == {"id": 9, "name": "late"}
    assert _ids(lake) == [0, 1, 2, 3, 9]


def test_projections_and_exports_are_written(
    lake: Lake, proxy: Lossy, s3_url: str, options: dict[str, str], tmp_path: Path
) -> None:
    table = lake.create_table("shop.t", [("id", "long")], properties={"format-version": "2"})
    for n in range(3):
        table.append([{"id": n}])
        made = project(lake.context, table.id)
        assert made.version == table.version
    table.delete_where("id = 1")
    assert project(lake.context, table.id).version == table.version
    assert any(".avro" in request for request in proxy.lost)
    assert any(".metadata.json" in request for request in proxy.lost)


def test_a_catalog_is_recovered(lake: Lake, tmp_path: Path, s3_url: str, options: dict[str, str], proxy: Lossy) -> None:
    lake.create_table("shop.t", [("id", "long")]).append([{"id": n} for n in range(5)])
    lake.close()
    shutil.rmtree(tmp_path / "catalog")
    seen = len(proxy.lost)
    uri, store, config = locate(str(tmp_path / "catalog"), s3_url, options, None)
    recover(store, uri, config, find_regions=partial(regions_in_logs, store, config))
    assert any("manifests/" in request for request in proxy.lost[seen:]), "the manifest of the new life lost its answer"
    with moulin.connect(tmp_path / "catalog", storage=s3_url, storage_options=options) as again:
        assert _ids(again) == [0, 1, 2, 3, 4]
        again.table("shop.t").append([{"id": 5}])
        assert _ids(again) == [0, 1, 2, 3, 4, 5]


def test_a_mirror_is_made_and_followed(
    lake: Lake, s3_url: str, options: dict[str, str], tmp_path: Path, proxy: Lossy
) -> None:
    table = lake.create_table("shop.t", [("id", "long")])
    table.append([{"id": 1}])
    copy = Mirror(lake, f"{s3_url}-copy", options)
    assert copy.run_once().version == lake.version
    table.append([{"id": 2}])
    assert copy.run_once().version == lake.version
    assert any("-copy/" in request for request in proxy.lost)
    with moulin.connect(f"{s3_url}-copy", storage_options=options, read_only=True) as replica:
        assert _ids(replica) == [1, 2]


def test_a_streamed_object_whose_last_answer_was_lost_is_there(
    s3_url: str, options: dict[str, str], proxy: Lossy
) -> None:
    """In parts: the store takes the last request of the upload, and knows nothing of it when it is asked again."""
    store, data = open_store(s3_url, options), bytes(range(256)) * (1 << 16)
    with store.writer("a/large") as file:
        file.write(data)
    assert any("uploadId=" in request and request.startswith("POST") for request in proxy.lost)
    assert store.get("a/large") == data
    store.put("a/large", data[1:])
    assert store.get("a/large") == data[1:]


def test_an_object_of_the_same_bytes_by_another_is_still_another_s(
    s3_url: str, options: dict[str, str], s3_options: dict[str, str]
) -> None:
    """The mark of the call tells them apart, not the bytes."""
    open_store(s3_url, s3_options).put_if_absent("a/b", b"same")
    with pytest.raises(AlreadyExists):
        open_store(s3_url, options).put_if_absent("a/b", b"same")
