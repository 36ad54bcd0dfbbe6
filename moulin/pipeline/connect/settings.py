"""Settings that a client's session can read and set."""

# Decisions: docs/decisions/0266

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from moulin.errors import InvalidInput, NotFound, PermissionDenied

_SETTABLE = """
spark.sql.ansi.enabled spark.sql.caseSensitive spark.sql.crossJoin.enabled spark.sql.mapKeyDedupPolicy
spark.sql.execution.arrow.pyspark.enabled spark.sql.execution.arrow.pyspark.selfDestruct.enabled
spark.sql.execution.pandas.structHandlingMode spark.sql.execution.pyspark.binaryAsBytes
spark.sql.pyspark.inferNestedDictAsStruct.enabled spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled
spark.sql.repl.eagerEval.enabled spark.sql.repl.eagerEval.maxNumRows spark.sql.repl.eagerEval.truncate
spark.sql.session.timeZone spark.sql.sources.partitionOverwriteMode spark.sql.timestampType
"""
SETTABLE: Final = frozenset(_SETTABLE.split())
"""They change the meaning of a statement or the form of its result, and nothing on the server."""

_READABLE = re.compile(r"spark\.(sql|connect|python\.sql)\.")
_HIDDEN = re.compile(r"(?i)secret|password|token|key|credential|\.dir$|directory|location|path|metastore|hive|catalog")
_MIB = 1 << 20


class Settings:
    def __init__(self, spark: SparkSession, largest_message: int) -> None:
        """Rows that a client sends must fit into one message, which has at most so many bytes."""
        self._conf = spark.conf
        rows = str(largest_message - _MIB)
        self._fixed: Mapping[str, str] = {
            "spark.connect.session.planCompression.threshold": "-1",
            "spark.connect.session.planCompression.defaultAlgorithm": "NONE",
            "spark.sql.connect.serverStacktrace.enabled": "false",
            "spark.sql.pyspark.jvmStacktrace.enabled": "false",
            "spark.sql.session.localRelationCacheThreshold": rows,
            "spark.sql.session.localRelationSizeLimit": rows,
        }

    def get(self, key: str) -> str:
        """Raises NotFound if there is none, and PermissionDenied for a hidden one."""
        value = self.find(key)
        if value is None:
            raise NotFound(f"[SQL_CONF_NOT_FOUND] Setting {key} does not exist.")
        return value

    def find(self, key: str) -> str | None:
        if key in self._fixed:
            return self._fixed[key]
        if key not in SETTABLE and (not _READABLE.match(key) or _HIDDEN.search(key)):
            raise PermissionDenied(f"The setting {key} cannot be read by clients.")
        try:
            return self._conf.get(key)
        except PySparkException:
            return None

    def all(self, prefix: str) -> dict[str, str]:
        """The settings that a client may set, by name without the prefix."""
        found = {key: self.find(key) for key in sorted(SETTABLE) if key.startswith(prefix)}
        return {key.removeprefix(prefix): value for key, value in found.items() if value is not None}

    def set(self, key: str, value: str) -> None:
        self._check(key)
        try:
            self._conf.set(key, value)
        except PySparkException as error:
            raise InvalidInput(f"Spark rejects the setting: {str(error).strip().partition(chr(10))[0]}") from None

    def unset(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._check(key)
            self._conf.unset(key)

    def is_settable(self, key: str) -> bool:
        return key in SETTABLE

    def _check(self, key: str) -> None:
        if key not in SETTABLE:
            raise PermissionDenied(f"Clients cannot set {key}; they can set {', '.join(sorted(SETTABLE))}.")
