"""Operations of the SQL server without Spark: what a statement that was cancelled leaves undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.errors import FailedPrecondition
from moulin.sql_server.operations import Operation
from moulin.table.runner import LocalRunner


class NoSpark:
    """A session whose jobs nobody runs."""

    @property
    def sparkContext(self) -> NoSpark:  # noqa: N802 - Spark's name
        return self

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        pass

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        pass


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_change_in_this_process_that_was_cancelled_is_not_committed(tmp_path: Path, cancelled: bool) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("d")
        table = lake.create_table("d.t", [("id", "long")])
        table.append([{"id": number} for number in range(10)])
        operation = Operation("one", (), NoSpark())  # type: ignore[arg-type]

        def statement() -> Iterator[Any]:
            if cancelled:
                operation.interrupt()
            table.delete_where("id < 5")
            yield from ()

        operation.run(statement)
        if cancelled:
            with pytest.raises(FailedPrecondition, match="cancelled"):
                list(operation.answers("", lambda: True))
        else:
            assert len(list(operation.answers("", lambda: True))) == 1
        assert table.scan().count() == (10 if cancelled else 5)
        table.delete_where("id < 7")
        assert table.scan().count() == 3, "the thread goes on with other work"


def test_no_slice_is_begun_after_a_statement_was_cancelled() -> None:
    operation, begun = Operation("one", (), NoSpark()), list[int]()  # type: ignore[arg-type]

    def kernel(number: int) -> None:
        begun.append(number)
        operation.interrupt()

    def statement() -> Iterator[Any]:
        list(LocalRunner().map(kernel, [1]))
        list(LocalRunner().map(kernel, [2]))
        yield from ()

    operation.run(statement)
    assert begun == [1]
