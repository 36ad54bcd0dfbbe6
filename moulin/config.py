"""Every knob, in one place, strict: an unknown name or a value that does not fit is an error.

Values come from, lowest first: the defaults here, `moulin.toml` in a lake's folder, `MOULIN_<NAME>` in the
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
    """The effective configuration of one connection. Times are seconds, sizes are bytes."""

    # Grace windows: how long a dropped object can be brought back.
    database_grace: float = DAY
    table_grace: float = DAY
    view_grace: float = 5 * MINUTE
    token_grace: float = 5 * MINUTE
    # Bytes of a purged or expired object are deleted no earlier than this after they became garbage.
    byte_floor: float = 12 * MINUTE
    # Versions younger than this stay readable; files that no commit names are swept when older than `orphan_grace`.
    history_keep: float = 7 * DAY
    orphan_grace: float = DAY
    # A reader that was not heard of for this long has lost its pin, unless it is known to live.
    pin_seconds: float = HOUR
    # Nothing is cleaned up while the clocks of process, database, storage and lake differ by more than this.
    clock_tolerance: float = 5 * MINUTE
    # A commit is tried this often before a conflict is reported.
    commit_attempts: int = 16
    # Waiting for the lake's counter, and an idle transaction, end after this.
    lock_seconds: float = 5.0
    # A full manifest is written when this many deltas lie on the last one (more for large tables, see
    # docs/formats/manifest.md).
    manifest_deltas: int = 64
    # Appended rows are cut into segments of about this size in memory; compacted ones of about `merge_segment_bytes` on
    # disk.
    append_segment_bytes: int = 256 * MIB
    merge_segment_bytes: int = 256 * MIB
    # Appends of up to this many bytes in memory are inline: the catalog keeps them, and no file is written. At most
    # `inline_segments` of a table are live; the append that reaches this compacts them. 0: every append is a file.
    inline_bytes: int = 0
    inline_segments: int = 256
    # One compaction reads at most this much. The janitor plans one when a partition has at least `merge_min_inputs`
    # segments of about the same size, and at most `merge_max_inputs` of them go into it.
    merge_max_bytes: int = 8192 * MIB
    merge_min_inputs: int = 4
    merge_max_inputs: int = 100
    # A slice of a compaction holds about this much of rows decoded, and a slice of the search for repeated keys of a
    # bulk load as much of keys; there is one at a time for each core.
    merge_memory_bytes: int = 256 * MIB
    # Compactions that read less than this run in-process even when Spark is at hand.
    merge_local_bytes: int = 64 * MIB
    # How long a claimed merge task stays with one of Moulin's own workers that sends no heartbeat; they send three in
    # that time. A worker of another make that asks for no lease may know of no heartbeats, and gets `merge_poll_lease`.
    # After a failure a task waits `merge_backoff`, twice as long after each further one; after `merge_failures` it is
    # in quarantine.
    merge_lease_seconds: float = 5 * MINUTE
    merge_poll_lease: float = HOUR
    merge_backoff: float = 30.0
    merge_failures: int = 5
    # How long a finished merge task is remembered, so that a repeated completion is known.
    merge_task_keep: float = DAY
    # Files under staged segment numbers that were never registered are swept this long after.
    staged_seconds: float = 6 * HOUR
    # The janitor looks for work this often, cleans up every `gc_interval` and looks for orphans every
    # `orphan_interval`. With `delete_bytes` off the lake deletes no file with rows of a table, dropped or not:
    # segments and journals wait for the segment deletion service.
    janitor_interval: float = 10.0
    # One that dies keeps the others from taking over for this long; longer than any step of it takes.
    janitor_lease: float = 5 * MINUTE
    gc_interval: float = 5 * MINUTE
    orphan_interval: float = 6 * HOUR
    delete_bytes: str = "on"
    # What is believed of files that Iceberg engines commit over REST: with `all`, every file is read; with `sample`,
    # the first and every tenth of a commit; with `new-writers`, those of writers whose files the table has not seen
    # right yet; with `manifest`, none.
    iceberg_verify: str = "all"
    # Rows per batch of a streamed scan, and bytes it may read ahead.
    scan_batch_rows: int = 131_072
    scan_ahead_bytes: int = 256 * MIB
    # With `scan_by_pages` on, scans read the columns of their filter first, and only pages with matches of the others;
    # page bounds and bloom filters leave out what cannot match.
    scan_by_pages: str = "on"
    # With `sql_pruning` on, `lake.sql` asks the catalog which segments a statement needs, of tables that have at least
    # `sql_pruning_segments` of them or an index: it plans a statement twice, which takes longer than to look into few.
    sql_pruning: str = "on"
    sql_pruning_segments: int = 32
    # DELETE and UPDATE with conditions and values that Moulin computes as Spark does run in this process when the
    # segments to read have at most so many bytes; with 0, Spark computes every statement.
    sql_local_bytes: int = 512 * MIB
    # Keyed tables. A log syncs `always`, every `log_interval` seconds (`interval`), or `never`; it lies in
    # `log_folder`, beside the table when that is empty and the lake is a folder, and in the lake's object store when it
    # is not. A file of it holds about `log_file_bytes`.
    log_sync: str = "always"
    log_interval: float = 1.0
    log_folder: str = ""
    log_file_bytes: int = 64 * MIB
    # A memtable of `memtable_bytes` is flushed. Writers wait a little from `memtable_slowdown` waiting ones on or
    # `level0_slowdown` level-0 segments of a region, and until there are fewer at `memtable_stop` and `level0_stop`,
    # for at most `stall_seconds`. A waiting memtable counts as a level-0 segment, so puts never make more of these than
    # `level0_stop`; in a partitioned table a memtable may become one for each partition.
    # With `memtable_columns` on, what a scan made of a memtable is kept until that is flushed, and the next scan adds
    # what came since; it counts towards `memtable_bytes`.
    memtable_bytes: int = 64 * MIB
    memtable_columns: str = "on"
    memtable_slowdown: int = 2
    memtable_stop: int = 4
    # At most `flush_threads` regions of a table are flushed at once.
    flush_threads: int = 1
    level0_slowdown: int = 24
    level0_stop: int = 48
    stall_seconds: float = 60.0
    # With `merge_background` on, the process that writes a region compacts its level-0 segments when there are
    # `level0_trigger` of them, and those of level 1 into level 2 when they hold more than `level1_bytes`. Each deeper
    # level, down to `deepest_level`, may hold `level_growth` times as much before some of it moves on.
    merge_background: str = "on"
    level0_trigger: int = 8
    level1_bytes: int = 256 * MIB
    level_growth: int = 10
    deepest_level: int = 2
    # What is kept in memory for look-ups: rows, blocks of key indexes, and row groups.
    row_cache_rows: int = 100_000
    key_cache_bytes: int = 256 * MIB
    group_cache_bytes: int = 256 * MIB
    # Where what never changes of a lake in an object store is kept on this machine; empty: nowhere. And how much of it.
    cache_folder: str = ""
    cache_bytes: int = 10_240 * MIB
    # With `check_etags` on, an adopted file in an object store must have the ETag that it had when it was adopted.
    check_etags: str = "on"
    # One compaction of an event table spans at most this much time, unless the table or its retention says otherwise.
    merge_span: float = 7 * DAY
    # Collectors write an object of their stream at once when none is on its way, but in the long run only one in so
    # many seconds, or when it has so many bytes.
    stream_flush_seconds: float = 0.05
    stream_segment_bytes: int = 16 * MIB
    # A quiet stream gets an object that says that its collector lives, this often.
    stream_keep_alive: float = 2 * MINUTE
    # A collector takes requests of at most `collector_request_bytes`, and has at most `collector_budget_bytes` on their
    # way to the store. When the store does not answer, it keeps callers waiting for `collector_patience`.
    collector_request_bytes: int = 64 * MIB
    collector_budget_bytes: int = 256 * MIB
    # What the rows of one request may take once decoded, how many rows or records, columns, and values (messages of
    # OTLP, values of JSON) it may have, and how deep rows may be nested. So many threads check requests.
    collector_decoded_bytes: int = 256 * MIB
    collector_request_rows: int = 1_000_000
    collector_request_columns: int = 2_000
    collector_request_values: int = 4_000_000
    collector_request_depth: int = 64
    collector_threads: int = 2
    collector_patience: float = 10.0
    # A collector's clients have so long to send the head of an HTTP request, and its body (longer while it moves). They
    # may have so many connections in all, and each peer so many. Names that they may call it by besides those of this
    # machine, when it listens on loopback: with commas, `*` for any.
    collector_header_seconds: float = 10.0
    collector_body_seconds: float = 30.0
    collector_connections: int = 1000
    collector_peer_connections: int = 250
    collector_allowed_hosts: str = ""
    # A nursery takes at most so many stored bytes of streams into one batch; batches from `nursery_local_bytes` on are
    # milled on Spark. A stream without an object for `stream_timeout` is ended. A batch that failed so often in a row
    # is taken apart, object by object.
    nursery_batch_bytes: int = 32 * MIB
    nursery_local_bytes: int = 4 * MIB
    nursery_failures: int = 3
    # A nursery that died in the first batch it began counts as a failure of that batch this long afterwards.
    nursery_try_age: float = 30.0
    stream_timeout: float = 5 * MINUTE
    # A deleted or re-routed ingest token may still be in use by a collector for this long.
    token_recheck: float = MINUTE
    # Objects of a stream are kept this long after the commit that took them in; how far which version was, is known for
    # `checkpoint_keep`.
    blob_keep: float = HOUR
    checkpoint_keep: float = 30 * MINUTE
    # How long a request that Moulin makes itself may be repeated and is known to be done.
    request_keep: float = 7 * DAY
    # A member of the cluster that was not heard of for this long is gone. Empty: the lake's own id.
    member_ttl: float = 20.0
    cluster_id: str = ""

    def replace(self, **changes: Any) -> Config:
        """A copy with `changes`; InvalidInput names an unknown knob or a value of the wrong kind."""
        checked: dict[str, Any] = {name: _value(name, raw) for name, raw in changes.items()}
        return dataclasses.replace(self, **checked)


_MAY_BE_ZERO = ("inline_bytes",)  # of those that are whole numbers
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
        raise InvalidInput(f"Setting {name!r} takes text, not {raw!r}.")
    if str(raw) not in (known := _WORDS.get(name, (str(raw),))):
        raise InvalidInput(f"Setting {name!r} is one of {', '.join(known)}, not {raw!r}.")
    return str(raw)


def _number(name: str, raw: Any, kind: type[int] | type[float]) -> float | int:
    try:
        if isinstance(raw, bool):
            raise ValueError
        value = kind(raw)
        if isinstance(raw, float) and kind is int and value != raw:
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidInput(f"Setting {name!r} takes a number, not {raw!r}.") from None
    least = 1 if kind is int and name not in _MAY_BE_ZERO else 0
    if not value >= least:
        raise InvalidInput(f"Setting {name!r} must be {'at least 1' if least else 'zero or more'}, not {raw!r}.")
    if value > _MOST.get(name, value):
        raise InvalidInput(f"Setting {name!r} is at most {_MOST[name]}, not {raw!r}.")
    return value


SECTIONS = ("serve",)  # tables of moulin.toml that others read


def read_toml(file: Path) -> dict[str, Any]:
    """What a moulin.toml says; nothing when there is none."""
    if not file.is_file():
        return {}
    import tomllib  # few lakes have such a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file.name} is not valid TOML: {error}.") from None


def file_settings(file: Path, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of the lake in a file that was named, but for those that the environment overrides.

    InvalidInput names the file and the key or table that means nothing.
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
    """Whether Kubernetes put this variable there for a service named `moulin` or `moulin-...`; nobody set it here.

    Name and value are of the kinds that it makes: MOULIN_PORT=tcp://10.0.0.1:8181 is one, MOULIN_PORT=8181 is not.
    """
    import re  # only servers ask

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
    """Of the environment, by default this process's own, the variables that Python and Spark need to start.

    For processes that run the SQL of others: what is not in a list of known names may be a secret.
    """
    found = os.environ if environment is None else environment
    known = set(_SAFE_VARIABLES.split())
    return {name: value for name, value in found.items() if name in known or name.startswith("LC_")}
