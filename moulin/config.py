"""All settings in one place. An unknown name or an invalid value is an error.

Values come from, lowest precedence first: the defaults here, `moulin.toml` in a lake's folder, `MOULIN_<NAME>` in the
environment, and keywords of `moulin.connect`.
"""

# Decisions: docs/decisions/0223

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moulin.errors import InvalidInput

MINUTE = 60.0
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Config:
    """The effective configuration of one connection. Times are in seconds, sizes in bytes."""

    # Grace periods: how long a dropped object can be restored.
    database_grace: float = DAY
    table_grace: float = DAY
    view_grace: float = 5 * MINUTE
    token_grace: float = 5 * MINUTE
    # Files of a purged or expired object are deleted no earlier than this after they became garbage.
    byte_floor: float = 12 * MINUTE
    # Versions younger than this stay readable. Files that no commit refers to are deleted when older than
    # `orphan_grace`.
    history_keep: float = 7 * DAY
    orphan_grace: float = DAY
    # The pin of a reader that was not seen for this long expires, unless the reader is known to be running.
    pin_seconds: float = HOUR
    # Clean-up stops if the clocks of process, database, storage and lake differ by more than this.
    clock_tolerance: float = 5 * MINUTE
    # How often a commit is attempted before it raises a conflict.
    commit_attempts: int = 16
    # Timeout for the lake's commit lock, and for an idle transaction.
    lock_seconds: float = 5.0
    # A full manifest is written after this many delta manifests (more for large tables, see
    # docs/formats/manifest.md).
    manifest_deltas: int = 64
    # Target sizes of segments: appends by size in memory, compactions (`merge_segment_bytes`) by size on disk.
    append_segment_bytes: int = 256 * MIB
    merge_segment_bytes: int = 256 * MIB
    # Appends of up to this many bytes in memory are inline: the rows are stored in the catalog, without a file. A
    # table has at most `inline_segments` inline segments; the append that reaches this number compacts them. With
    # 0, every append writes a file.
    inline_bytes: int = 0
    inline_segments: int = 256
    # Limit of the input of one compaction. The janitor plans a compaction when a partition has at least
    # `merge_min_inputs` segments of similar size. It takes at most `merge_max_inputs` of them.
    merge_max_bytes: int = 8192 * MIB
    merge_min_inputs: int = 4
    merge_max_inputs: int = 100
    # Approximate memory for the decoded rows of one slice of a compaction, or for the keys of one slice of a bulk
    # load. Each core runs one slice at a time.
    merge_memory_bytes: int = 256 * MIB
    # Compactions smaller than this run in this process even if Spark is available.
    merge_local_bytes: int = 64 * MIB
    # Lease time of a merge task. Moulin's own workers send three heartbeats in this time. Other workers that
    # request no lease get `merge_poll_lease`. After a failure a task waits `merge_backoff`, doubled after each
    # further failure. After `merge_failures` failures it is quarantined.
    merge_lease_seconds: float = 5 * MINUTE
    merge_poll_lease: float = HOUR
    merge_backoff: float = 30.0
    merge_failures: int = 5
    # How long a finished merge task is remembered, so that a repeated completion is recognised.
    merge_task_keep: float = DAY
    # Files with staged segment numbers that were never registered are deleted after this time.
    staged_seconds: float = 6 * HOUR
    # The janitor looks for work at this interval, cleans up every `gc_interval` and looks for orphaned files every
    # `orphan_interval`. With `delete_bytes` off, the lake never deletes files with rows: segments and journals wait
    # for the segment deletion service.
    janitor_interval: float = 10.0
    # How long other janitors wait after a janitor was killed. It must be longer than any of its steps.
    janitor_lease: float = 5 * MINUTE
    gc_interval: float = 5 * MINUTE
    orphan_interval: float = 6 * HOUR
    delete_bytes: str = "on"
    # What is believed of files that Iceberg engines commit over REST: with `all`, every file is read; with `sample`,
    # the first and every tenth of a commit; with `new-writers`, those of writers whose files the table has not seen
    # right yet; with `manifest`, none.
    iceberg_verify: str = "all"
    # Rows per batch of a streamed scan, and its limit of bytes to read ahead.
    scan_batch_rows: int = 131_072
    scan_ahead_bytes: int = 256 * MIB
    # With `scan_by_pages` on, scans read the filter columns first, and then only the pages with matches from the
    # other columns. Page bounds and bloom filters skip pages without matches.
    scan_by_pages: str = "on"
    # With `sql_pruning` on, `lake.sql` prunes segments with the catalog, for tables with at least
    # `sql_pruning_segments` segments or an index. It plans such a statement twice, which costs more than it saves
    # for few segments.
    sql_pruning: str = "on"
    sql_pruning_segments: int = 32
    # DELETE and UPDATE run in this process if Moulin can compute their conditions and values exactly as Spark does,
    # and the segments to read are not larger than this. With 0, Spark runs every statement.
    sql_local_bytes: int = 512 * MIB
    # Logs of keyed tables. A log syncs `always`, every `log_interval` seconds (`interval`), or `never`. It is
    # stored in `log_folder`. If that is empty, it is next to the table for a lake in a folder, and in the object
    # store otherwise. A log file has about `log_file_bytes`.
    log_sync: str = "always"
    log_interval: float = 1.0
    log_folder: str = ""
    log_file_bytes: int = 64 * MIB
    # A memtable of `memtable_bytes` is flushed. Writes are slowed down from `memtable_slowdown` waiting memtables
    # or `level0_slowdown` level-0 segments of a region. They block from `memtable_stop` and `level0_stop`, for at
    # most `stall_seconds`. A waiting memtable counts as a level-0 segment, so puts never create more than
    # `level0_stop` segments; in a partitioned table, one memtable may become a segment for each partition. With
    # `memtable_columns` on, the columns that a scan builds from a memtable are cached until the flush, and later
    # scans only add new rows. The cache counts towards `memtable_bytes`.
    memtable_bytes: int = 64 * MIB
    memtable_columns: str = "on"
    memtable_slowdown: int = 2
    memtable_stop: int = 4
    # How many regions of a table are flushed at the same time.
    flush_threads: int = 1
    level0_slowdown: int = 24
    level0_stop: int = 48
    stall_seconds: float = 60.0
    # With `merge_background` on, the process that writes a region compacts its level-0 segments when there are
    # `level0_trigger` of them, and level 1 into level 2 when it exceeds `level1_bytes`. Each deeper level, down to
    # `deepest_level`, may be `level_growth` times larger than the one above.
    merge_background: str = "on"
    level0_trigger: int = 8
    level1_bytes: int = 256 * MIB
    level_growth: int = 10
    deepest_level: int = 2
    # Cache sizes for look-ups by key: rows, blocks of key indexes, and row groups.
    row_cache_rows: int = 100_000
    key_cache_bytes: int = 256 * MIB
    group_cache_bytes: int = 256 * MIB
    # Local cache directory for immutable objects of an object store (empty: no cache), and its size limit.
    cache_folder: str = ""
    cache_bytes: int = 10_240 * MIB
    # With `check_etags` on, an adopted file in an object store must still have the ETag of its adoption.
    check_etags: str = "on"
    # Limit of the event-time range of one compaction of an event table, unless set for the table or by its
    # retention.
    merge_span: float = 7 * DAY
    # Average interval between baby segments of a collector, and the size at which it writes one. A baby segment is
    # written at once if none is being written.
    stream_flush_seconds: float = 0.05
    stream_segment_bytes: int = 16 * MIB
    # Interval of the heartbeats in an idle stream.
    stream_keep_alive: float = 2 * MINUTE
    # Limits of a collector: bytes of one request, and bytes being written to the store. If the store is
    # unavailable, senders wait for up to `collector_patience`.
    collector_request_bytes: int = 64 * MIB
    collector_budget_bytes: int = 256 * MIB
    # Limits for one request: bytes of decoded rows, number of rows or records, columns, values (messages of OTLP,
    # values of JSON), and nesting depth of rows. `collector_threads` threads check requests.
    collector_decoded_bytes: int = 256 * MIB
    collector_request_rows: int = 1_000_000
    collector_request_columns: int = 2_000
    collector_request_values: int = 4_000_000
    collector_request_depth: int = 64
    collector_threads: int = 2
    collector_patience: float = 10.0
    # HTTP limits of a collector: time for the head of a request and for its body (longer while data arrives),
    # connections in total and per peer. On loopback, comma-separated host names accepted besides those of this
    # machine; `*` for any.
    collector_header_seconds: float = 10.0
    collector_body_seconds: float = 30.0
    collector_connections: int = 1000
    collector_peer_connections: int = 250
    collector_allowed_hosts: str = ""
    # Limit of stored bytes in one batch of a nursery; batches from `nursery_local_bytes` on run on Spark. A stream
    # without an object for `stream_timeout` is ended. After `nursery_failures` consecutive failures the objects of
    # a batch are processed one by one.
    nursery_batch_bytes: int = 32 * MIB
    nursery_local_bytes: int = 4 * MIB
    nursery_failures: int = 3
    # If a nursery crashed in its first batch, that counts as a failure of the batch after this time.
    nursery_try_age: float = 30.0
    stream_timeout: float = 5 * MINUTE
    # How long a collector may still use a deleted or re-routed ingest token.
    token_recheck: float = MINUTE
    # How long baby segments are kept after their commit. The stream offsets of versions are kept for
    # `checkpoint_keep`.
    blob_keep: float = HOUR
    checkpoint_keep: float = 30 * MINUTE
    # How long request ids of Moulin's own commits are remembered, so that retries are recognised.
    request_keep: float = 7 * DAY
    # A cluster member that was not seen for this long is removed. An empty `cluster_id` means the lake's own id.
    member_ttl: float = 20.0
    cluster_id: str = ""

    def replace(self, **changes: Any) -> Config:
        """A copy with `changes`; InvalidInput names an unknown setting or an invalid value."""
        checked: dict[str, Any] = {name: _value(name, raw) for name, raw in changes.items()}
        return dataclasses.replace(self, **checked)


_MAY_BE_ZERO = ("inline_bytes",)  # of the integer settings
_MOST = {"deepest_level": 7}
_WORDS = {"iceberg_verify": ("all", "new-writers", "sample", "manifest")}
_FIELDS: dict[str, type[int] | type[float] | type[str]] = {
    f.name: next(kind for kind in (int, str, float) if isinstance(f.default, kind)) for f in dataclasses.fields(Config)
}


def _value(name: str, raw: Any) -> float | int | str:
    kind = _FIELDS.get(name)
    if kind is None:
        from difflib import get_close_matches  # only errors need it

        near = "".join(f" Did you mean {one!r}?" for one in get_close_matches(name, _FIELDS, n=1))
        raise InvalidInput(f"Unknown setting {name!r}.{near} Known settings: {', '.join(sorted(_FIELDS))}.")
    return _text(name, raw) if kind is str else _number(name, raw, int if kind is int else float)


def _text(name: str, raw: Any) -> str:
    if not isinstance(raw, str | Path) or "\0" in str(raw):
        raise InvalidInput(f"Setting {name!r} must be text, not {raw!r}.")
    if str(raw) not in (known := _WORDS.get(name, (str(raw),))):
        raise InvalidInput(f"Setting {name!r} must be one of {', '.join(known)}, not {raw!r}.")
    return str(raw)


def _number(name: str, raw: Any, kind: type[int] | type[float]) -> float | int:
    try:
        if isinstance(raw, bool):
            raise ValueError
        value = kind(raw)
        if isinstance(raw, float) and kind is int and value != raw:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidInput(f"Setting {name!r} must be a number, not {raw!r}.") from None
    least = 1 if kind is int and name not in _MAY_BE_ZERO else 0
    if not value >= least:
        raise InvalidInput(f"Setting {name!r} must be {'at least 1' if least else 'zero or more'}, not {raw!r}.")
    if value > _MOST.get(name, value):
        raise InvalidInput(f"Setting {name!r} must be at most {_MOST[name]}, not {raw!r}.")
    return value


SECTIONS = ("serve",)  # sections of moulin.toml that other modules read


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a moulin.toml; empty if there is none."""
    if not file.is_file():
        return {}
    import tomllib  # few lakes have such a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file.name} is not valid TOML: {error}.") from None


def file_settings(file: Path, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of the lake in a given file, except those that the environment overrides.

    InvalidInput names the file and the unknown key or section.
    """
    environ = os.environ if environ is None else environ
    found = {}
    for name, raw in read_toml(file).items():
        if name in SECTIONS:
            continue
        if name not in _FIELDS:
            what = f"table [{name}]" if isinstance(raw, dict) else f"setting {name!r}"
            raise InvalidInput(
                f"Unknown {what} in {file}: it holds [{'], ['.join(SECTIONS)}] and settings of the lake, which are "
                f"{', '.join(sorted(_FIELDS))}."
            )
        value = _value(name, raw)
        if f"MOULIN_{name.upper()}" not in environ:
            found[name] = value
    return found


_SERVICE_LINKS: tuple[tuple[str, str], ...] = (
    (r"_SERVICE_HOST", r"[0-9a-fA-F.:]+"),
    (r"_SERVICE_PORT(_[A-Z0-9_]+)?", r"[0-9]+"),
    (r"_PORT(_[0-9]+_(TCP|UDP|SCTP))?", r"(tcp|udp|sctp)://[^/]+:[0-9]+"),
    (r"_PORT_[0-9]+_(TCP|UDP|SCTP)_PROTO", r"tcp|udp|sctp"),
    (r"_PORT_[0-9]+_(TCP|UDP|SCTP)_PORT", r"[0-9]+"),
    (r"_PORT_[0-9]+_(TCP|UDP|SCTP)_ADDR", r"[0-9a-fA-F.:]+"),
)


def is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes set this variable for a service named `moulin` or `moulin-...`.

    Name and value must both match: MOULIN_PORT=tcp://10.0.0.1:8181 does, MOULIN_PORT=8181 does not.
    """
    import re  # only servers need it

    return any(
        re.fullmatch(f"MOULIN(_[A-Z0-9_]+)?{tail}", name) and re.fullmatch(kind, value) for tail, kind in _SERVICE_LINKS
    )


def load_config(
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> Config:
    """The configuration for a lake in `folder`: defaults, then its moulin.toml, the environment, and `overrides`."""
    settings: dict[str, Any] = dict(defaults or {})
    if folder is not None:
        settings.update({k: v for k, v in read_toml(folder / "moulin.toml").items() if k not in SECTIONS})
    for name in _FIELDS:
        if (raw := (os.environ if environ is None else environ).get(f"MOULIN_{name.upper()}")) is not None:
            settings[name] = raw
    settings.update(overrides)
    return Config().replace(**settings)


_SAFE_VARIABLES = """
HOME JAVA_HOME LANG LANGUAGE LD_LIBRARY_PATH LOGNAME MOULIN_CACHE MOULIN_SPARK_MEMORY PATH PYSPARK_DRIVER_PYTHON
PYSPARK_PYTHON PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONHOME PYTHONPATH SPARK_CONF_DIR SPARK_HOME
SPARK_LAUNCHER_OPTS SPARK_LOCAL_DIRS SPARK_LOCAL_HOSTNAME SPARK_LOCAL_IP SSL_CERT_DIR SSL_CERT_FILE TEMP TERM TMP TMPDIR
TZ USER VIRTUAL_ENV XDG_CACHE_HOME
"""


def safe_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of the environment (default: of this process) that Python and Spark need to start.

    For processes that run untrusted SQL: variables that are not on the list may be secrets.
    """
    found = os.environ if environment is None else environment
    known = set(_SAFE_VARIABLES.split())
    return {name: value for name, value in found.items() if name in known or name.startswith("LC_")}
