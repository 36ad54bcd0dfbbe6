"""Safe statements on Spark for a process that runs them for others: bounded, and cancelled by their number."""

# Decisions: docs/decisions/0227, docs/decisions/0650

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from moulin.errors import FailedPrecondition, InvalidInput
from moulin.lake import Lake
from moulin.model.query_plan import QueryPlan
from moulin.pipeline.session import safe_environment, spark_session
from moulin.pipeline.spark import LakeSpark
from moulin.pipeline.sql.plan_steps import plan_steps
from moulin.pipeline.sql.results import batches, columns_of
from moulin.pipeline.sql.safe import without_addresses

CANCELLED: Final = "The statement was cancelled."
_AGAIN_SECONDS: Final = 0.2
_TOO_LARGE: Final = "spark.driver.maxResultSize"
_NOT_PLANNED: Final = re.compile(r"\s*(explain|desc|describe|show)\b", re.IGNORECASE)


def start(result_bytes: int) -> SparkSession:
    """A session without secrets, with a limit on collected results."""
    conf = {_TOO_LARGE: str(result_bytes)}
    return spark_session(app_name="moulin console", conf=conf, environment=safe_environment())


class SafeSpark:
    """Runs statements, several at a time, each in a thread of its own. Thread-safe."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        """REQUIRES: the lake was opened with this session."""
        made = lake.context.spark()
        assert isinstance(made, LakeSpark)
        self._lake, self._spark = made, spark
        self._stopped: dict[str, threading.Event] = {}

    def warm_up(self) -> None:
        """Preload what the first statement needs."""
        self._lake.sql("select 1", safe=True).collect()

    def wait_for_end(self, seconds: float | None = None) -> bool:
        """Whether the JVM ends within this time."""
        gateway: Any = self._spark.sparkContext._gateway
        try:
            gateway.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def run(self, number: str, text: str, rows: int, version: int | None) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The first rows of a statement."""
        with self._group(number) as require_wanted, _hiding():
            frame = self._lake.sql(text, safe=True, version=version)
            require_wanted()
            if not frame.columns:
                return pa.schema([]), []
            found = list(batches(frame, rows))
            return (found[0].schema if found else columns_of(frame)), found

    def plan(self, number: str, text: str, version: int | None) -> QueryPlan:
        """How Spark would run a query, and how many segments of each table it would read."""
        if _NOT_PLANNED.match(text):
            raise InvalidInput("Only queries have plans: write a SELECT.")
        with self._group(number), _hiding():
            shown = self._lake.sql(f"EXPLAIN {text}", safe=True, version=version).collect()
        return plan_steps(str(shown[0][0]))

    def cancel(self, number: str) -> None:
        """Stop a statement: repeatedly, because Spark cancels only running jobs, and the next one may follow."""
        stopped = self._stopped.get(number)
        if stopped is not None and not stopped.is_set():
            stopped.set()
            threading.Thread(target=self._cancel, args=(number,), name="moulin-cancel", daemon=True).start()

    def progress(self, number: str) -> float | None:
        """The part of the tasks that were begun for a statement that has ended."""
        tracker = self._spark.sparkContext.statusTracker()
        done = total = 0
        for job in tracker.getJobIdsForGroup(number):
            info = tracker.getJobInfo(job)
            for stage in () if info is None else info.stageIds:
                found: Any = tracker.getStageInfo(stage)
                if found is not None:
                    done, total = done + found.numCompletedTasks, total + found.numTasks
        return done / total if total else None

    def _cancel(self, number: str) -> None:
        while number in self._stopped:
            self._spark.sparkContext.cancelJobGroup(number)
            threading.Event().wait(_AGAIN_SECONDS)

    @contextmanager
    def _group(self, number: str) -> Iterator[Any]:
        """Put all jobs of this thread into one group. The yielded value raises when the statement is cancelled."""
        stopped = self._stopped[number] = threading.Event()
        context = self._spark.sparkContext
        context.setJobGroup(number, "a statement of the console", interruptOnCancel=True)

        def require_wanted() -> None:
            if stopped.is_set():
                raise FailedPrecondition(CANCELLED)

        try:
            yield require_wanted
        except Exception:
            require_wanted()
            raise
        finally:
            del self._stopped[number]
            context.setJobGroup("", "")


@contextmanager
def _hiding() -> Iterator[None]:
    """Errors of Spark without addresses of files."""
    try:
        yield
    except InvalidInput as error:
        if _TOO_LARGE in error.message:
            raise InvalidInput("The result is too large: select fewer rows or columns.") from None
        raise InvalidInput(without_addresses(error.message), line=error.line, column=error.column) from None


__all__ = ["CANCELLED", "SafeSpark", "start"]
