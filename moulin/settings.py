"""The settings of `moulin.connect` with their types, so that editors can complete and check them.

`moulin.config.Config` has their defaults and documentation; a test keeps the two in sync.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class Settings(TypedDict, total=False):
    """Keywords of `moulin.connect`; see `moulin.config.Config`."""

    database_grace: float
    table_grace: float
    view_grace: float
    token_grace: float
    byte_floor: float
    history_keep: float
    orphan_grace: float
    pin_seconds: float
    clock_tolerance: float
    commit_attempts: int
    lock_seconds: float
    manifest_deltas: int
    append_segment_bytes: int
    merge_segment_bytes: int
    inline_bytes: int
    inline_segments: int
    merge_max_bytes: int
    merge_min_inputs: int
    merge_max_inputs: int
    merge_memory_bytes: int
    merge_local_bytes: int
    merge_lease_seconds: float
    merge_poll_lease: float
    merge_backoff: float
    merge_failures: int
    merge_task_keep: float
    staged_seconds: float
    janitor_interval: float
    janitor_lease: float
    gc_interval: float
    orphan_interval: float
    delete_bytes: str
    iceberg_verify: str
    scan_batch_rows: int
    scan_ahead_bytes: int
    scan_by_pages: str
    sql_pruning: str
    sql_pruning_segments: int
    sql_local_bytes: int
    log_sync: str
    log_interval: float
    log_folder: str | Path
    log_file_bytes: int
    memtable_bytes: int
    memtable_columns: str
    memtable_slowdown: int
    memtable_stop: int
    flush_threads: int
    level0_slowdown: int
    level0_stop: int
    stall_seconds: float
    merge_background: str
    level0_trigger: int
    level1_bytes: int
    level_growth: int
    deepest_level: int
    row_cache_rows: int
    key_cache_bytes: int
    group_cache_bytes: int
    cache_folder: str | Path
    cache_bytes: int
    check_etags: str
    merge_span: float
    stream_flush_seconds: float
    stream_segment_bytes: int
    stream_keep_alive: float
    collector_request_bytes: int
    collector_budget_bytes: int
    collector_decoded_bytes: int
    collector_request_rows: int
    collector_request_columns: int
    collector_request_values: int
    collector_request_depth: int
    collector_threads: int
    collector_patience: float
    collector_header_seconds: float
    collector_body_seconds: float
    collector_connections: int
    collector_peer_connections: int
    collector_allowed_hosts: str
    nursery_batch_bytes: int
    nursery_local_bytes: int
    nursery_failures: int
    nursery_try_age: float
    stream_timeout: float
    token_recheck: float
    blob_keep: float
    checkpoint_keep: float
    request_keep: float
    member_ttl: float
    cluster_id: str


__all__ = ["Settings"]
