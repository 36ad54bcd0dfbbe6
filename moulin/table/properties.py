"""Table properties of Moulin. Names that start with `moulin.` are reserved: an unknown one is rejected.

Other names belong to users and engines and are kept as they are, unless they are one of Moulin's without its prefix, or
say something of files that would have no effect (`model.file_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.model import region_spec as regions
from moulin.model.file_settings import check_file_property, target_bytes
from moulin.model.names import did_you_mean
from moulin.model.table_settings import MERGE_SPAN, PROJECTION, REBASE_APPENDS, RETENTION, SHARDING, check_setting

PREFIX = "moulin."
# The comments are what the reference says of them: `python -m tests.docs.reference`.
KNOWN = {
    # Size in memory at which appended rows are cut into segments.
    "moulin.append-segment-bytes": "append_segment_bytes",
    # An append up to this size in memory is kept in the catalog and makes no file; 0: every append makes one.
    "moulin.inline-bytes": "inline_bytes",
    # Size on disk at which a compaction begins another segment.
    "moulin.merge-segment-bytes": "merge_segment_bytes",
    # How long versions of the table stay readable.
    "moulin.history-keep-seconds": "history_keep",
    # When the log of a keyed table is synced: always, interval or never.
    "moulin.log-sync": "log_sync",
    # How many of the files that Iceberg engines commit are read and checked: all, sample or manifest.
    "moulin.verify": "iceberg_verify",
    # Size at which a memtable of a keyed table is flushed.
    "moulin.memtable-bytes": "memtable_bytes",
    # Number of level-0 segments at which the writer of a keyed table compacts them.
    "moulin.level0-trigger": "level0_trigger",
    # Size of level 1 above which segments move on to level 2.
    "moulin.level1-bytes": "level1_bytes",
    # How many times larger each level may be than the one before it.
    "moulin.level-growth": "level_growth",
    # The last level.
    "moulin.deepest-level": "deepest_level",
}
OWN = (*KNOWN, RETENTION, MERGE_SPAN, SHARDING, PROJECTION, REBASE_APPENDS, regions.PROPERTY)


def check_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties as text; InvalidInput names one that is unknown or does not fit."""
    checked = {}
    for key, value in properties.items():
        if not isinstance(key, str) or not key.strip():
            raise InvalidInput(f"A property's name is text, not {key!r}.")
        if not isinstance(value, str | int | float):
            raise InvalidInput(f"Property {key!r} takes text or a number, not {value!r}.")
        if key.startswith(PREFIX):
            if key == regions.PROPERTY or check_setting(key, str(value)):
                checked[key] = str(value)
                continue
            if key not in KNOWN:
                raise InvalidInput(
                    f"Unknown property {key!r}.{did_you_mean(key, OWN)} Names with {PREFIX!r} are Moulin's own: "
                    f"{', '.join(OWN)}."
                )
            Config().replace(**{KNOWN[key]: value})
        elif (own := _misspelt(key)) is not None:
            raise InvalidInput(f"Property {key!r} would have no effect. Did you mean {own!r}?")
        else:
            check_file_property(key, str(value), properties)
        checked[key] = str(value)
    return checked


def _misspelt(key: str) -> str | None:
    """The property of Moulin that a name certainly means. Single words such as `regions` are not reserved."""
    plain = key.lower().replace("_", "-").removeprefix(PREFIX)
    return next((own for own in OWN if own.removeprefix(PREFIX) == plain and "-" in plain), None)


def effective(config: Config, properties: Mapping[str, str]) -> Config:
    """The configuration with what the table's properties override.

    `write.target-file-size-bytes` stands for the sizes of appended and of compacted segments; the properties for one of
    the two alone go before it.
    """
    target = target_bytes(properties)
    sizes: dict[str, Any] = {} if target is None else {"append_segment_bytes": target, "merge_segment_bytes": target}
    own = sizes | {name: properties[key] for key, name in KNOWN.items() if key in properties}
    return config.replace(**own) if own else config


def append_bytes(properties: Mapping[str, str]) -> int | None:
    """How large segments of appended rows become, where the table says so itself."""
    asked = "moulin.append-segment-bytes" in properties or target_bytes(properties) is not None
    return effective(Config(), properties).append_segment_bytes if asked else None
