"""What each path into Moulin imports. A heavy package that one of them does not use must not be loaded by it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import moulin
from moulin.cli.commands import COMMANDS, load

ALWAYS = [
    "alembic",
    "grpc",
    "obstore",
    "pandas",
    "psycopg",
    "pyiceberg",
    "pyspark",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "sqlglot",
]
WITHOUT_TABLES = [*ALWAYS, "google.protobuf", "moulin.table.context", "numpy", "pyarrow", "pydantic"]
WITHOUT_A_LAKE = [*WITHOUT_TABLES, "moulin.catalog", "moulin.model", "moulin.table", "sqlalchemy"]
WITHOUT_BULK = [
    *ALWAYS,
    "google.protobuf",
    "moulin.catalog.ingest",
    "moulin.catalog.maintenance",
    "moulin.catalog.replica",
    "moulin.table.bulk.bulk",
    "moulin.table.compact.compaction",
    "moulin.table.index.index",
    "pyarrow.compute",
    "pyarrow.dataset",
]

COMMAND = "from moulin.cli.main import main\nmain()"


def imported(code: str, *arguments: str) -> set[str]:
    """The modules that a process has loaded at its end."""
    watched = f"import atexit, sys\natexit.register(lambda: print(chr(10), *sys.modules))\n{code}"
    done = subprocess.run([sys.executable, "-c", watched, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_moulin_loads_no_lake() -> None:
    assert not imported("import moulin").intersection(WITHOUT_A_LAKE)


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_loads_no_lake(words: list[str]) -> None:
    found = imported(COMMAND, *words)
    assert "typer" in found
    assert not found.intersection(WITHOUT_A_LAKE)


def test_the_catalog_loads_no_arrow() -> None:
    found = imported("import moulin.catalog.catalog, moulin.catalog.backend, moulin.storage.cache")
    assert "sqlalchemy" in found
    assert not found.intersection(WITHOUT_TABLES)


def test_opening_and_closing_a_lake_loads_no_tables(tmp_path: Path) -> None:
    code = "import sys, moulin\nmoulin.connect(sys.argv[1]).close()"
    imported(code, str(tmp_path))
    found = imported(code, str(tmp_path))
    assert "moulin.lake" in found
    assert not found.intersection(WITHOUT_TABLES)


def test_making_a_lake_loads_no_migrations_and_no_tables(tmp_path: Path) -> None:
    found = imported("import sys, moulin\nmoulin.connect(sys.argv[1]).databases()", str(tmp_path))
    assert not found.intersection({*WITHOUT_TABLES} - {"google.protobuf"}), "the first manifest is a message"


def test_getting_a_row_loads_no_service_and_no_bulk_work(tmp_path: Path) -> None:
    """typer itself loads pydantic, to read the arguments of a command."""
    _make_table(tmp_path)
    found = imported(COMMAND, "--lake", str(tmp_path), "get", "shop.t", "1")
    assert "moulin.table.table" in found
    assert not found.intersection(WITHOUT_BULK)


def test_getting_a_row_without_the_command_line_loads_no_pydantic(tmp_path: Path) -> None:
    _make_table(tmp_path)
    code = "import sys, moulin\nassert moulin.connect(sys.argv[1]).table('shop.t').get(1) == {'id': 1, 'name': 'a'}"
    assert not imported(code, str(tmp_path)).intersection([*WITHOUT_BULK, "pydantic"])


def _make_table(folder: Path) -> None:
    with moulin.connect(folder) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")], primary_key=["id"])
        table.put({"id": 1, "name": "a"})


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_help_of_each(name: str) -> None:
    command = load(name)
    entry = COMMANDS[name]
    assert " ".join(command.help.split("\n\n")[0].split()) == entry.help
    assert command.hidden == entry.hidden


def test_every_command_that_a_module_registers_is_in_the_list() -> None:
    for module in {entry.module for entry in COMMANDS.values()}:
        app = typer.Typer()
        app.callback()(lambda: None)
        importlib.import_module(f"moulin.cli.{module}").register(app)
        registered = typer.main.get_command(app).commands  # type: ignore[attr-defined]
        assert set(registered) == {name for name, entry in COMMANDS.items() if entry.module == module}
