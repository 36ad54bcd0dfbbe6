"""The names of the codec have one direction."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import moulin.meta.codec.lake
import moulin.meta.codec.meta

ROOMS = (moulin.meta.codec.lake, moulin.meta.codec.meta)
TEXTS = {"to_message_moment", "to_message_segment_id"}  # in a message these are text


def functions() -> Iterator[Callable[..., Any]]:
    for room in ROOMS:
        for found in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            module = importlib.import_module(found.name)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if function.__module__ == found.name and not name.startswith("_"):
                    yield function


@pytest.mark.parametrize(
    "function", list(functions()), ids=lambda function: f"{function.__module__[19:]}.{function.__name__}"
)
def test_a_function_names_its_direction_and_keeps_it(function: Callable[..., Any]) -> None:
    name, returned = function.__name__, inspect.signature(function).return_annotation
    assert name.startswith(("to_message_", "from_message_"))
    is_message = "pb." in returned or "pb2." in returned
    assert is_message == (name.startswith("to_message_") and name not in TEXTS), returned
