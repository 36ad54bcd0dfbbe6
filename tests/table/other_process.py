"""A table in a process of its own, driven from a test: each call is one line of JSON there and one back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from moulin import errors

ROOT = Path(__file__).parents[2]


class OtherProcess:
    """Opens a lake and one of its tables; errors of calls are raised here, with their type and text."""

    def __init__(self, address: dict[str, Any], table: str, **settings: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.table.other_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        address = {name: str(value) if isinstance(value, Path) else value for name, value in address.items()}
        self._tell([address, table, settings])
        assert self._answer() == "ready"

    def call(self, name: str, *arguments: Any) -> Any:
        """A method of the table, or one of the functions below."""
        self._tell([name, arguments])
        return self._answer()

    def kill(self) -> None:
        """kill -9, wherever it is."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _tell(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the other process ended with {self._process.wait()}"
        kind, value = json.loads(line)
        if kind == "ok":
            return value
        raise getattr(errors, kind, AssertionError)(value)

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def pending(table: Any) -> list[Any]:
    """The keys of writes that are in no version."""
    return sorted(table._keyed_only().pending()[1])


def fill(table: Any, first: int) -> list[Any]:
    """Put rows until one is refused: how many were acknowledged, and the error."""
    for number in range(first, first + 1_000_000):
        try:
            table.put({"id": number, "name": "x" * 900})
        except errors.MoulinError as error:
            return [number - first, type(error).__name__, str(error)]
    raise AssertionError("the disk has no end")


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _do(table: Any, name: str, arguments: list[Any]) -> Any:
    if name in ("pending", "fill"):
        return (pending if name == "pending" else fill)(table, *arguments)
    if name == "scan":
        return table.scan().to_pylist()
    if name in ("get", "delete"):
        arguments = [_key(argument) for argument in arguments]
    found = getattr(table, name)(*arguments)
    return found if isinstance(found, dict | list | int | None) else None


def _say(answer: list[Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    from moulin.lake import Lake

    address, name, settings = json.loads(sys.stdin.readline())
    table = Lake.open(**address, settings=settings).table(name)
    _say(["ok", "ready"])
    for line in sys.stdin:
        try:
            answer = ["ok", _do(table, *json.loads(line))]
        except errors.MoulinError as error:
            answer = [type(error).__name__, str(error)]
        except Exception as error:  # noqa: BLE001 - the test must hear of it
            answer = ["Exception", repr(error)]
        _say(answer)


if __name__ == "__main__":
    main()
