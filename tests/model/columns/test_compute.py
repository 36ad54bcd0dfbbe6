"""Arrow's functions, loaded when they are used."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pyarrow.compute as pc
import pytest


def fresh() -> ModuleType:
    """The module as it is before it was used."""
    spec = importlib.util.find_spec("moulin.model.columns.compute")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_name_is_that_of_the_real_module() -> None:
    module = fresh()
    assert "add" not in vars(module)
    assert module.add is pc.add
    assert "sort_indices" in vars(module), "all names are there from the first use on"


@pytest.mark.parametrize("used", [False, True])
def test_an_unknown_name_is_an_attribute_error(used: bool) -> None:
    module = fresh()
    if used:
        assert module.add
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
