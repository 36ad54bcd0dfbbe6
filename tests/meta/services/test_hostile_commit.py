"""A client with a `write` token that lies in every field of a commit, one at a time: it is refused, or harms itself.

Then clean-up runs without waiting for anything, and every file of the others is there, every row can be read, and the
catalog can be rebuilt from storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor as F

import moulin
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.client.catalog import ClientCatalog
from moulin.meta.codec.lake.commit import to_message_commit
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.server import build_server
from tests.hostile import COLUMNS, NUMBERS, TEXTS, Bystanders, fill, refused_paths, rows
from tests.meta.server.test_bad_input import INTEGERS

REFUSED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
SUMMARIES = ({"added-data-files": "many"}, {"deleted-records": ""}, {"a\0": "b"}, {"k": "v" * (2 << 20)})


class Captured(BaseException):
    """Carries a commit whose files are written, in place of sending it."""

    def __init__(self, request: pb.CommitRequest) -> None:
        self.request = request


@dataclass
class Attack:
    """A lake that is served, what must stay of it, and a client that may write."""

    served: Lake
    lake: Lake
    bystanders: Bystanders
    send: Callable[[pb.CommitRequest], Any]

    def capture(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> pb.CommitRequest:
        """The request that an action of the client would send; its files are in storage."""
        prepare, act = ACTIONS[kind]
        prepare(self.lake)

        def commit(_: Any, changes: Any, **named: Any) -> None:
            raise Captured(pb.CommitRequest(changes=map(to_message_commit, changes), digest=b"d" * 32))

        with monkeypatch.context() as patched:
            patched.setattr(ClientCatalog, "commit", commit)
            with pytest.raises(Captured) as caught:
                act(self.lake)
        request = caught.value.request
        for change in request.changes:
            change.data.ClearField("claim") if change.HasField("data") else None  # who stops gives the task back
        return request

    def answer(self, request: pb.CommitRequest) -> tuple[grpc.StatusCode | None, str]:
        """The code and text of a refusal; None for what was taken."""
        try:
            self.send(request)
        except grpc.RpcError as error:
            return error.code(), error.details()  # type: ignore[attr-defined]
        return None, ""


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    folder = tmp_path_factory.mktemp("hostile") / "lake"
    with Lake.open(folder) as lake:
        fill(lake)
        lake.create_table("shop.target", COLUMNS).append(rows(range(3)))
        lake.create_table("shop.keyed", [("id", "long", False), ("name", "string")], primary_key=["id"])
        token = AccessFile(folder / "access.toml").create("writer", Role.WRITE)
        bystanders = Bystanders(lake, folder)
        server = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="", auth="on", drain_seconds=1)).start()
        # Only the action itself commits while it is captured.
        with moulin.connect(f"grpc://{server.address}", token=token, merge_background="off") as client:
            channel = grpc.insecure_channel(server.address)
            call = channel.unary_unary(
                "/moulin.lake.v1.CatalogService/Commit",
                request_serializer=pb.CommitRequest.SerializeToString,
                response_deserializer=pb.CommitResponse.FromString,
            )
            metadata = (("authorization", f"Bearer {token}"),)
            yield Attack(lake, client, bystanders, lambda request: call(request, timeout=30, metadata=metadata))
            channel.close()
        server.stop(1)


COUNT = count(200, 10)


def _more(lake: Lake) -> None:
    """Rows that an action can work on, in two segments."""
    lake.table("shop.target").overwrite(rows(range(3)))
    lake.table("shop.target").append(rows(range(11, 14)))


def _nothing(_: Lake) -> None:
    pass


def _delete(lake: Lake) -> None:
    lake.table("shop.target").delete_where("name like '%1'")


def _index(lake: Lake) -> None:
    lake.table("shop.target").create_index("id", "btree", f"by_id_{next(COUNT)}")


def _alter(lake: Lake) -> None:
    lake.table("shop.target").add_column(f"extra_{next(COUNT)}", "int")


# What goes before, and what is lied about.
ACTIONS: dict[str, tuple[Callable[[Lake], object], Callable[[Lake], object]]] = {
    "append": (_nothing, lambda lake: lake.table("shop.target").append(rows(range(100, 103)))),
    "delete": (_more, _delete),
    "overwrite": (_nothing, lambda lake: lake.table("shop.target").overwrite(rows(range(3)))),
    "merge": (_more, lambda lake: lake.table("shop.target").compact(everything=True)),
    "upsert": (_nothing, lambda lake: lake.table("shop.keyed").append(rows(range(next(COUNT), 2000)))),
    "create-index": (_nothing, _index),
    "alter-schema": (_nothing, _alter),
    "set-properties": (_nothing, lambda lake: lake.table("shop.target").set_properties({"owner": "me"})),
    "set-partitioning": (
        _nothing,
        lambda lake: lake.table("shop.target").set_partitioning([f"bucket({next(COUNT)}, id)"]),
    ),
    "set-sort-order": (_nothing, lambda lake: lake.table("shop.target").set_sort_order(["id desc"])),
    "restore": (_nothing, lambda lake: lake.table("shop.target").restore(lake.version)),
    "tag": (_nothing, lambda lake: lake.table("shop.target").tag("mine")),
}


Lie = tuple[str, Callable[[Any], None]]


def lies(message: Any, paths: list[str], find: Callable[[Any], Any] = lambda root: root, where: str = "") -> list[Lie]:
    """Changes of a message: for each field one bad value after the other, or the field left out, or doubled."""
    found: list[Lie] = []
    for field in message.DESCRIPTOR.fields:
        name = f"{where}{field.name}"
        held = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if field.name == "summary":
                found += [(f"{name} = {one!r:.60}", _update(find, one)) for one in SUMMARIES]
            continue
        if field.is_repeated and len(held):
            found.append((f"{name} doubled", _double(find, field.name)))
        if field.type != F.TYPE_MESSAGE:
            now = [*held] if field.is_repeated else [held]
            for value in bad(field, paths):
                if now != [value]:
                    found.append((f"{name} = {value!r:.80}", _set(find, field, value)))
        elif field.is_repeated:
            for place, inner in enumerate(held):
                found += lies(inner, paths, _item(find, field.name, place), f"{name}.")
        elif message.HasField(field.name):
            found += lies(held, paths, _member(find, field.name), f"{name}.")
        if (field.is_repeated and len(held)) or (field.type == F.TYPE_MESSAGE and not field.is_repeated):
            found.append((f"{name} left out", _clear(find, field.name)))
    return found


def _update(find: Callable[[Any], Any], values: dict[str, str]) -> Callable[[Any], None]:
    return lambda root: find(root).summary.update(values)


def _double(find: Callable[[Any], Any], name: str) -> Callable[[Any], None]:
    return lambda root: getattr(find(root), name).extend([*getattr(find(root), name)])


def _clear(find: Callable[[Any], Any], name: str) -> Callable[[Any], None]:
    return lambda root: find(root).ClearField(name)


def _item(find: Callable[[Any], Any], name: str, place: int) -> Callable[[Any], Any]:
    return lambda root: getattr(find(root), name)[place]


def _member(find: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    return lambda root: getattr(find(root), name)


def _set(find: Callable[[Any], Any], field: Any, value: Any) -> Callable[[Any], None]:
    def change(root: Any) -> None:
        if field.is_repeated:
            getattr(find(root), field.name)[:] = [value]
        else:
            setattr(find(root), field.name, value)

    return change


def bad(field: Any, paths: list[str]) -> tuple[Any, ...]:
    if field.name in ("path", "journals", "dv_path"):
        return tuple(paths)
    if field.type == F.TYPE_STRING:
        return TEXTS
    if field.type == F.TYPE_BYTES:
        return (b"", b"\xff" * 5, bytes(70_000))
    if field.type in INTEGERS:
        bits = INTEGERS[field.type]
        return tuple(number for number in NUMBERS if -(1 << bits) <= number < 1 << bits)
    return ()


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ACTIONS)
def test_a_commit_with_one_lie_is_refused_and_changes_nothing(
    attack: Attack, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = refused_paths(attack.served)
    request = attack.capture(kind, monkeypatch)
    told = lies(request, paths)
    assert len(told) > 8
    taken = []
    for lie, change in told:
        sent = pb.CommitRequest()
        sent.CopyFrom(request)
        change(sent)
        code, text = attack.answer(sent)
        if code is None:
            taken.append(lie)
            request = attack.capture(kind, monkeypatch)
        else:
            assert code in REFUSED, f"{lie}: {code} {text}"
            assert text.endswith((".", "?")), text
    assert not [lie for lie in taken if " = " in lie and lie.partition(" ")[0].endswith(("path", "journals"))], taken
    code, text = attack.answer(request)
    assert code is None, f"the truth is taken: {text}"
    for name in ("shop.target", "shop.keyed"):
        attack.served.table(name).scan().to_arrow()


def test_tables_of_others_are_whole_after_hostile_commits(attack: Attack, tmp_path: Path) -> None:
    """Last in this file: after all of the above."""
    attack.bystanders.check()
    attack.bystanders.recover(tmp_path / "again")
