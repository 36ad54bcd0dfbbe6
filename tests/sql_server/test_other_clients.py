"""Clients that have nothing but their driver: `pyspark-client`, the JDBC driver among Spark's jars, and ADBC."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.sql_server.conftest import Served
from tests.sql_server.test_client import ANSWERS, ERRORS, check_answer, check_changes, check_error, run

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
HERE = Path(__file__).parent
LOCKS = HERE.parents[1] / "requirements"
JARS = Path(pyspark.__file__).parent / "jars"


def environment(folder: Path, lock: str) -> str:
    """The Python of a new environment that has what a lock names, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=200)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--require-hashes", "-r", str(LOCKS / lock)]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"{lock} cannot be installed: {(done.stderr.splitlines() or ['no reason'])[-1]}")
    return python


def test_pyspark_client_reads_changes_and_is_refused_as_pyspark_is(served: Served, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "pyspark-client.lock")
    read = run(served, "reader", "reads", python)
    for step in ANSWERS:
        check_answer(read, step)
    for step in ERRORS:
        check_error(read, step)
    check_changes(run(served, "writer", "changes", python))


def adbc(python: str, served: Served, token: str, steps: str) -> dict[str, Any]:
    program = [python, str(HERE / "adbc_client.py"), served.server.address, token, steps]
    done = subprocess.run(program, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_adbc_queries_changes_and_finds_tables(served: Served, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv", "adbc.lock")
    found = adbc(python, served, served.tokens["writer"], "changes")
    assert found.pop("wrong column").startswith("ProgrammingError: INVALID_ARGUMENT: [Spark] Spark rejects the query")
    assert "tables of the lake alone" in found.pop("file")
    assert found == {
        "query": [[1, "n1"], [2, "n2"]],
        "arrow": "id: int64\namount: double",
        "create": [],
        "insert": [2, 2, 0, 0],
        "merge": [2, 1, 1, 0],
        "changed": [[1, "a"], [2, "new"], [3, "c"]],
        "objects": ["moulin.adbc.made"],
        "schema": "id: int64\nname: string",
        "show": [["adbc", "made", False]],
        "drop": [],
    }
    assert "can only read" in adbc(python, served, served.tokens["reader"], "refused")["change"]
    assert "UNAUTHENTICATED" in adbc(python, served, "mlt_wrong", "refused")["change"]


@pytest.fixture
def java() -> str:
    """A Java that runs source files."""
    found = shutil.which("java")
    if found is None:
        pytest.skip("there is no java on the PATH")
    modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, timeout=60, check=True)
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("this java has no compiler, which source files need")
    return found


def test_the_jdbc_driver_queries_changes_describes_and_cancels(served: Served, java: str) -> None:
    address = served.server.address
    urls = [
        f"jdbc:{address}/;token={token}" for token in (served.tokens["writer"], "mlt_wrong", served.tokens["reader"])
    ]
    opened = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    classes = f"{JARS / 'connect-repl' / '*'}:{JARS / '*'}"
    program = [java, opened, "-cp", classes, str(HERE / "Client.java"), *urls]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, check=False)
    steps = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("step\t")]
    found = {name: value for _, name, value in steps}
    assert done.returncode == 0, done.stderr
    refused = {"wrong column": "UNRESOLVED_COLUMN", "file": "tables of the lake alone", "cancel": "cancelled"}
    refused |= {"wrong token": "Unknown token", "reader": "can only read"}
    for step, reason in refused.items():
        error = found.pop(step)
        assert error.partition(":")[0].endswith("Exception")
        assert reason in error
    assert found == {
        "query": "1,n1;2,n2",
        "create": "0",
        "create table": "0",
        "insert": "0",
        "delete": "false 0",
        "changed": "2,b",
        "catalogs": "moulin",
        "schemas": "jdbc,moulin",
        "tables": "moulin,jdbc,made,TABLE",
        "columns": "made,id,-5;made,name,12",
        "show": "made",
        "drop": "0",
        "after": "1",
    }
