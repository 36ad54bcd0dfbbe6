"""What is on the wire is what `seed_services.txt` says: eleven services, 53 calls, every field number.

A line is a service with its calls (name, request, response), a message with its fields (number, name, type) or an enum
with its values. Moulin adds fields from 100 on, calls, messages, and values of enums, and takes nothing away.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import symbol_database
from google.protobuf.descriptor import FieldDescriptor

from moulin.meta.server.services import SERVICES

PACKAGE = "moulin.meta.v1"
FIRST_ADDED = 100
POOL: Any = symbol_database.Default().pool
LINES = [line.split(":") for line in (Path(__file__).parents[1] / "seed_services.txt").read_text().splitlines()]
SEED = {kind: {} for kind in ("service", "message", "enum")}  # type: dict[str, dict[str, list[list[str]]]]
for head, rest in LINES:
    kind, name = head.split()
    SEED[kind][name] = [item.split() for item in rest.split(",") if item.strip()]

_TYPES = {
    value: name.removeprefix("TYPE_").lower() for name, value in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}


def declared(field: Any) -> str:
    """The type of a field as a .proto file would say it. A message may always be absent, with `optional` or without."""
    named = field.message_type or field.enum_type
    shown = named.full_name.removeprefix(f"{PACKAGE}.") if named is not None else _TYPES[field.type]
    if field.is_repeated:
        return f"repeated {shown}"
    optional = field.message_type is None and field.has_presence and field.containing_oneof.name.startswith("_")
    return f"optional {shown}" if optional else shown


def test_the_eleven_services_have_the_calls_of_the_seed() -> None:
    """GEN-03"""
    ours = {service.name.rpartition(".")[2] for service in SERVICES if service.name.startswith(PACKAGE)}
    assert ours == set(SEED["service"])
    assert len(ours) == 11
    assert sum(map(len, SEED["service"].values())) == 53
    for service, calls in SEED["service"].items():
        methods = POOL.FindServiceByName(f"{PACKAGE}.{service}").methods_by_name
        for call, request, response in calls:
            assert methods[call].input_type.full_name == f"{PACKAGE}.{request}"
            assert methods[call].output_type.full_name == f"{PACKAGE}.{response}"


@pytest.mark.parametrize("message", SEED["message"])
def test_a_message_keeps_its_fields_and_adds_from_100_on(message: str) -> None:
    """GEN-13, GEN-14"""
    descriptor = POOL.FindMessageTypeByName(f"{PACKAGE}.{message}")
    fields = {field.number: field for field in descriptor.fields}
    known = set()
    for number, name, *kind in SEED["message"][message]:
        known.add(int(number))
        if name == "reserved":
            assert int(number) not in fields
            continue
        field = fields[int(number)]
        wanted = kind[1:] if field.message_type is not None and kind[0] == "optional" else kind
        assert (field.name, declared(field)) == (name, " ".join(wanted))
    assert all(number >= FIRST_ADDED for number in fields.keys() - known), "an added field is numbered from 100 on"


@pytest.mark.parametrize("enum", SEED["enum"])
def test_an_enum_keeps_its_values(enum: str) -> None:
    values = {value.number: value.name for value in POOL.FindEnumTypeByName(f"{PACKAGE}.{enum}").values}
    assert {int(number): name for number, name in SEED["enum"][enum]}.items() <= values.items()
