"""A client of the REST catalog that lies in every field of every request, and in the files of a commit.

It is refused, or harms what it made itself. Then clean-up runs without waiting for anything, and every file of the
others is there, every row can be read, and the catalog can be rebuilt from storage.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from moulin.iceberg.format.avro import read_avro, write_avro
from moulin.lake import Lake
from tests.hostile import COLUMNS, Bystanders, fill, refused_paths, rows
from tests.iceberg.rest.served import Client, pyiceberg_catalog, served
from tests.iceberg.rest.test_commit import SCHEMA

TABLES = "/namespaces/own/tables"
COUNT = count()
WORDS: tuple[Any, ...] = ("", "a\0b", "\ud800", "_row_id", "../x", "x" * 3000, 7, None, [], {})
FIGURES: tuple[Any, ...] = (-1, 0, 2**31, 2**63 - 1, 2**64, "1", None, 1.5, True)
OTHERS: tuple[Any, ...] = (None, "x", 7, [], {})


@dataclass
class Attack:
    lake: Lake
    client: Client
    address: str
    bystanders: Bystanders
    locations: tuple[str, ...]

    def table(self) -> str:
        """A table of the attacker's own, with rows; its name."""
        name = f"t{next(COUNT)}"
        self.lake.create_table(f"own.{name}", COLUMNS, properties={"format-version": "2"}).append(rows(range(5)))
        return name


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    folder = tmp_path_factory.mktemp("hostile") / "lake"
    with Lake.open(folder) as lake, served(lake) as address, Client(address) as client:
        fill(lake)
        for name in ("orders", "users"):
            assert client.get(f"/namespaces/shop/tables/{name}").status_code == 200
        lake.create_database("own")
        bystanders = Bystanders(lake, folder)
        files = [f"file://{folder}/{path}" for path in refused_paths(lake)]
        yield Attack(lake, client, address, bystanders, (*files, f"file://{folder}", "http://x/y"))


Request = tuple[str, Any]


def _updates(attack: Attack, *updates: Any) -> Request:
    return f"{TABLES}/{attack.table()}", {"requirements": [], "updates": list(updates)}


def _create(attack: Attack) -> Request:
    spec = {"spec-id": 0, "fields": [{"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}]}
    order = {"order-id": 1, "fields": [_ordered()]}
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"]]}
    body = {"name": f"c{next(COUNT)}", "schema": schema, "partition-spec": spec, "write-order": order}
    return TABLES, {**body, "stage-create": False, "properties": {"owner": "me"}}


def _ordered() -> dict[str, Any]:
    return {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def _alter(attack: Attack) -> Request:
    fields = [*SCHEMA["fields"], {"id": 3, "name": "extra", "required": False, "type": "long"}]
    schema = {**SCHEMA, "schema-id": 1, "fields": fields}
    return _updates(
        attack,
        {"action": "add-schema", "schema": schema, "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 2, "fields": [_ordered()]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": {"a": "1"}},
        {"action": "remove-properties", "removals": ["b"]},
    )


def _refs(attack: Attack) -> Request:
    where, body = _updates(attack)
    snapshot = attack.client.get(where).json()["metadata"]["current-snapshot-id"]
    ref = {"action": "set-snapshot-ref", "ref-name": "mine", "type": "tag", "snapshot-id": snapshot}
    body["updates"] = [{**ref, "max-ref-age-ms": 1000}]
    body["requirements"] = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot}]
    return where, body


def _statistics(attack: Attack) -> Request:
    where, body = _updates(attack)
    found = attack.client.get(where).json()["metadata"]
    file = Path(found["location"].removeprefix("file://")) / "metadata" / f"{next(COUNT)}.stats"
    file.write_bytes(b"stats")
    about = {"snapshot-id": found["current-snapshot-id"], "statistics-path": f"file://{file}"}
    sizes = {"file-size-in-bytes": 5, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    update = {"action": "set-statistics", "snapshot-id": about["snapshot-id"], "statistics": {**about, **sizes}}
    body["updates"] = [update]
    return where, body


def _written(attack: Attack) -> tuple[str, Any, dict[str, Any]]:
    """A commit of pyiceberg's whose files are there; where to send it, its body, and its snapshot."""
    name = attack.table()
    transaction = pyiceberg_catalog(attack.address).load_table(f"own.{name}").transaction()
    transaction.append(pa.table({"id": pa.array([77], pa.int64()), "name": ["new"]}))
    updates = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._updates]
    requirements = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._requirements]
    snapshot = next(one["snapshot"] for one in updates if one["action"] == "add-snapshot")
    return f"{TABLES}/{name}", {"requirements": requirements, "updates": updates}, snapshot


def _snapshot(attack: Attack) -> Request:
    where, body, _ = _written(attack)
    return where, body


def _transaction(attack: Attack) -> Request:
    where, body = _refs(attack)
    name = where.rpartition("/")[2]
    return "/transactions/commit", {"table-changes": [{"identifier": _named(name), **body}]}


def _named(name: str) -> dict[str, Any]:
    return {"namespace": ["own"], "name": name}


def _register(attack: Attack) -> Request:
    name = attack.table()
    where = attack.client.get(f"{TABLES}/{name}").json()["metadata-location"]
    attack.lake.drop_table(f"own.{name}")
    return "/namespaces/own/register", {"name": f"r{next(COUNT)}", "metadata-location": where, "overwrite": False}


def _rename(attack: Attack) -> Request:
    return "/tables/rename", {"source": _named(attack.table()), "destination": _named(f"n{next(COUNT)}")}


def _rename_view(attack: Attack) -> Request:
    name = f"v{next(COUNT)}"
    attack.lake.create_view(f"own.{name}", [f"own.{attack.table()}"])
    return "/views/rename", {"source": _named(name), "destination": _named(f"w{next(COUNT)}")}


REQUESTS: dict[str, Callable[[Attack], Request]] = {
    "create": _create,
    "alter": _alter,
    "refs": _refs,
    "statistics": _statistics,
    "snapshot": _snapshot,
    "transaction": _transaction,
    "register": _register,
    "rename": _rename,
    "rename-view": _rename_view,
    "namespace": lambda _: ("/namespaces", {"namespace": [f"d{next(COUNT)}"], "properties": {"a": "b"}}),
    "namespace-properties": lambda _: ("/namespaces/own/properties", {"removals": ["x"], "updates": {"a": "b"}}),
}


def lies(body: Any, locations: tuple[str, ...], keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Where in a body, and what to put there instead; `lies` itself stands for leaving it out."""
    if keys:
        where = isinstance(keys[-1], str) and ("location" in keys[-1] or "path" in keys[-1] or "list" in keys[-1])
        wrong = OTHERS
        if isinstance(body, str):
            wrong = (*locations, *WORDS) if where else WORDS
        elif isinstance(body, int) and not isinstance(body, bool):
            wrong = FIGURES
        yield from ((keys, value) for value in wrong if value != body)
        yield keys, lies
    if isinstance(body, dict):
        for key, value in body.items():
            yield from lies(value, locations, (*keys, key))
    elif isinstance(body, list):
        for place, value in enumerate(body[:3]):
            yield from lies(value, locations, (*keys, place))


def told(body: Any, keys: tuple[Any, ...], value: Any) -> Any:
    """A copy of a body with the lie in it."""
    made = copy.deepcopy(body)
    inner = made
    for key in keys[:-1]:
        inner = inner[key]
    if value is lies:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return made


def send(attack: Attack, where: str, body: Any) -> httpx.Response:
    """As JSON that holds what Python's own refuses to encode: half characters travel as escapes."""
    data = json.dumps(body).encode()
    return attack.client.post(where, content=data, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("kind", REQUESTS)
def test_one_lie_in_a_request_is_refused(attack: Attack, kind: str) -> None:
    where, body = REQUESTS[kind](attack)
    wrong = list(lies(body, attack.locations))
    step = 1 + len(wrong) // 60
    failures, taken = [], 0
    for number, (keys, value) in enumerate(wrong):
        # All of the paths, and a part of the rest; what changes nothing that is read costs a new request each time.
        if value not in attack.locations and (number % step or taken > 8):
            continue
        answer = send(attack, where, told(body, keys, value))
        if answer.status_code >= 500:
            failures.append(f"{keys} = {value!r:.80}: {answer.status_code} {answer.text[:300]}")
        if answer.status_code < 300:
            assert value not in attack.locations, f"{keys} = {value!r:.80}: {answer.text[:300]}"
            where, body = REQUESTS[kind](attack)
            taken += 1
    assert not failures, "\n".join(failures)
    assert send(attack, where, body).status_code < 300, "the truth is taken"


class Files:
    """A commit whose files are there, and one of them to lie in: its manifest list, or its new manifest."""

    def __init__(self, attack: Attack, place: str) -> None:
        self.where, self.body, snapshot = _written(attack)
        self.path = Path(snapshot["manifest-list"].removeprefix("file://"))
        self.records, self.header = read_avro(self.path.read_bytes(), "")
        if place == "manifest":
            newest = next(one for one in self.records if one["added_snapshot_id"] == snapshot["snapshot-id"])
            self.path = Path(newest["manifest_path"].removeprefix("file://"))
            self.records, self.header = read_avro(self.path.read_bytes(), "")

    def write(self, records: Any) -> bool:
        """Whether Avro can hold the records."""
        kept = {key: value for key, value in self.header.items() if not key.startswith("avro.")}
        try:
            self.path.write_bytes(write_avro(json.loads(self.header["avro.schema"]), records, kept))
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError):
            return False
        return True


@pytest.mark.parametrize("place", ["list", "manifest"])
def test_one_lie_in_the_files_of_a_commit_is_refused(attack: Attack, place: str) -> None:
    files = Files(attack, place)
    failures, refused, taken = [], 0, 0
    for keys, value in list(lies(files.records, attack.locations)):
        if taken > 3 and value not in attack.locations:
            continue  # what changes nothing that is read costs a new commit each time
        if not files.write(told(files.records, keys, value)):
            continue
        answer = send(attack, files.where, files.body)
        if answer.status_code >= 500:
            failures.append(f"{keys} = {value!r:.80}: {answer.status_code} {answer.text[:300]}")
        elif answer.status_code < 300:
            assert value not in attack.locations, f"{keys} = {value!r:.80}"
            taken += 1
            files = Files(attack, place)
        else:
            refused += 1
    assert not failures, "\n".join(failures)
    assert refused > 10


def test_what_others_have_is_there_afterwards(attack: Attack, tmp_path: Path) -> None:
    """Last in this file: after all of the above."""
    attack.bystanders.check()
    attack.bystanders.recover(tmp_path / "again")
