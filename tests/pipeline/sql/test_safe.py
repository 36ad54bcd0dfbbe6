"""Safe mode: texts of strangers reach the tables of the lake and nothing else, and mean what they always mean."""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException, PySparkException

import moulin
from moulin import Lake
from moulin.errors import Corrupt, InvalidInput, NotFound, PermissionDenied, Unsupported
from moulin.pipeline.session import safe_environment
from moulin.pipeline.sql.catalyst import Catalyst
from moulin.pipeline.sql.safe import SafeSql, check_text
from moulin.pipeline.sql.safe_functions import ALLOWED_FUNCTIONS, ALLOWED_TABLE_FUNCTIONS, REFUSED_FUNCTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
HOSTILE = (HERE / "hostile.sql").read_text().splitlines()
HARMLESS = (HERE / "harmless.sql").read_text().splitlines()
REFUSALS = (InvalidInput, NotFound, PermissionDenied, Unsupported)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where hostile statements look for a secret, and would leave a mark."""
    folder = tmp_path_factory.mktemp("safe")
    (folder / "secret.txt").write_text("t0psecret\n")
    return folder


@pytest.fixture(scope="module")
def lake(spark: SparkSession, folder: Path) -> Iterator[Lake]:
    """A lake, in a session with views and functions of the caller, and small plans."""
    wanted = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    spark.range(3).createOrReplaceTempView("caller")
    spark.range(3).createOrReplaceGlobalTempView("caller")
    spark.udf.register("caller", lambda: "x")
    start = datetime(2024, 3, 1, tzinfo=UTC)
    with moulin.connect(folder / "lake") as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
        lake.create_table("shop.orders", columns, event_time="ts").append(
            [
                {"id": n, "ts": start + timedelta(minutes=n), "region": "eu" if n % 3 else "us", "amount": float(n)}
                for n in range(12)
            ]
        )
        yield lake
    spark.catalog.dropTempView("caller")
    spark.catalog.dropGlobalTempView("caller")
    spark.sql("drop temporary function caller")
    for key, value in before.items():
        assert value is not None
        spark.conf.set(key, value)


@pytest.fixture(scope="module")
def guard(spark: SparkSession) -> SafeSql:
    return SafeSql(spark)


def filled(statement: str, folder: Path) -> str:
    return statement.replace("{mark}", str(folder / "mark")).replace("{secret}", str(folder / "secret.txt"))


def test_the_lists_are_long_enough() -> None:
    assert len(set(HOSTILE)) >= 100
    assert len(set(HARMLESS)) >= 70


@pytest.mark.parametrize("statement", HOSTILE)
def test_hostile_statements_are_refused(statement: str, lake: Lake, folder: Path) -> None:
    with pytest.raises(REFUSALS) as caught:
        lake.sql(filled(statement, folder), safe=True).collect()
    assert "\n" not in caught.value.message
    assert "t0psecret" not in caught.value.message
    assert getpass.getuser() not in re.split(r"\W", caught.value.message)
    assert not (folder / "mark").exists()


def test_commands_are_refused_by_their_plans_too(guard: SafeSql, folder: Path) -> None:
    """The first word of a text is looked at before; here it is not."""
    queries = ("select", "with", "values", "from", "table", "describe", "explain")
    commands = [filled(one, folder) for one in HOSTILE if not one.startswith(queries)]
    assert len(commands) >= 30
    for text in commands:
        with pytest.raises((*REFUSALS, ParseException)):
            guard.query(guard.parse(text))
    assert not (folder / "mark").exists()


def test_without_safe_mode_the_hostile_statements_do_work(lake: Lake, folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lake.sql(f"select transform(id) using 'tee {mark}' as (x) from shop.orders").collect()
    assert mark.exists()
    assert lake.sql(f"select * from text.`{folder}/secret.txt`").first() == ("t0psecret",)
    assert lake.sql("select reflect('java.lang.System', 'getenv', 'PATH') x").first()["x"]
    assert lake.sql("select '${env:PATH}' x").first()["x"] == os.environ["PATH"]
    assert "lake/tables" in lake.sql("select _metadata.file_path p from shop.orders").first()["p"]


@pytest.mark.sample(30)
@pytest.mark.parametrize("statement", HARMLESS)
def test_harmless_statements_have_the_same_answer(statement: str, lake: Lake) -> None:
    def answer(safe: bool) -> list[str]:
        rows = sorted(str(row) for row in lake.sql(statement, safe=safe).collect())
        return [re.sub(r"InMemoryFileIndex.*?(?=, PartitionFilters|\\n)|#\d+|plan_id=\d+", "", row) for row in rows]

    assert answer(safe=True) == answer(safe=False)


def test_variables_of_the_environment_are_plain_text(lake: Lake) -> None:
    text = "${env:PATH} ${system:user.home} ${spark.app.id}"
    assert lake.sql(f"select '{text}' x", safe=True).first()["x"] == text


def test_explain_shows_no_address(lake: Lake, folder: Path) -> None:
    for kind in ("", "extended", "formatted", "cost"):
        shown = lake.sql(f"explain {kind} select * from shop.orders where id = 3", safe=True).first()[0]
        assert "orders" in shown or "Scan parquet" in shown
        assert str(folder) not in shown


def test_a_missing_file_is_one_sentence_without_its_address(lake: Lake, folder: Path) -> None:
    table = lake.create_table("shop.torn", [("id", "long")])
    table.append([{"id": 1}])
    for file in (folder / "lake" / "tables" / str(table.id)).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(Corrupt, match="Files of shop.torn are missing") as caught:
        lake.sql("select * from shop.torn", safe=True)
    assert str(folder) not in str(caught.value)


def test_a_safe_query_changes_nothing_for_the_caller(lake: Lake, spark: SparkSession) -> None:
    frame = lake.sql("select id from shop.orders where id > :low", {"low": 9}, safe=True)
    assert sorted(row.id for row in frame.collect()) == [10, 11]
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "true"
    assert frame.sparkSession.conf.get("spark.sql.runSQLOnFiles") == "false"
    assert lake.sql("select count(*) n from caller").first()["n"] == 3


@pytest.mark.parametrize(
    "text",
    ["select " + "(" * 1500 + "1" + ")" * 1500, "select " + "abs(" * 1500 + "1" + ")" * 1500, "select 'x", "sel"],
)
def test_what_cannot_be_parsed_is_refused(text: str, lake: Lake) -> None:
    with pytest.raises(InvalidInput) as caught:
        lake.sql(text, safe=True)
    assert len(caught.value.message) < 500


def test_every_function_of_spark_is_allowed_or_refused(spark: SparkSession) -> None:
    known = {row[0] for row in spark.sql("show system functions").collect() if re.fullmatch(r"\w+", row[0])}
    assert known == ALLOWED_FUNCTIONS | set(REFUSED_FUNCTIONS)
    assert not ALLOWED_FUNCTIONS & set(REFUSED_FUNCTIONS)
    assert ALLOWED_TABLE_FUNCTIONS <= ALLOWED_FUNCTIONS


def test_the_json_of_a_plan_hides_nothing(spark: SparkSession, folder: Path) -> None:
    """The check reads a plan as JSON. The referee takes it apart field by field."""
    catalyst = Catalyst(spark)
    seen = 0
    for text in [*HARMLESS[::4], *(filled(one, folder) for one in HOSTILE[::4])]:
        try:
            with catalyst.active():
                plan = catalyst.opened(catalyst.parse(text))
        except PySparkException:  # it has no plan to compare
            continue
        found: Counter[str] = Counter()
        _take_apart(spark, plan, found)
        shown = Counter(
            re.findall(r'"class":"([\w.$]+)"', json.dumps(json.loads(plan.toJSON()), separators=(",", ":")))
        )
        assert not found - shown, text
        seen += 1
    assert seen > 25


def _take_apart(spark: SparkSession, part: Any, found: Counter[str]) -> None:
    jvm: Any = spark._jvm
    if not isinstance(part, JavaObject):
        return

    def has(kind: str) -> bool:
        return bool(jvm.py4j.reflection.TypeUtil.isInstanceOf(kind, part))

    members: list[Any] = []
    if has("scala.Option"):
        members = [part.get()] if part.isDefined() else []
    elif has("scala.collection.Iterable"):
        listed = part.toSeq()
        members = [listed.apply(index) for index in range(listed.length())]
    elif has("scala.Product") and not has("org.apache.spark.sql.types.DataType"):
        if has("org.apache.spark.sql.catalyst.trees.TreeNode"):
            found[part.getClass().getName()] += 1
        members = [part.productElement(index) for index in range(part.productArity())]
    for member in members:
        _take_apart(spark, member, found)


@pytest.mark.long
def test_the_examples_of_sparks_own_documentation_pass(guard: SafeSql, spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    catalog: Any = spark._jsparkSession.sessionState().catalog()
    passed = 0
    for name in sorted(ALLOWED_FUNCTIONS):
        examples = catalog.lookupFunctionInfo(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)).getExamples()
        for line in (line.strip() for line in (examples or "").splitlines()):
            if line.lower().startswith("> select"):
                try:
                    guard.run(guard.query(guard.parse(line[2:].rstrip("; ").replace("_FUNC_", name))), {})
                    passed += 1
                except PermissionDenied as error:
                    pytest.fail(f"{line}: {error.message}")
                except (PySparkException, InvalidInput):  # a feature that is off, or a column that it does not have
                    continue
    assert passed > 1200


def test_an_environment_keeps_what_is_known_and_nothing_else() -> None:
    given = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HOME": "/h",
        "AWS_SECRET_ACCESS_KEY": "s",
        "MOULIN_TOKEN": "t",
        "PGPASSWORD": "p",
    }
    assert safe_environment(given) == {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h"}


SAFE_START = """
import os, sys
import moulin

with moulin.connect(sys.argv[1]) as lake:
    print("ROWS", lake.sql("select count(*) n from shop.orders", safe=True).first()["n"])
    look = "select reflect('java.lang.System', 'getenv', 'AWS_SECRET_ACCESS_KEY') x"
    print("JAVA", lake.spark().sql(look).first()["x"])
    worker = lake.spark().range(1).rdd.map(lambda row: __import__("os").environ.get("AWS_SECRET_ACCESS_KEY"))
    print("PYTHON", worker.first())
    print("HERE", os.environ["AWS_SECRET_ACCESS_KEY"])
"""


@pytest.mark.long
def test_spark_that_a_safe_query_starts_has_no_secrets_in_its_environment(tmp_path: Path, spark: SparkSession) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long")]).append([{"id": 1}])
    done = subprocess.run(
        [sys.executable, "-c", SAFE_START, str(tmp_path / "lake")],
        env=os.environ | {"AWS_SECRET_ACCESS_KEY": "secret"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout.splitlines() == ["ROWS 1", "JAVA null", "PYTHON None", "HERE secret"], done.stderr[-3000:]


def test_case_expressions_inside_one_another_are_bounded() -> None:
    check_text("select 1" + " + case when true then 1 end" * 50 + ", 'case case', `case` -- case\n /* case */" * 20)
    check_text("select " + "case when true then " * 8 + "1" + " end" * 8)
    with pytest.raises(InvalidInput, match="at most 8 CASE"):
        check_text("select " + "case when true then " * 9 + "1" + " end" * 9)
