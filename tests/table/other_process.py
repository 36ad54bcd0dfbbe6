"""A table in a process of its own, driven from a test: each call is one message there and one back, in JSON."""

from __future__ import annotations

import json
import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from moulin import errors
from tests.commands import fork


class OtherProcess:
    """Opens a lake and one of its tables; errors of calls are raised here, with their type and text."""

    def __init__(self, address: dict[str, Any], table: str, **settings: Any) -> None:
        address = {name: str(value) if isinstance(value, Path) else value for name, value in address.items()}
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = fork(_serve, theirs, address, table, settings)
        theirs.close()
        assert self._answer() == "ready"

    def call(self, name: str, *arguments: Any) -> Any:
        """A method of the table, or one of the functions below."""
        self._tell([name, arguments])
        return self._answer()

    def kill(self) -> None:
        """kill -9, wherever it is."""
        self._process.kill()
        self._process.join()

    def signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _tell(self, message: Any) -> None:
        self._pipe.send_bytes(json.dumps(message).encode())

    def _answer(self) -> Any:
        try:
            kind, value = json.loads(self._pipe.recv_bytes())
        except EOFError:
            self._process.join()
            raise AssertionError(f"the other process ended with {self._process.exitcode}") from None
        if kind == "ok":
            return value
        raise getattr(errors, kind, AssertionError)(value)

    def __enter__(self) -> OtherProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._pipe.close()


def pending(table: Any) -> list[Any]:
    """The keys of writes that are in no version."""
    regions = table._keyed_only().pending()[1]
    return sorted({key for moments in regions for moment in moments for key in moment.memtable.rows})


def fill(table: Any, first: int) -> list[Any]:
    """Put rows until one is refused: how many were acknowledged, and the error."""
    for number in range(first, first + 1_000_000):
        try:
            table.put({"id": number, "name": "x" * 900})
        except errors.MoulinError as error:
            return [number - first, type(error).__name__, str(error)]
    raise AssertionError("the disk has no end")


def put_all(table: Any, rows: list[Any]) -> None:
    """Put rows, one by one."""
    for row in rows:
        table.put(row)


def begin_scan(table: Any) -> int:
    """Read one batch; returns its rows."""
    _UNDER_WAY.append(table.scan().to_batches())
    rows: int = next(_UNDER_WAY[0]).num_rows
    return rows


def end_scan(table: Any) -> int:
    """Read the rest of the scan that was begun; returns its rows."""
    return sum(batch.num_rows for batch in _UNDER_WAY.pop())


_UNDER_WAY: list[Any] = []
_FUNCTIONS = {function.__name__: function for function in (pending, fill, put_all, begin_scan, end_scan)}


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _do(table: Any, name: str, arguments: list[Any]) -> Any:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](table, *arguments)
    if name == "scan":
        return table.scan().to_pylist()
    if name in ("get", "delete"):
        arguments = [_key(argument) for argument in arguments]
    found = getattr(table, name)(*arguments)
    return found if isinstance(found, dict | list | int | None) else None


def _serve(pipe: Connection, address: dict[str, Any], name: str, settings: dict[str, Any]) -> None:
    from moulin.lake import Lake

    table = Lake.open(**address, settings=settings).table(name)
    pipe.send_bytes(b'["ok", "ready"]')
    while True:
        try:
            call = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            answer = ["ok", _do(table, *call)]
        except errors.MoulinError as error:
            answer = [type(error).__name__, str(error)]
        except Exception as error:  # noqa: BLE001 - the test must hear of it
            answer = ["Exception", repr(error)]
        pipe.send_bytes(json.dumps(answer).encode())
