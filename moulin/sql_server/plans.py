"""Plans in messages: compressed ones are decompressed, within a limit."""

from __future__ import annotations

import pyspark.sql.connect.proto as pb
import zstandard
from google.protobuf.message import DecodeError

from moulin.errors import InvalidInput

_COMPRESSED = pb.Plan.CompressedOperation


def relation_of(plan: pb.Plan, largest: int) -> pb.Relation:
    """The relation of a plan that describes rows."""
    found = unpacked(plan, largest)
    if found.WhichOneof("op_type") != "root":
        raise InvalidInput("This call needs a plan that describes rows.")
    return found.root


def unpacked(plan: pb.Plan, largest: int) -> pb.Plan:
    """The plan itself. Raises InvalidInput when it is larger than `largest` bytes, or cannot be read."""
    if plan.WhichOneof("op_type") != "compressed_operation":
        return plan
    packed = plan.compressed_operation
    if packed.compression_codec != pb.COMPRESSION_CODEC_ZSTD:
        raise InvalidInput("[CONNECT_INVALID_PLAN.CANNOT_PARSE] The plan has an unknown compression.")
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed.data) as reader:
            data = reader.read(largest + 1)
        if len(data) > largest:
            raise InvalidInput(f"The plan has more than {largest} bytes: send less at a time.")
        found = pb.Plan()
        if packed.op_type == _COMPRESSED.OP_TYPE_RELATION:
            found.root.ParseFromString(data)
        elif packed.op_type == _COMPRESSED.OP_TYPE_COMMAND:
            found.command.ParseFromString(data)
        else:
            raise InvalidInput("[CONNECT_INVALID_PLAN.CANNOT_PARSE] The plan is neither a relation nor a command.")
    except (zstandard.ZstdError, DecodeError):
        raise InvalidInput("[CONNECT_INVALID_PLAN.CANNOT_PARSE] The compressed plan cannot be read.") from None
    return found
