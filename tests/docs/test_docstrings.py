"""Every public function and method has an example in its docstring, which runs and prints what it shows.

An example finds `lake`, a new one with the table shop.orders (id, customer, amount), which has one row. It begins in an
empty folder. Those of `moulin.aio` also find `orders` and the keyed table `users`, and may await, as in
`python -m asyncio`.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import moulin
import moulin.aio

_ON_SPARK = {"Lake.attach", "Lake.set_view_properties", "Lake.spark", "Lake.sql", "Table.backfill", "Table.to_spark"}
# For the parts of Moulin itself, deprecated, or refused by name.
_WITHOUT = {
    *("Feed.bounded", "Lake.branch_alone", "Lake.config", "Lake.context", "Lake.engine", "Lake.open"),
    *("Lake.open_replica", "Lake.own_catalog", "Snapshot.is_in", "Table.edit"),
    *("TableDataset.get_fragments", "TableDataset.join", "TableDataset.join_asof", "TableDataset.partition_expression"),
    *("TableDataset.replace_schema", "TableDataset.sort_by"),
}
_OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _public(module: ModuleType = moulin) -> Iterator[tuple[str, Any]]:
    """Exported functions and classes, with the public methods that classes have or inherit from classes of ours."""
    for name in module.__all__:
        found = getattr(module, name)
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


def _examples(module: ModuleType) -> dict[str, list[doctest.Example]]:
    parser = doctest.DocTestParser()
    found = {name: parser.get_examples(inspect.getdoc(one) or "") for name, one in _public(module)}
    return {name: examples for name, examples in found.items() if examples}


EXAMPLES, ASYNC_EXAMPLES = _examples(moulin), _examples(moulin.aio)


def test_every_public_function_and_method_has_an_example() -> None:
    without = {name for name, found in _public() if not inspect.isclass(found) and name not in EXAMPLES}
    assert without == _WITHOUT
    found = _public(moulin.aio)
    assert {name for name, one in found if not inspect.isclass(one) and name not in ASYNC_EXAMPLES} == set()


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
        _run(name, EXAMPLES[name], lake=lake)


@pytest.mark.parametrize("name", ASYNC_EXAMPLES)
def test_the_example_of_an_async_method_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = asyncio.run(moulin.aio.connect(tmp_path / "lake"))
    lake.sync.create_database("shop")
    orders = lake.sync.create_table("shop.orders", [("id", "long"), ("customer", "string"), ("amount", "double")])
    orders.append([{"id": 1, "customer": "ann", "amount": 9.5}])
    tables = {"orders": asyncio.run(lake.table("shop.orders"))}
    if "users" in "".join(example.source for example in ASYNC_EXAMPLES[name]) and name != "AsyncLake.create_table":
        users = lake.sync.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        users.put({"name": "ann", "age": 41})
        tables["users"] = asyncio.run(lake.table("shop.users"))
    examples = [doctest.Example(_Awaited().of(one.source), one.want) for one in ASYNC_EXAMPLES[name]]
    _run(name, examples, lake=lake, wait=_wait, **tables)
    asyncio.run(lake.close())


class _Awaited(ast.NodeTransformer):
    """`await x` outside of functions becomes `wait(x)`."""

    def of(self, source: str) -> str:
        return ast.unparse(ast.fix_missing_locations(self.visit(ast.parse(source)))) + "\n"

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return ast.Call(ast.Name("wait", ast.Load()), [node.value], [])


def _wait(given: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(given)


def _run(name: str, examples: list[doctest.Example], **names: Any) -> None:
    test = doctest.DocTest(examples, {"moulin": moulin, **names}, name, None, None, None)
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=_OPTIONS).run(test, out=said.append)
    assert not failed, "".join(said)
