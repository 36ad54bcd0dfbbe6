"""Errors of `format("moulin")` as one sentence, because Spark shows the traceback of any exception in its Python
processes.

Spark's processes for data sources end after an error, so that hiding the traceback of one hides no other.
"""

# Decisions: docs/decisions/0229

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from moulin.errors import MoulinError

_HIDE = "SPARK_HIDE_TRACEBACK"  # what PySpark looks at when it reports an error to the JVM
_WORKERS = ("pyspark.daemon", "pyspark.worker", "pyspark.sql.worker.", "pyspark.sql.streaming.python_")


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """An error of Moulin leaves this block without its traceback; others keep theirs, because they are bugs."""
    try:
        yield
    except MoulinError as error:
        if in_worker():
            os.environ[_HIDE] = "1"
        raise error.with_traceback(None) from None


def in_worker() -> bool:
    """Whether this is a process that Spark started to run Python, and not someone's driver."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith(_WORKERS)
