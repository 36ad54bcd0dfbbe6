"""What goes wrong around a command, as at a shell: one sentence, the right exit code, and never a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from tests.cli.conftest import Run

MOULIN = f"{sys.executable} -m moulin.cli.main"


@pytest.fixture
def lake(run: Run, tmp_path: Path) -> Run:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", [("id", "long"), ("name", "string")])
        table.append(pa.table({"id": range(20_000), "name": ["x" * 20] * 20_000}))
    return run


def at_a_shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MOULIN_LAKE": str(folder / "lake")}
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "words", ["scan shop.t --limit 0", "scan shop.t --json", "table list shop", "table list shop --json"]
)
@pytest.mark.usefixtures("lake")
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, words: str) -> None:
    done = at_a_shell(tmp_path, f"{MOULIN} {words} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["table list shop", "table list shop --json"])
@pytest.mark.usefixtures("lake")
def test_output_that_cannot_be_written_is_an_error(tmp_path: Path, words: str) -> None:
    done = at_a_shell(tmp_path, f"{MOULIN} {words} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "Error: The system reports: No space left on device.\n")


def test_python_runs_the_package_and_names_the_nearest_commands(tmp_path: Path) -> None:
    done = at_a_shell(tmp_path, f"{sys.executable} -m moulin tables")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("Did you mean 'table', 'task'? Try `python -m moulin --help`.")


@pytest.mark.usefixtures("lake")
def test_ctrl_c_stops_a_command_with_a_word(tmp_path: Path) -> None:
    command = [*MOULIN.split(), "--lake", str(tmp_path / "lake"), "scan", "shop.t", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("[\n")
        time.sleep(0.2)  # the pipe is full now, and it waits
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == "Error: Stopped.\n"
        assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("scan", "shop.t", "--version", "x"), 2, "integer. Try `moulin scan --help`."),
        (("scan", "shop.t", "--tail"), 2, "No such option: --tail. Try `moulin scan --help`."),
        (("table", "shwo"), 2, "No such command 'shwo'. Did you mean 'show'? Try `moulin table --help`."),
        (("table", "frob"), 2, "No such command 'frob'. Try `moulin table --help`."),
        (("gc", "--history-keep", "-5"), 1, "must be zero seconds or more, not -5.0."),
        (("gc", "--orphan-grace", "nan"), 1, "must be zero seconds or more, not nan."),
        (("collect", "--grpc-port", "99999"), 2, "less than or equal to 65535. Try `moulin collect --help`."),
        (("append", "shop.t", "."), 1, ". is a folder: give its files, or load it with moulin backfill."),
        (("--storage-option", "region", "db", "list"), 1, "Write a storage option as key=value, or as @FILE"),
        (("--storage-option", "@nowhere", "db", "list"), 1, "nowhere cannot be read: No such file or directory."),
    ],
)
def test_a_wrong_word_is_one_sentence_with_true_advice(
    lake: Run, words: tuple[str, ...], code: int, sentence: str
) -> None:
    done = lake(*words)
    assert done.code == code
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


@pytest.mark.usefixtures("lake")
def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for words in (f"serve --http-bind '' --bind 127.0.0.1:{port}", f"collect --grpc-port {port} --http-port 0"):
            done = at_a_shell(tmp_path, f"{MOULIN} {words}")
            assert done.returncode == 1
            assert f"127.0.0.1:{port}" in done.stderr
            assert len(done.stderr.splitlines()) == 1


def test_a_clean_up_that_is_refused_forgets_nothing(lake: Run) -> None:
    before = lake("table", "history", "shop.t", "--json").json()
    assert lake("gc", "--history-keep", "-5").code == 1
    assert lake("table", "history", "shop.t", "--json").json() == before


def test_an_error_about_a_file_does_not_quote_its_lines(lake: Run, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("id\n1\nroot,s3cr3t,0\n")
    done = lake("append", "shop.t", str(tmp_path / "users"), "--format", "csv")
    assert done.code == 1
    assert "Expected 1 columns, got 3" in done.err
    assert "s3cr3t" not in done.err


def test_options_of_a_store_come_from_a_file_and_the_environment_too(
    lake: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {}
    connect = moulin.connect

    def noted(uri: str, **options: object) -> object:
        given.clear()
        given.update(options.pop("storage_options") or {})  # type: ignore[call-overload]
        return connect(uri)

    monkeypatch.setattr(moulin, "connect", noted)
    (tmp_path / "options").write_text("# a comment\nregion = eu\nsecret=a=b\n")
    monkeypatch.setenv("MOULIN_STORAGE_OPTIONS", '{"region": "us", "endpoint": "http://x"}')
    assert lake("--storage-option", f"@{tmp_path}/options", "--storage-option", "token=@x", "db", "list").code == 0
    assert given == {"region": "eu", "secret": "a=b", "endpoint": "http://x", "token": "@x"}
    (tmp_path / "options").write_text("region=eu\ns3cr3t\n")
    wrong = lake("--storage-option", f"@{tmp_path}/options", "db", "list")
    assert (wrong.code, "Line 2 of" in wrong.err, "s3cr3t" in wrong.err) == (1, True, False)
    monkeypatch.setenv("MOULIN_STORAGE_OPTIONS", "s3cr3t")
    wrong = lake("db", "list")
    assert (wrong.code, "must be a JSON object" in wrong.err, "s3cr3t" in wrong.err) == (1, True, False)


def test_brackets_in_help_are_shown(run: Run) -> None:
    assert "A moulin.toml: its [serve]" in run("serve", "--help").out


def test_a_token_without_a_database_is_named_as_a_token(lake: Run) -> None:
    done = lake("token", "create", "sender", "--table", "t")
    assert (done.code, done.err) == (
        1,
        "Error: Token name 'sender' has 1 parts, not two: write \"database.token\".\n",
    )
