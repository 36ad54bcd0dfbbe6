"""The messages of manifests, loaded when they are used."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from moulin._proto.moulin.format.v1 import manifest_pb2


def fresh() -> ModuleType:
    """The module as it is before it was used."""
    spec = importlib.util.find_spec("moulin.formats.messages")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_name_is_that_of_the_real_module() -> None:
    module = fresh()
    assert "Manifest" not in vars(module)
    assert module.Manifest is manifest_pb2.Manifest
    assert "DecodeError" in vars(module), "all names are there from the first use on"


@pytest.mark.parametrize("used", [False, True])
def test_an_unknown_name_is_an_attribute_error(used: bool) -> None:
    module = fresh()
    if used:
        assert module.Manifest
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
