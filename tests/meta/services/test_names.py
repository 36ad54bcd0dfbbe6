"""Names and columns through a server follow the rules of the Python API, whatever JSON a client sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.lake import Lake
from moulin.meta.codec.lake.table import to_message_new_table
from moulin.meta.server.server import build_server
from tests.contract.samples import new_table
from tests.meta.conftest import LOOPBACK, refused

BAD_NAMES = ["", " ", "a\0b", "a\nb", "a/b", "a..b", ".a", "a.", "a`b", "_moulin_x", "x" * 300, "tab\t"]
BAD_COLUMNS = ["", " ", "_row_id", "_ROW_ID", "_moulin_x", "a\0b", "a\nb", "a.b", "a`b", "x" * 300, "TS"]


class Site:
    def __init__(self, lake: Lake, stub: Any) -> None:
        self.lake, self.stub = lake, stub

    def create(self, change: Any, name: str = "made") -> None:
        request = to_message_new_table("d", name, new_table(partition_by=["bucket(4, id)"]))
        change(request)
        self.stub.CreateTable(request)

    def alter(self, change: dict[str, Any]) -> None:
        table = self.lake.table("d.t")
        commit = pb.TableCommit(table_id=str(table.id), read_version=self.lake.version)
        commit.alter_schema.changes_json.append(json.dumps(change))
        self.stub.Commit(pb.CommitRequest(changes=[commit]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("names")
    with Lake.open(folder / "lake") as lake:
        lake.create_database("d")
        lake.create_table("d.t", [("id", "long"), ("ts", "timestamp")])
        server = build_server(lake, LOOPBACK).start()
        with grpc.insecure_channel(server.address) as channel:
            yield Site(lake, CatalogServiceStub(channel))
        server.stop(1)


INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_of_an_object_is_refused_by_every_call(site: Site, name: str) -> None:
    before = site.lake.version
    with refused(INVALID):
        site.create(lambda request: None, name)
    with refused(INVALID):
        site.stub.CreateDatabase(pb.CreateDatabaseRequest(name=name))
    with refused(INVALID):
        site.stub.CreateView(pb.CreateViewRequest(database="d", name=name, members=["t"]))
    with refused(INVALID):
        site.stub.RenameTable(pb.RenameTableRequest(database="d", name="t", new_database="d", new_name=name))
    with refused(INVALID):
        site.stub.RenameDatabase(pb.RenameDatabaseRequest(name="d", new_name=name))
    assert site.lake.version == before


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_a_bad_name_of_a_column_is_refused(site: Site, name: str) -> None:
    before = site.lake.version

    def rename(request: pb.CreateTableRequest) -> None:
        schema = json.loads(request.schema_json)
        schema["fields"][0]["name"] = name
        request.schema_json = json.dumps(schema)

    with refused(INVALID):
        site.create(rename)
    taken = grpc.StatusCode.ALREADY_EXISTS if name == "TS" else INVALID
    if "." not in name:  # a dotted name is a path into a struct
        with refused(taken):
            site.alter({"action": "add-column", "name": name, "type": "int"})
    with refused(taken):
        site.alter({"action": "rename-column", "name": "id", "new_name": name})
    assert site.lake.version == before


def _schema(**changes: Any) -> Any:
    def change(request: pb.CreateTableRequest) -> None:
        request.schema_json = json.dumps({**json.loads(request.schema_json), **changes})

    return change


def _field(place: int, **changes: Any) -> Any:
    def change(request: pb.CreateTableRequest) -> None:
        schema = json.loads(request.schema_json)
        schema["fields"][place].update(changes)
        request.schema_json = json.dumps(schema)

    return change


def _spec(**changes: Any) -> Any:
    def change(request: pb.CreateTableRequest) -> None:
        spec = json.loads(request.spec_json)
        spec["fields"][0].update(changes)
        request.spec_json = json.dumps(spec)

    return change


def _set(**values: Any) -> Any:
    def change(request: pb.CreateTableRequest) -> None:
        for name, value in values.items():
            setattr(request, name, value)

    return change


@pytest.mark.parametrize(
    "lie",
    [
        _schema(fields=[]),
        _schema(**{"schema-id": 2**31 - 1}),
        _schema(**{"identifier-field-ids": [2]}),
        _schema(**{"identifier-field-ids": [99]}),
        _field(0, id=0),
        _field(0, id=2),
        _field(0, id=2**31 - 1),
        _field(0, type="decimal(99, 3)"),
        _field(0, type={"type": "struct", "fields": []}),
        _field(0, **{"initial-default": "text"}),
        _spec(transform="bucket[0]"),
        _spec(transform="nothing"),
        _spec(transform="day"),
        _spec(name=""),
        _spec(**{"source-id": 77}),
        _spec(**{"field-id": 2**31 - 1}),
        _set(last_column_id=2**31 - 1),
        _set(last_partition_id=2**31 - 1),
        _set(event_time=1),
        _set(event_time=77),
        _set(sort_order_json='{"order-id": 0, "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", '
             '"null-order": "nulls-first"}]}'),
        _set(sort_order_json='{"order-id": 1, "fields": [{"source-id": 1, "transform": "nothing", '
             '"direction": "asc", "null-order": "nulls-first"}]}'),
    ],
)  # fmt: skip
def test_a_table_that_python_could_not_make_is_refused(site: Site, lie: Any) -> None:
    before = site.lake.version
    with refused(INVALID):
        site.create(lie)
    assert site.lake.version == before


def test_one_request_cannot_use_up_the_segment_numbers(site: Site) -> None:
    with refused(INVALID, "reserved at once"):
        site.stub.ReserveSegments(pb.ReserveSegmentsRequest(count=2**62))
    assert site.stub.ReserveSegments(pb.ReserveSegmentsRequest(count=5)).first > 0
