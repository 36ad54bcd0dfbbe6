"""Table formats on the Spark that they support: releases on Maven Central, environments, and processes that run them.

Each peer has an environment of its own with the newest PySpark that it has a release for, and a process of its own
(`peer_process.py`), which takes requests line by line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_process import MARK


@dataclass(frozen=True, slots=True)
class Release:
    """Maven coordinates, and the Spark that they are for."""

    package: str
    spark: str

    @property
    def version(self) -> str:
        return self.package.rpartition(":")[2]


RELEASES = {
    "Delta": (Release("io.delta:delta-spark_4.2_2.13:4.4.0", "4.2"),),
    "Iceberg": (Release("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "4.1"),),
    "Paimon": (
        Release("org.apache.paimon:paimon-spark-4.0_2.13:1.4.2", "4.0"),
        Release("org.apache.paimon:paimon-spark-3.5:0.9.0", "3.5"),
    ),
}
"""By preference: the first that can be had is taken. Some mirrors of Maven Central have but few releases."""


class Unreachable(Exception):
    """The peer cannot be had; the message is the reason."""


class Peer:
    """One peer in a process of its own. Environments and jars are kept in `fetched`."""

    def __init__(self, name: str, fetched: Path, folder: Path, memory: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[str] | None = None
        reasons = []
        for release in RELEASES[name]:
            self.release = release
            try:
                self._process = self._started(name, fetched, folder, memory)
                self.ask("start")
            except Unreachable as error:
                reasons.append(f"{release.package}: {error}")
                self.close()
            else:
                return
        raise Unreachable("; ".join(reasons))

    def _started(self, name: str, fetched: Path, folder: Path, memory: str) -> subprocess.Popen[str]:
        python = _python(self.release, fetched)
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK_"))}
        script = str(Path(__file__).with_name("peer_process.py"))
        return subprocess.Popen(
            [str(python), script, name, self.release.package, str(fetched / "jars"), str(folder), memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=outside,
            cwd=folder,
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def load(self, events: Path, changed: Path) -> None:
        """Make the table of the events, and a temporary view `changed_rows`."""
        self.ask("load", str(events), str(changed))

    def reset(self) -> None:
        """Let the table be as it was loaded."""
        self.ask("reset")

    def run(self, text: str) -> list[Any]:
        """The first row of a statement's answer; {t} is the table."""
        return self.ask("run", text)

    def vectors(self) -> int:
        """How many deletion vectors its last change wrote."""
        return int(self.ask("vectors")[0])

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError), process:  # closes what it has open; words that it did not read are lost
                pass

    def ask(self, *words: str) -> list[Any]:
        """The answer to a verb of `peer_process.Served`."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
        except OSError:
            raise Unreachable("its process ended") from None
        for line in process.stdout:
            if line.startswith(MARK):
                answer = json.loads(line.removeprefix(MARK))
                if "error" in answer:
                    raise Unreachable(answer["error"])
                row: list[Any] = answer["row"]
                return row
        raise Unreachable("its process ended: Maven Central may be out of reach")


def _python(release: Release, fetched: Path) -> Path:
    """The Python of an environment with the Spark of a release, made when it is missing."""
    folder = fetched / f"python-{release.spark}"
    python = folder / "bin" / "python"
    if not python.exists():
        wanted = f"pyspark=={release.spark}.*"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", wanted, "setuptools"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unreachable(f"{wanted} cannot be installed: {done.stderr.strip()[-200:]}")
    return python
