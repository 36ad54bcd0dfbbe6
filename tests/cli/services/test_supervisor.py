"""Children of `moulin up`: dead ones start again, one that never starts is the end, and logs are bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import moulin
from moulin.cli.services import supervisor as module
from moulin.cli.services.supervisor import Child, Supervisor
from moulin.errors import FailedPrecondition


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_DELAY", 0.01)
    monkeypatch.setattr(module, "_LONGEST_DELAY", 0.02)


def child(folder: Path, code: str) -> Child:
    return Child("serve", ["-c", code], folder / "serve.log", os.environ)


def tend_until(supervisor: Supervisor, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        supervisor.tend()
        supervisor.require_running()
        assert time.monotonic() < end, "in vain"
        time.sleep(0.01)


def test_a_child_that_fails_at_once_is_given_up_with_its_error(tmp_path: Path) -> None:
    one = child(tmp_path, "raise SystemExit('Error: The port 9560 is taken; choose another.')")
    supervisor = Supervisor([one])
    supervisor.start()
    with pytest.raises(FailedPrecondition, match=r"serve failed to start 3 times: The port 9560 is taken"):
        tend_until(supervisor, lambda: False)
    assert one.restarts == 2
    assert not supervisor.tend()


def test_a_child_that_is_killed_is_started_again_however_often(tmp_path: Path) -> None:
    one = child(tmp_path, "import time; time.sleep(60)")
    supervisor = Supervisor([one])
    supervisor.start()
    try:
        for number in range(5):
            tend_until(supervisor, lambda: one.is_alive)
            assert one.pid is not None
            os.kill(one.pid, signal.SIGKILL)
            tend_until(supervisor, lambda number=number: one.restarts > number)  # type: ignore[misc]
        assert not one.is_given_up
    finally:
        supervisor.stop()


def test_a_child_that_once_ran_is_given_more_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STEADY_SECONDS", 0.0)
    one = child(tmp_path, "raise SystemExit(3)")
    supervisor = Supervisor([one])
    supervisor.start()
    tend_until(supervisor, lambda: one.restarts == 1)
    monkeypatch.setattr(module, "_STEADY_SECONDS", 10.0)
    tend_until(supervisor, lambda: one.restarts == 6)
    monkeypatch.setattr(module, "_LATER_STARTS", 7)
    with pytest.raises(FailedPrecondition, match="it ended with 3"):
        tend_until(supervisor, lambda: False)


def test_up_ends_with_the_error_of_a_process_that_cannot_start(tmp_path: Path) -> None:
    moulin.connect(tmp_path / "lake").close()
    environment = {**os.environ, "MOULIN_STORAGE_OPTIONS": json.dumps({"secret_access_key": "s3cr3t"})}
    environment["MOULIN_SERVE_LOG_LEVEL"] = "loud"
    words = ["--lake", str(tmp_path / "lake"), "up", "--no-spark", "--grpc-port", "0", "--http-port", "0", "--json"]
    command = [sys.executable, "-m", "moulin.cli.main", *words, "--logs", str(tmp_path / "logs")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "serve failed to start 3 times: Setting 'log_level' must be one of" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def read_when_started(pid: int, name: str) -> bytes:
    """A file of a process in /proc. It is empty for a moment while the process starts its program."""
    deadline = time.monotonic() + 30
    while not (found := Path(f"/proc/{pid}/{name}").read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found, f"process {pid} has ended"
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads /proc")
def test_secrets_are_not_on_the_command_lines_of_children(tmp_path: Path) -> None:
    moulin.connect(tmp_path / "lake").close()
    (tmp_path / "options").write_text("# of the store\nsecret_access_key = t0psecret\n\nregion=eu\n")
    words = ["--lake", str(tmp_path / "lake"), "--storage-option", f"@{tmp_path}/options", "up", "--no-spark"]
    words += ["--grpc-port", "0", "--http-port", "0", "--serve-bind", "127.0.0.1:0", "--serve-http-bind", "", "--json"]
    with subprocess.Popen([sys.executable, "-m", "moulin.cli.main", *words], stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            children = json.loads(up.stdout.readline())["children"]
            assert len(children) == 3
            for pid in [up.pid, *children.values()]:
                assert b"t0psecret" not in read_when_started(pid, "cmdline")
            environment = read_when_started(children["serve"], "environ")
            assert b'"secret_access_key": "t0psecret", "region": "eu"' in environment
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)


def test_a_log_that_has_grown_large_is_moved_aside_while_its_child_writes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOG_BYTES", 1000)
    script = "import sys, time\nfor n in range(2000):\n    print(n, flush=True)\n    n % 20 or time.sleep(0.01)\n"
    talker = Child("talker", ["-c", script], tmp_path / "talker.log", dict(os.environ))
    tended = Supervisor([talker])
    tended.start()
    try:
        largest = 0
        while talker.is_alive:
            tended.tend()
            largest = max(largest, talker.log.stat().st_size)
            time.sleep(0.005)
    finally:
        tended.stop()
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"talker.log", "talker.log.1", "talker.log.2", "talker.log.3"}
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}, "nobody else reads them"
    assert largest < 9000, "all that was printed"
    kept = [int(line) for number in (3, 2, 1) for line in (tmp_path / f"talker.log.{number}").read_text().split()]
    kept += [int(line) for line in talker.log.read_text().split()]
    assert kept == sorted(kept)
    assert kept[-1] == 1999
    assert kept[0] > 0, "the oldest lines are gone"
    assert "\0" not in talker.log.read_text(), "it goes on at the new end"


def test_the_last_line_is_found_without_reading_the_log(tmp_path: Path) -> None:
    quiet = Child("quiet", ["-c", ""], tmp_path / "quiet.log", {})
    assert quiet.last_line() == ""
    quiet.log.write_text("x" * 5000 + "\nlast\n")
    assert quiet.last_line() == "last"
