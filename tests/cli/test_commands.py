"""Commands print what they did, answer with JSON when asked, and fail with one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Run

COLUMNS = ("id:long!", "ts:timestamptz", "region:string", "amount:double")


@pytest.fixture
def lake(run: Run) -> Run:
    assert run("init").code == 0
    assert run("db", "create", "shop").code == 0
    assert run("table", "create", "shop.orders", *COLUMNS, "--event-time", "ts").code == 0
    return run


def ndjson(first: int, count: int) -> str:
    rows = [{"id": first + n, "ts": "2024-03-01T10:00:00Z", "region": "eu", "amount": n / 2} for n in range(count)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_rows_are_appended_queried_and_deleted(lake: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64()), "region": ["eu", "us"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,ts,region,amount\n3,2024-03-02T00:00:00Z,ap,1.5\n4,,,\n")
    done = lake("append", "shop.orders", str(tmp_path / "a.parquet"), str(tmp_path / "b.csv"), "--json")
    assert (done.code, done.json()["rows"]) == (0, 4)
    assert lake("append", "shop.orders", "-", stdin=ndjson(10, 5)).code == 0
    rows = lake("scan", "shop.orders", "--where", "id >= 3 and id < 11", "--json").json()
    assert sorted(row["id"] for row in rows) == [3, 4, 10]
    assert lake("delete", "shop.orders", "--where", "region = 'eu'", "--dry-run", "--json").json()["rows"] == 6
    assert "Deleted 6 rows of shop.orders" in lake("delete", "shop.orders", "--where", "region = 'eu'").out
    kinds = [row["operation"] for row in lake("table", "history", "shop.orders", "--json").json()]
    assert kinds == ["delete", "append", "append", "create"]


def test_an_append_can_be_repeated_safely(lake: Run) -> None:
    for _ in range(2):
        assert lake("append", "shop.orders", "-", "--request-id", "monday", stdin=ndjson(1, 3)).code == 0
    assert lake("table", "list", "shop", "--json").json()[0]["rows"] == 3


def test_a_table_is_cloned_now_and_as_it_was(lake: Run) -> None:
    before = lake("table", "clone", "shop.orders", "shop.empty", "--json").json()["version"]
    assert lake("append", "shop.orders", "-", stdin=ndjson(1, 3)).code == 0
    assert lake("table", "clone", "shop.orders", "shop.full").out == "Table shop.full is a clone of shop.orders.\n"
    assert lake("table", "clone", "shop.orders", "shop.old", "--at", str(before)).code == 0
    rows = {row["name"]: row["rows"] for row in lake("table", "list", "shop", "--json").json()}
    assert rows == {"empty": 0, "full": 3, "old": 0, "orders": 3}
    assert "has no tag 'nope'" in lake("table", "clone", "shop.orders", "shop.x", "--at", "nope").err


def test_tables_are_shown_renamed_dropped_and_brought_back(lake: Run) -> None:
    shown = lake("table", "show", "shop.orders")
    assert "timestamptz" in shown.out
    assert "event time" in shown.out
    assert lake("table", "rename", "shop.orders", "shop.sales").code == 0
    assert lake("table", "drop", "shop.sales").code == 0
    assert lake("table", "list", "shop", "--json").json() == []
    assert lake("table", "list", "shop", "--all", "--json").json()[0]["gone_at"]
    assert lake("table", "resurrect", "shop.sales").code == 0
    assert [row["name"] for row in lake("table", "list", "shop", "--json").json()] == ["sales"]


def test_a_view_blocks_the_drop_of_its_tables_until_it_is_dropped(lake: Run) -> None:
    assert lake("table", "create", "shop.returns", *COLUMNS).code == 0
    assert lake("view", "create", "shop.all", "orders", "shop.returns").code == 0
    assert lake("view", "list", "shop", "--json").json()[0]["tables"] == ["orders", "returns"]
    blocked = lake("table", "drop", "shop.orders")
    assert blocked.code == 1
    assert "view all" in blocked.err
    preview = lake("db", "drop", "shop", "--dry-run", "--json").json()
    assert [row["name"] for row in preview] == ["orders", "returns", "all"]
    assert lake("db", "drop", "shop").code == 1
    assert lake("db", "drop", "shop", "--cascade").code == 0
    assert lake("db", "list", "--json").json() == []
    assert lake("db", "resurrect", "shop").code == 0
    assert lake("view", "show", "shop.all", "--json").json()["tables"] == ["orders", "returns"]


def test_merge_still_compacts_and_names_the_new_command(lake: Run) -> None:
    for n in range(4):
        assert lake("append", "shop.orders", "-", stdin=ndjson(n * 10, 10)).code == 0
    with pytest.warns(DeprecationWarning, match="moulin compact"):
        done = lake("merge", "shop.orders", "--json")
    assert (done.code, done.json()["segments_in"]) == (0, 4)
    assert "moulin compact" in done.err
    listed = [line.split()[1] for line in lake("--help").out.splitlines() if line.startswith("\u2502 ")]
    assert "compact" in listed
    assert "merge" not in listed


def test_compact_check_gc_and_recover(lake: Run, tmp_path: Path) -> None:
    for n in range(4):
        assert lake("append", "shop.orders", "-", stdin=ndjson(n * 10, 10)).code == 0
    assert "4 segments" in lake("compact", "shop.orders").out
    assert "needs no compaction" in lake("compact", "shop.orders").out
    assert lake("check").code == 0
    assert lake("gc", "--dry-run", "--json").code == 0
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    lost = lake("table", "list", "shop")
    assert lost.code == 1
    assert "moulin recover" in lost.err
    assert lake("recover").code == 0
    assert lake("table", "list", "shop", "--json").json()[0]["rows"] == 40
    segment = next((tmp_path / "lake" / "tables").rglob("*.parquet"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    damaged = lake("check", "--json")
    assert damaged.code == 1
    assert any(segment.name in json.dumps(finding) for finding in damaged.json())


def test_recovery_stops_at_a_lost_manifest_unless_told_to_go_back(lake: Run, tmp_path: Path) -> None:
    for n in range(3):
        assert lake("append", "shop.orders", "-", stdin=ndjson(n * 10, 10)).code == 0
    manifests = sorted((tmp_path / "lake" / "tables").rglob("*.delta"))
    manifests[2].unlink()
    broken = lake("check", "--json")
    assert broken.code == 1
    assert manifests[2].name in broken.out
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    stopped = lake("recover")
    assert stopped.code == 1
    assert manifests[2].name in "".join(stopped.err.split())
    assert "--discard-newer" in stopped.err
    before = int(manifests[1].stem)
    back = lake("recover", "--to-version", str(before), "--discard-newer", "--json")
    assert back.code == 0
    assert back.json()["version"] == before
    assert [Path(name).name for name in back.json()["set_aside"]] == [manifests[3].name]
    assert lake("table", "list", "shop", "--json").json()[0]["rows"] == 10


def test_check_reads_projections(lake: Run, tmp_path: Path) -> None:
    assert lake("append", "shop.orders", "-", stdin=ndjson(0, 10)).code == 0
    assert lake("check", "--iceberg", "shop.orders").code == 0
    assert lake("check").code == 0
    manifest = next((tmp_path / "lake" / "tables").rglob("snap-*.avro"))
    data = manifest.read_bytes()
    for damaged in (data[:-20] + bytes(20), None):
        manifest.unlink() if damaged is None else manifest.write_bytes(damaged)
        found = lake("check", "--json")
        assert found.code == 1
        assert manifest.name in found.out


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_view_is_made_of_a_query(lake: Run) -> None:
    assert lake("append", "shop.orders", "-", stdin=ndjson(0, 10)).code == 0
    assert lake("view", "create", "shop.v", "--sql", "select count(*) as n from shop.orders").code == 0
    assert lake("view", "create", "shop.all", "orders").code == 0
    listed = lake("view", "list", "shop", "--json").json()
    assert [(row["name"], row["kind"]) for row in listed] == [("all", "union"), ("v", "query")]
    shown = lake("view", "show", "shop.v", "--json").json()
    assert (shown["sql"]["spark"], shown["columns"]) == ("select count(*) as n from shop.orders", {"n": "long"})
    assert lake("sql", "select n from shop.v", "--json").json() == [{"n": 10}]
    assert lake("view", "create", "shop.v", "--sql", "select 1 as n", "--replace").code == 0
    assert lake("sql", "select n from shop.v", "--json").json() == [{"n": 1}]
    refused = lake("view", "create", "shop.w")
    assert (refused.code, "either tables= or sql=" in refused.err) == (1, True)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_sql_prints_its_rows_and_a_wrong_query_is_one_sentence(lake: Run) -> None:
    lake("append", "shop.orders", "-", stdin=ndjson(1, 10))
    done = lake("sql", "select region, count(*) as n from shop.orders group by region", "--json")
    assert done.json() == [{"region": "eu", "n": 10}]
    wrong = lake("sql", "select nothing from shop.orders")
    assert wrong.code == 1
    assert wrong.err.startswith("Error:")
    assert "Traceback" not in wrong.err
    assert len(wrong.err) < 600


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_statements_are_answered_by_one_plain_line(lake: Run) -> None:
    assert lake("sql", "create table shop.x (id long)").out == "Done.\n"
    assert lake("sql", "drop table shop.x", "--json").json() == []
    made = lake("sql", "create table shop.x as select id from range(3)")
    assert made.out.startswith("3 rows changed (3 inserted, 0 updated, 0 deleted), at version ")
    assert made.out.count("\n") == 1
    assert lake("sql", "truncate table shop.x", "--json").json()[0]["num_deleted_rows"] == 3
    assert "CREATE TABLE" in lake("sql", "show create table shop.x").out


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_plan_says_how_many_segments_are_read(lake: Run) -> None:
    lake("append", "shop.orders", "-", stdin=ndjson(1, 10))
    drawn = lake("sql", "--plan", "select * from shop.orders").out
    assert drawn.startswith("== Physical Plan ==\n")
    assert "\\n" not in drawn
    (planned,) = lake("sql", "--plan", "select * from shop.orders", "--json").json()
    assert "shop.orders: reads 1 of 1 segments" in planned["plan"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_safe_sql_reads_tables_and_nothing_else(lake: Run, tmp_path: Path) -> None:
    lake("append", "shop.orders", "-", stdin=ndjson(1, 10))
    assert lake("sql", "--safe", "select count(*) as n from shop.orders", "--json").json() == [{"n": 10}]
    (tmp_path / "secret").write_text("t0psecret")
    for text in (f"select * from text.`{tmp_path}/secret`", "select reflect('java.lang.System', 'getenv', 'PATH')"):
        assert lake("sql", text).code == 0
        refused = lake("sql", "--safe", text)
        assert refused.code == 1
        assert "safe query" in refused.err
        assert "t0psecret" not in refused.err + refused.out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("table", "show", "shop.nothing"), 1, "shop.nothing does not exist"),
        (("table", "create", "shop.x", "id"), 1, "NAME:TYPE"),
        (("table", "create", "shop.x", "id:lnog"), 1, "lnog"),
        (("scan", "shop.orders", "--where", "id ="), 1, "line 1, column 4"),
        (("append", "shop.orders", "no-such-file.csv"), 1, "no-such-file.csv"),
        (("append", "shop.orders", "-", "--format", "xml"), 1, "xml"),
        (("db", "create"), 2, "DATABASE"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_errors_are_one_sentence(lake: Run, words: tuple[str, ...], code: int, sentence: str) -> None:
    done = lake(*words, stdin="")
    assert done.code == code
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_a_mistyped_folder_is_not_made_a_lake(run: Run, tmp_path: Path) -> None:
    done = run("db", "list", lake=tmp_path / "leak")
    assert done.code == 1
    assert "init" in done.err
    assert not (tmp_path / "leak").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("init", lake=tmp_path / "file" / "lake")
    assert done.code == 1
    assert "Traceback" not in done.err


def test_a_lake_of_a_newer_version_is_refused(lake: Run, tmp_path: Path) -> None:
    marker = tmp_path / "lake" / "moulin.json"
    marker.write_text(marker.read_text().replace('"format": 1', '"format": 99'))
    done = lake("db", "list")
    assert done.code == 1
    assert "upgrade moulin" in done.err


def test_brackets_are_shown_as_they_are(lake: Run) -> None:
    row = json.dumps({"id": 1, "region": "[eu]"}) + "\n"
    assert lake("append", "shop.orders", "-", "--format", "ndjson", stdin=row).code == 0
    assert "[eu]" in lake("scan", "shop.orders").out
    assert "'[red]'" in lake("scan", "shop.orders", "--column", "[red]").err
