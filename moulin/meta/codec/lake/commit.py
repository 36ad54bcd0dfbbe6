"""Commits: every operation of `model.operations`, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.commit.table_commit import CommitResult, TableCommit
from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats.manifest import decode_file, encode_file
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.lake.merge_task import from_message_claim, to_message_claim
from moulin.meta.codec.lake.segment import from_message_facts, from_message_vector, to_message_facts, to_message_vector
from moulin.model.filling import read_filling
from moulin.model.operations import (
    AlterSchema,
    Append,
    Compact,
    CreateIndex,
    DataOperation,
    Delete,
    DropIndex,
    Expected,
    Fill,
    IndexFile,
    NewVector,
    Operation,
    Overwrite,
    RegionUse,
    Restore,
    SetPartitioning,
    SetProperties,
    SetSortOrder,
    Trim,
    UpdateIndex,
    Upsert,
)
from moulin.model.schema.change import change_from_json, change_to_json
from moulin.model.tags import FILLING_PREFIX, REF_PREFIX, read_ref
from moulin.table.properties import check_properties

_DATA: Final[dict[str, type[DataOperation]]] = {
    kind.kind.value: kind for kind in (Append, Delete, Upsert, Compact, Trim, Overwrite)
}


def to_message_commit(commit: TableCommit) -> pb.TableCommit:
    message = pb.TableCommit(
        table_id=str(commit.table_id),
        read_version=commit.read_version,
        summary=dict(commit.summary),
        regions=[
            pb.RegionUse(number=u.number, epoch=u.epoch, covered=u.covered, reached=u.reached) for u in commit.regions
        ],
    )
    match commit.operation:
        case DataOperation() as operation:
            message.data.CopyFrom(_to_message_data(operation))
        case Fill(columns, claim):
            message.fill.files.extend(map(encode_file, columns))
            if claim is not None:
                message.fill.claim.CopyFrom(to_message_claim(claim))
        case Restore(version):
            message.restore.version = version
        case AlterSchema(changes):
            message.alter_schema.changes_json.extend(map(change_to_json, changes))
            message.alter_schema.SetInParent()
        case SetProperties(updates, removals):
            message.set_properties.CopyFrom(pb.SetProperties(updates=dict(updates), removals=removals))
        case SetPartitioning(fields, None):
            message.set_partitioning.CopyFrom(pb.SetPartitioning(fields=fields))
        case SetPartitioning():  # only engines choose ids and names, and they commit where the catalog is
            raise Unsupported("A partition spec with ids cannot be sent over gRPC: pass only its fields.")
        case SetSortOrder(fields):
            message.set_sort_order.CopyFrom(pb.SetSortOrder(fields=fields))
        case CreateIndex() as index:
            message.create_index.CopyFrom(
                pb.CreateIndex(
                    id=str(index.id),
                    name=index.name,
                    kind=index.index_kind,
                    field_id=index.field_id,
                    files=map(_to_message_file, index.files),
                )
            )
        case UpdateIndex() as index:
            files = map(_to_message_file, index.files)
            message.update_index.CopyFrom(pb.UpdateIndex(id=str(index.id), name=index.name, files=files))
        case DropIndex() as index:
            message.drop_index.CopyFrom(pb.DropIndex(id=str(index.id), name=index.name))
    return message


def from_message_commit(m: pb.TableCommit) -> TableCommit:
    uses = tuple(RegionUse(u.number, u.epoch, u.covered, u.reached) for u in m.regions)
    table_id, operation = from_message_id(m.table_id, "table_id"), _from_message_operation(m)
    return TableCommit(table_id, m.read_version, operation, dict(m.summary), uses)


def _from_message_operation(m: pb.TableCommit) -> Operation:
    match m.WhichOneof("operation"):
        case "data":
            return _from_message_data(m.data)
        case "fill":
            claim = from_message_claim(m.fill.claim) if m.fill.HasField("claim") else None
            return Fill(tuple(map(decode_file, m.fill.files)), claim)
        case "restore":
            return Restore(m.restore.version)
        case "alter_schema":
            try:
                return AlterSchema(tuple(map(change_from_json, m.alter_schema.changes_json)))
            except Corrupt as error:
                raise InvalidInput(f"A change of the schema cannot be read: {error.message}") from None
        case "set_properties":
            return SetProperties(_checked(m.set_properties.updates), tuple(m.set_properties.removals))
        case "set_partitioning":
            return SetPartitioning(tuple(m.set_partitioning.fields))
        case "set_sort_order":
            return SetSortOrder(tuple(m.set_sort_order.fields))
        case "create_index":
            made, files = m.create_index, _from_message_files(m.create_index.files)
            return CreateIndex(from_message_id(made.id, "index_id"), made.name, made.kind, made.field_id, files)
        case "update_index":
            files = _from_message_files(m.update_index.files)
            return UpdateIndex(from_message_id(m.update_index.id, "index_id"), m.update_index.name, files)
        case "drop_index":
            return DropIndex(from_message_id(m.drop_index.id, "index_id"), m.drop_index.name)
        case _:
            raise InvalidInput("A change has no operation, or an unknown one.")


def _to_message_data(operation: DataOperation) -> pb.DataOperation:
    message = pb.DataOperation(
        kind=operation.kind.value,
        added=map(to_message_facts, operation.added),
        removed=map(_to_message_expected, operation.removed),
        vectors=map(_to_message_new_vector, operation.vectors),
    )
    for number, vector in operation.added_vectors.items():
        if vector.segment != number:
            raise InvalidInput(f"The deletion vector of segment {vector.segment} was given for segment {number}.")
        message.added_vectors.append(to_message_vector(vector))
    if isinstance(operation, Compact):
        message.journals.extend(operation.journals)
        message.journal_outputs.extend(operation.journal_outputs)
        if operation.claim is not None:
            message.claim.CopyFrom(to_message_claim(operation.claim))
    if isinstance(operation, Overwrite):
        message.everything = operation.everything
    return message


def _from_message_data(m: pb.DataOperation) -> DataOperation:
    kind = _DATA.get(m.kind)
    if kind is None:
        raise InvalidInput(f"{m.kind!r} is not a change of rows; known kinds: {', '.join(_DATA)}.")
    values: dict[str, Any] = {
        "added": tuple(map(from_message_facts, m.added)),
        "removed": tuple(map(_from_message_expected, m.removed)),
        "vectors": tuple(map(_from_message_new_vector, m.vectors)),
        "added_vectors": {v.segment: from_message_vector(v) for v in m.added_vectors},
    }
    if kind is not Compact and (m.journals or m.journal_outputs or m.HasField("claim")):
        raise InvalidInput(f"Only kind 'merge' has journals and a task: leave them out of a change of kind {m.kind!r}.")
    if kind is not Overwrite and m.everything:
        raise InvalidInput(f"Only an overwrite can remove everything, not a change of kind {m.kind!r}.")
    if len({v.segment for v in m.added_vectors}) != len(m.added_vectors):
        raise InvalidInput("An added segment can have at most one deletion vector.")
    if kind is Compact:
        values["journals"], values["journal_outputs"] = tuple(m.journals), tuple(m.journal_outputs)
        values["claim"] = from_message_claim(m.claim) if m.HasField("claim") else None
    if kind is Overwrite:
        values["everything"] = m.everything
    return kind(**values)


def _to_message_expected(expected: Expected) -> pb.Expected:
    return pb.Expected(segment=expected.segment, vector_id=expected.vector_id)


def _from_message_expected(m: pb.Expected) -> Expected:
    return Expected(m.segment, m.vector_id)


def _to_message_new_vector(new: NewVector) -> pb.NewVector:
    return pb.NewVector(expected=_to_message_expected(new.expected), vector=to_message_vector(new.facts))


def _from_message_new_vector(m: pb.NewVector) -> NewVector:
    return NewVector(_from_message_expected(m.expected), from_message_vector(m.vector))


def _to_message_file(file: IndexFile) -> pb.IndexFile:
    return pb.IndexFile(path=file.path, size=file.size, entries=file.entries, segments=file.segments)


def _from_message_files(messages: Iterable[pb.IndexFile]) -> tuple[IndexFile, ...]:
    return tuple(IndexFile(m.path, m.size, m.entries, tuple(m.segments)) for m in messages)


def to_message_result(result: CommitResult) -> pb.CommitResponse:
    return pb.CommitResponse(
        version=result.version, timestamp_ns=result.timestamp_ns, replayed=result.replayed, digest=result.digest
    )


def from_message_result(m: pb.CommitResponse) -> CommitResult:
    return CommitResult(m.version, m.timestamp_ns, m.replayed, m.digest if m.HasField("digest") else None)


def _checked(updates: Mapping[str, str]) -> dict[str, str]:
    """Properties that a client may set: those of users, named versions and pending columns, kept among them."""
    own = {key: text for key, text in updates.items() if key.startswith((REF_PREFIX, FILLING_PREFIX))}
    for key, text in own.items():
        read_ref(key, text) if key.startswith(REF_PREFIX) else read_filling(key, text)
    return {**check_properties({key: text for key, text in updates.items() if key not in own}), **own}
