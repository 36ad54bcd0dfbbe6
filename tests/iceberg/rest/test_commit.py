"""Commits as plain requests: requirements, updates, bad input, idempotency, races."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from moulin.catalog.manifests.publish import Publisher
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Fenced
from moulin.iceberg.format.avro import read_avro, write_avro
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.storage.interface import ObjectInfo
from moulin.storage.local import LocalStore
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served

T = "/namespaces/shop/tables/t"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        made = client.post("/namespaces/shop/tables", json={"name": "t", "schema": SCHEMA})
        assert made.status_code == 200, made.text
        yield client


def commit(client: Client, updates: list[Any], requirements: list[Any] | None = None, **options: Any) -> httpx.Response:
    return client.post(T, json={"requirements": requirements or [], "updates": updates}, **options)


def test_every_requirement_is_checked(client: Client, lake: Lake) -> None:
    metadata = client.get(T).json()["metadata"]
    good: list[dict[str, Any]] = [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
        {"type": "assert-default-spec-id", "default-spec-id": 0},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ]
    update = {"action": "set-properties", "updates": {"a": "1"}}
    assert commit(client, [update], good).json()["metadata"]["properties"]["a"] == "1"
    before = lake.version
    for one in good:
        stale = {key: value if key in ("type", "ref") else 77 for key, value in one.items()}
        if one["type"] == "assert-table-uuid":
            stale["uuid"] = str(uuid.uuid4())
        error(commit(client, [update], [stale]), 409, "CommitFailedException")
    error(commit(client, [update], [{"type": "assert-create"}]), 409, "CommitFailedException")
    error(commit(client, [update], [{"type": "assert-everything"}]), 400, "BadRequestException")
    error(commit(client, [update], [{"type": "assert-current-schema-id"}]), 400, "BadRequestException")
    missing = client.post("/namespaces/shop/tables/none", json={"requirements": [], "updates": []})
    error(missing, 404, "NoSuchTableException")
    assert lake.version == before


REFUSED: list[Any] = [
    {"action": "make-coffee"},
    {"no": "action"},
    "text",
    {"action": "set-properties", "updates": {"a": 1}},
    {"action": "set-properties", "updates": {"moulin.nothing": "1"}},
    {"action": "set-properties", "updates": {"write.data.path": "file:///etc"}},
    {"action": "set-properties", "updates": {"write.format.default": "orc"}},
    {"action": "set-properties", "updates": {"write.parquet.compression-codec": "lzo"}},
    {"action": "set-location", "location": "file:///etc"},
    {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
    {"action": "upgrade-format-version", "format-version": 1},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "set-current-schema", "schema-id": 9},
    {"action": "set-default-spec", "spec-id": 9},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-default-sort-order", "sort-order-id": 9},
    {"action": "add-schema", "schema": {"type": "struct", "fields": "none"}},
    {"action": "set-snapshot-ref", "ref-name": "dev", "type": "branch", "snapshot-id": 1},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1},
    {"action": "set-statistics", "snapshot-id": 1, "statistics": {}},
    {"action": "add-snapshot", "snapshot": {"snapshot-id": 1}},
]


def test_updates_that_no_operation_does_are_refused(client: Client, lake: Lake) -> None:
    before = lake.version
    for update in REFUSED:
        error(commit(client, [update]), 400, "BadRequestException")
    assert lake.version == before


def test_a_schema_with_an_id_out_of_turn_is_taken(client: Client) -> None:
    fields = [*SCHEMA["fields"], {"id": 9, "name": "x", "required": False, "type": "int"}]
    updates = [{"action": "add-schema", "schema": {**SCHEMA, "fields": fields}}, _set_schema()]
    error(commit(client, updates), 400, "BadRequestException")
    fields[-1] = {"id": 3, "name": "x", "required": False, "type": "int"}
    assert commit(client, updates).json()["metadata"]["current-schema-id"] == 1
    back = commit(client, [{"action": "set-current-schema", "schema-id": 0}])
    assert [f["name"] for f in back.json()["metadata"]["schemas"][-1]["fields"]] == ["id", "name"]


def _set_schema() -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": -1}


def test_tables_that_cannot_be_made_are_refused(client: Client) -> None:
    where = "/namespaces/shop/tables"
    error(client.post(where, json={"name": "t", "schema": SCHEMA}), 409, "AlreadyExistsException")
    error(client.post(where, json={"name": "t", "schema": SCHEMA, "stage-create": True}), 409, "AlreadyExistsException")
    error(client.post(where, json={"name": "a/b", "schema": SCHEMA}), 400, "BadRequestException")
    error(client.post(where, json={"name": "u"}), 400, "BadRequestException")
    spec = {"fields": [{"name": "p", "transform": "identity", "source-id": 9}]}
    error(client.post(where, json={"name": "u", "schema": SCHEMA, "partition-spec": spec}), 400, "BadRequestException")
    versioned = {"name": "u", "schema": SCHEMA, "properties": {"format-version": "7"}}
    error(client.post(where, json=versioned), 400, "BadRequestException")
    register = {"name": "u", "metadata-location": "file:///etc/passwd"}
    error(client.post("/namespaces/shop/register", json=register), 400, "BadRequestException")


class Written:
    """A snapshot of pyiceberg's, on its way: its files are there, and its commit is ours to send."""

    def __init__(self, address: str, client: Client, rows: list[list[Any]] | None = None) -> None:
        table = pyiceberg_catalog(address).load_table("shop.t")
        transaction = table.transaction()
        names, ids = rows or [["a", "b"], [1, 2]]
        id_column = pa.field("id", pa.int64(), nullable=not table.schema().find_field("id").required)
        schema = pa.schema([id_column, pa.field("name", pa.string())])
        transaction.append(pa.table([ids, names], schema=schema))
        self.updates = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._updates]
        self.requirements = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._requirements]
        self.snapshot = next(one["snapshot"] for one in self.updates if one["action"] == "add-snapshot")
        self.client = client

    def send(self, **options: Any) -> httpx.Response:
        return commit(self.client, self.updates, self.requirements, **options)

    def edit_list(self, **changes: Any) -> None:
        self._edit(self.snapshot["manifest-list"], lambda record: record.update(changes))

    def edit_file(self, **changes: Any) -> None:
        records, _ = read_avro(Path(self.snapshot["manifest-list"].removeprefix("file://")).read_bytes(), "")
        self._edit(records[0]["manifest_path"], lambda record: record["data_file"].update(changes))

    def _edit(self, where: str, change: Any) -> None:
        path = Path(where.removeprefix("file://"))
        records, header = read_avro(path.read_bytes(), where)
        for record in records:
            change(record)
        schema = json.loads(header["avro.schema"])
        path.write_bytes(write_avro(schema, records, {k: v for k, v in header.items() if not k.startswith("avro.")}))


@pytest.fixture
def written(address: str, client: Client) -> Written:
    return Written(address, client)


def _count(lake: Lake) -> int:
    return lake.table("shop.t").scan().to_arrow().num_rows


def test_what_is_written_is_taken(written: Written, lake: Lake) -> None:
    written.edit_list(added_rows_count=2)
    answer = written.send()
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["current-snapshot-id"] == written.snapshot["snapshot-id"]
    assert _count(lake) == 2


LIES: list[tuple[str, dict[str, Any], str]] = [
    ("list", {"added_files_count": 5}, "its manifest list says"),
    ("list", {"added_rows_count": 5}, "its manifest list says"),
    ("list", {"manifest_path": "file:///etc/passwd"}, "below the table's location"),
    ("file", {"record_count": 3}, "manifest"),
    ("file", {"file_size_in_bytes": 3}, "its manifest says"),
    ("file", {"file_format": "ORC"}, "data files are Parquet"),
    ("file", {"content": 2}, "names columns of the table"),
    ("file", {"file_path": "file:///etc/passwd"}, "below the table's location"),
]


def test_a_file_in_the_wrong_partition_is_refused(address: str, client: Client, lake: Lake) -> None:
    """Scans leave out files by their tuples: a file in the wrong partition would hide its rows."""
    table = lake.table("shop.t")
    lies: list[tuple[list[str], dict[str, Any]]] = [
        (["name"], {"name": "z"}),
        (["name"], {"name": None}),
        (["bucket(16, id)"], {"id_bucket": 11}),
        (["truncate(5, id)", "name"], {"id_trunc": 0, "name": "a"}),
    ]
    for fields, lie in lies:
        table.set_partitioning(fields)
        written = Written(address, client, [["a", "a"], [7, 7]])
        written.edit_file(partition=lie)
        assert "has rows of partition" in error(written.send(), 400, "BadRequestException")
    assert _count(lake) == 0
    honest = Written(address, client, [["a", "a"], [7, 7]])
    assert honest.send().status_code == 200
    assert table.scan(where="name = 'a'").count() == 2


def test_files_of_failed_commits_are_swept(address: str, client: Client, lake: Lake) -> None:
    written = Written(address, client)
    written.edit_file(record_count=3)
    error(written.send(), 400, "BadRequestException")
    lake.table("shop.t").append([{"id": 1, "name": "ours"}])
    project(lake.context, lake.table("shop.t").id)
    before = _files(lake)
    collect(lake.own_catalog(), byte_floor=0)
    assert _files(lake) == before, "an engine may still be at it"
    collect(lake.own_catalog(), orphan_grace=0, byte_floor=0)
    gone = before - _files(lake)
    assert {path.rpartition(".")[2] for path in gone} == {"parquet", "avro"}
    assert len(gone) == 3
    assert all("_moulin_segment" not in path for path in gone)
    assert _count(lake) == 1
    assert client.get(T).status_code == 200


def _files(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list("tables") if "/manifests/" not in info.path}


def test_manifests_that_contradict_their_files_are_refused(address: str, client: Client, lake: Lake) -> None:
    for place, changes, reason in LIES:
        written = Written(address, client)
        if place == "list":
            written.edit_list(**changes)
        else:
            written.edit_file(**changes)
        assert reason in error(written.send(), 400, "BadRequestException")
    assert _count(lake) == 0


def test_manifest_lists_outside_of_the_table_are_refused(written: Written) -> None:
    folder = written.snapshot["manifest-list"].rpartition("/metadata/")[0]
    for where in ("/etc/passwd", f"{folder}/metadata/none.avro", f"{folder}/../x.avro", f"{folder}2/m.avro"):
        written.snapshot["manifest-list"] = where
        error(written.send(), 400, "BadRequestException")


def test_a_file_of_another_schema_is_refused(written: Written, lake: Lake) -> None:
    import pyarrow.parquet as pq

    data = next(Path(lake.store.local_path("tables")).rglob("data/*.parquet"))  # type: ignore[arg-type]
    kind = pa.field("id", pa.string(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array(["x", "y"])], schema=pa.schema([kind])), data)
    assert "does not fit" in error(written.send(), 400, "BadRequestException")
    assert _count(lake) == 0


def test_stale_numbers_are_refused(written: Written, lake: Lake) -> None:
    written.requirements.clear()
    for key, value in (("sequence-number", 7), ("parent-snapshot-id", 99)):
        before = written.snapshot.get(key)
        written.snapshot[key] = value
        error(written.send(), 409, "CommitFailedException")
        written.snapshot[key] = before
    lake.table("shop.t").append([{"id": 5, "name": "ours"}])
    error(written.send(), 409, "CommitFailedException")
    assert _count(lake) == 1


def test_a_repeated_idempotency_key_gets_the_first_answer(written: Written, lake: Lake) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first = written.send(headers=headers)
    assert first.status_code == 200, first.text
    again = written.send(headers=headers)
    assert (again.status_code, again.content, again.headers["ETag"]) == (200, first.content, first.headers["ETag"])
    assert _count(lake) == 2
    other = commit(written.client, [], headers=headers)
    error(other, 422, "UnprocessableEntityException")
    error(commit(written.client, [], headers={"Idempotency-Key": "x"}), 400, "BadRequestException")
    error(written.send(headers={"Idempotency-Key": str(uuid.uuid4())}), 409, "CommitFailedException")


def test_idempotency_outlives_the_server(written: Written, lake: Lake) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    assert written.send(headers=headers).status_code == 200
    with served(lake) as address, Client(address) as client:
        written.client = client
        assert written.send(headers=headers).status_code == 200
    assert _count(lake) == 2


def test_of_two_commits_to_one_head_one_wins(address: str, client: Client, lake: Lake) -> None:
    both = [Written(address, client), Written(address, client)]
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda one=one: answers.append(one.send())) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert _count(lake) == 2


def test_a_transaction_is_all_or_nothing(written: Written, lake: Lake) -> None:
    lake.create_table("shop.u", [("id", "long")])
    good = {"identifier": {"namespace": ["shop"], "name": "t"}}
    good |= {"requirements": written.requirements, "updates": written.updates}
    bad = {
        "identifier": {"namespace": ["shop"], "name": "u"},
        "requirements": [{"type": "assert-create"}],
        "updates": [],
    }
    error(_transact(written, [good, bad]), 409, "CommitFailedException")
    error(_transact(written, [good, good]), 400, "BadRequestException")
    error(_transact(written, []), 400, "BadRequestException")
    assert _count(lake) == 0
    assert _transact(written, [good]).status_code == 204
    assert _count(lake) == 2


_CREATE = {"type": "assert-create"}


def _transact(written: Written, changes: list[Any]) -> httpx.Response:
    return written.client.post("/transactions/commit", json={"table-changes": changes})


def test_what_engines_wrote_is_sound_and_published(written: Written, lake: Lake, tmp_path: Path) -> None:
    assert written.send().status_code == 200
    changed = written.client.post("/namespaces/shop/properties", json={"updates": {"owner": "me"}})
    assert changed.status_code == 200
    assert check(lake.own_catalog()) == []
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert _count(replica) == 2
        assert replica.catalog.database("shop").properties == {"owner": "me"}


@pytest.mark.parametrize("kind", ["variant", "geometry", "geometry(OGC:CRS84)", "geography", "unknown"])
def test_types_that_segments_cannot_hold_are_refused_in_words(client: Client, lake: Lake, kind: str) -> None:
    inner = {"type": "list", "element-id": 4, "element": kind, "element-required": False}
    for type_ in (kind, inner):
        fields = [*SCHEMA["fields"], {"id": 3, "name": "x", "required": False, "type": type_}]
        schema = {**SCHEMA, "fields": fields}
        said = error(
            commit(client, [{"action": "add-schema", "schema": schema}, _set_schema()]), 400, "BadRequestException"
        )
        assert f"type {kind} are not stored" in said
        made = {"name": "u", "schema": schema, "properties": {"format-version": "3"}}
        error(client.post("/namespaces/shop/tables", json=made), 400, "BadRequestException")


def test_defaults_are_taken_and_encryption_keys_are_refused(client: Client, lake: Lake) -> None:
    column = {"id": 1, "name": "x", "required": True, "type": "int", "initial-default": 12, "write-default": 10}
    made = {"name": "u", "schema": {"type": "struct", "fields": [column]}, "properties": {"format-version": "3"}}
    metadata = client.post("/namespaces/shop/tables", json=made).json()["metadata"]
    assert metadata["schemas"][0]["fields"] == [column]
    key = {"action": "add-encryption-key", "encryption-key": {"key-id": "a", "encrypted-key-metadata": "eA=="}}
    assert "keeps no encryption keys" in error(commit(client, [key]), 400, "BadRequestException")
    encrypted = {**made, "name": "v", "properties": {"encryption.key-id": "k"}}
    said = error(client.post("/namespaces/shop/tables", json=encrypted), 400, "BadRequestException")
    assert "Property 'encryption.key-id' is not taken" in said


def test_comments_and_write_defaults_of_columns_are_changed(client: Client, lake: Lake) -> None:
    lake.table("shop.t").set_properties({"format-version": "3"})
    lake.table("shop.t").append({"id": [1], "name": ["a"]})
    fields = [{**SCHEMA["fields"][0], "doc": "which"}, {**SCHEMA["fields"][1], "write-default": "none"}]
    updates = [{"action": "add-schema", "schema": {**SCHEMA, "fields": fields}}, _set_schema()]
    metadata = commit(client, updates).json()["metadata"]
    assert metadata["schemas"][-1]["fields"] == fields
    lake.table("shop.t").append({"id": [2]})
    assert sorted(lake.table("shop.t").scan().to_arrow()["name"].to_pylist()) == ["a", "none"]


def test_as_many_earlier_metadata_files_are_listed_as_a_table_says(client: Client) -> None:
    for number in range(5):
        commit(client, [{"action": "set-properties", "updates": {"n": str(number)}}])
    kept = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}
    metadata = commit(client, [{"action": "set-properties", "updates": kept}]).json()["metadata"]
    assert len(metadata["metadata-log"]) == 2


def test_a_table_of_format_version_1_is_one_of_2_with_its_first_rows(client: Client, lake: Lake) -> None:
    made = {"name": "old", "schema": SCHEMA, "properties": {"format-version": "1"}}
    metadata = client.post("/namespaces/shop/tables", json=made).json()["metadata"]
    assert metadata["format-version"] == 1
    assert metadata["schema"]["fields"] == SCHEMA["fields"]
    address = str(client.base_url).removesuffix("/v1/")
    table = pyiceberg_catalog(address).load_table("shop.old")
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]}))
    assert pyiceberg_catalog(address).load_table("shop.old").metadata.format_version == 2
    assert lake.table("shop.old").scan().to_arrow().num_rows == 1


def test_an_answered_commit_has_its_manifests_in_storage_and_leaves_no_files(written: Written, lake: Lake) -> None:
    assert written.send().status_code == 200
    assert lake.own_catalog().publisher.published_version() == lake.version
    assert not Path(written.snapshot["manifest-list"].removeprefix("file://")).exists()


def test_a_commit_to_a_catalog_that_does_not_count_is_not_answered_as_made(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Publisher) -> None:
        raise Fenced("The lake was recovered elsewhere.")

    monkeypatch.setattr(Publisher, "_publish", refuse)
    error(written.send(), 500, "CommitStateUnknownException")
    assert Path(written.snapshot["manifest-list"].removeprefix("file://")).exists(), "its files are left alone"


def test_a_commit_does_not_list_what_the_one_before_it_wrote(
    address: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Written(address, client).send().status_code == 200
    written, listed, plain = Written(address, client), list[str](), LocalStore.list

    def note(store: LocalStore, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        listed.append(prefix)
        return plain(store, prefix, after)

    monkeypatch.setattr("moulin.iceberg.projection.projection.LOOK_SECONDS", 1000.0)
    monkeypatch.setattr(LocalStore, "list", note)
    assert written.send().status_code == 200
    assert listed == []


def test_minus_one_is_what_was_added_last(client: Client) -> None:
    specs = [
        {"spec-id": number, "fields": [{"source-id": 1, "field-id": 1000, "transform": text, "name": "part"}]}
        for number, text in ((1, "identity"), (2, "bucket[7]"))
    ]
    orders = [
        {
            "order-id": number,
            "fields": [{"source-id": 2, "transform": "identity", "direction": way, "null-order": "nulls-last"}],
        }
        for number, way in ((1, "asc"), (2, "desc"))
    ]
    updates = [
        *({"action": "add-spec", "spec": one} for one in specs),
        {"action": "set-default-spec", "spec-id": -1},
        *({"action": "add-sort-order", "sort-order": one} for one in orders),
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    metadata = commit(client, updates).json()["metadata"]
    spec = next(one for one in metadata["partition-specs"] if one["spec-id"] == metadata["default-spec-id"])
    order = next(one for one in metadata["sort-orders"] if one["order-id"] == metadata["default-sort-order-id"])
    assert spec["fields"][0]["transform"] == "bucket[7]"
    assert order["fields"][0]["direction"] == "desc"


def test_ids_of_a_new_table_are_given_anew_wherever_they_are_named(client: Client, address: str) -> None:
    nested = {"type": "struct", "fields": [{"id": 90, "name": "x", "type": "int", "required": False}]}
    kind = {"type": "list", "element-id": 80, "element": nested, "element-required": False}
    fields = [
        {"id": 70, "name": "tags", "type": kind, "required": False},
        {"id": 5, "name": "id", "type": "long", "required": True},
    ]
    body = {
        "name": "odd",
        "schema": {"type": "struct", "schema-id": 9, "fields": fields, "identifier-field-ids": []},
        "partition-spec": {
            "spec-id": 3,
            "fields": [{"source-id": 5, "field-id": 1234, "transform": "bucket[2]", "name": "b"}],
        },
        "write-order": {
            "order-id": 4,
            "fields": [{"source-id": 5, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}],
        },
    }
    metadata = client.post("/namespaces/shop/tables", json=body).json()["metadata"]
    (schema,), spec, order = metadata["schemas"], metadata["partition-specs"][-1], metadata["sort-orders"][-1]
    assert [(one["id"], one["name"]) for one in schema["fields"]] == [(1, "tags"), (2, "id")]
    assert schema["fields"][0]["type"]["element-id"] == 3
    assert schema["fields"][0]["type"]["element"]["fields"][0]["id"] == metadata["last-column-id"] == 4
    assert (spec["fields"][0]["source-id"], order["fields"][0]["source-id"]) == (2, 2)
    table = pyiceberg_catalog(address).load_table("shop.odd")
    required = pa.schema(
        [pa.field("tags", pa.list_(pa.struct([("x", pa.int32())]))), pa.field("id", pa.int64(), nullable=False)]
    )
    rows = pa.Table.from_pylist([{"tags": [{"x": 1}], "id": 7}], schema=required)
    table.append(rows)
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_schemas_between_the_steps_of_a_transaction_leave_no_trace(client: Client, address: str, lake: Lake) -> None:
    from pyiceberg.types import LongType, StringType

    table = pyiceberg_catalog(address).load_table("shop.t")
    table.append(pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]}))
    with table.transaction() as transaction:
        with transaction.update_schema() as update:
            update.add_column("extra", LongType())
        transaction.append(
            pa.table({"id": pa.array([2], pa.int64()), "name": ["b"], "extra": pa.array([5], pa.int64())})
        )
        with transaction.update_schema() as update:
            update.rename_column("extra", "more").add_column("last", StringType())
    wanted = [
        {"id": 1, "name": "a", "more": None, "last": None},
        {"id": 2, "name": "b", "more": 5, "last": None},
    ]
    assert sorted(lake.table("shop.t").scan().to_pylist(), key=lambda row: row["id"]) == wanted
    found = pyiceberg_catalog(address).load_table("shop.t")
    assert sorted(found.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
    assert {one.schema_id for one in found.snapshots()} <= {one.schema_id for one in found.metadata.schemas}
