"""Every public function and method has an example in its docstring, which runs and prints what it shows.

An example finds `lake`, a new one with the table shop.orders (id, customer, amount), which has one row. It begins in an
empty folder.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin

_ON_SPARK = {"Lake.attach", "Lake.set_view_properties", "Lake.spark", "Lake.sql", "Table.backfill", "Table.to_spark"}
# For the parts of Moulin itself, deprecated, or refused by name.
_WITHOUT = {
    *("Feed.bounded", "Lake.branch_alone", "Lake.config", "Lake.context", "Lake.engine", "Lake.open"),
    *("Lake.open_replica", "Lake.own_catalog", "Snapshot.is_in", "Table.edit"),
    *("TableDataset.get_fragments", "TableDataset.join", "TableDataset.join_asof", "TableDataset.partition_expression"),
    *("TableDataset.replace_schema", "TableDataset.sort_by"),
}
_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _public() -> Iterator[tuple[str, Any]]:
    """Exported functions and classes, with the public methods that classes have or inherit from classes of ours."""
    for name in moulin.__all__:
        found = getattr(moulin, name)
        if inspect.ismodule(found):
            continue
        yield name, found
        if not inspect.isclass(found):
            continue
        for attribute, method in inspect.getmembers_static(found):
            inner = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
            ours = getattr(inner, "__module__", None) or ""
            if ours.startswith("moulin.") and (not attribute.startswith("_") or attribute == "__getitem__"):
                yield f"{name}.{attribute}", inner


EXAMPLES = {
    name: parsed
    for name, found in _public()
    if (parsed := doctest.DocTestParser().get_examples(inspect.getdoc(found) or ""))
}


def test_every_public_function_and_method_has_an_example() -> None:
    without = {name for name, found in _public() if not inspect.isclass(found) and name not in EXAMPLES}
    assert without == _WITHOUT


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.spark) if name in _ON_SPARK else name for name in EXAMPLES]
)
def test_the_example_of_a_docstring_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name in _ON_SPARK:
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long", False), ("customer", "string"), ("amount", "double")])
        orders.append([{"id": 1, "customer": "ann", "amount": 9.5}])
        test = doctest.DocTest(EXAMPLES[name], {"lake": lake, "moulin": moulin}, name, None, None, None)
        said: list[str] = []
        failed, _ = doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=said.append)
    assert not failed, "".join(said)
