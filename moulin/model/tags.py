"""Named versions of a table, and statistics files that engines attach to snapshots: settings with a key of their own.

They are stored as table properties with reserved keys, so they are in manifests, replicas and every version. They are
hidden from users.
"""

# Decisions: docs/decisions/0111

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from moulin.errors import InvalidInput

REF_PREFIX: Final = "moulin.ref."
STATISTICS_PREFIX: Final = "moulin.statistics."
PARTITION_STATISTICS_PREFIX: Final = "moulin.partition-statistics."
FILLING_PREFIX: Final = "moulin.filling."
"""Of columns that are being filled: see `filling`."""
MIN_SNAPSHOTS: Final = "min-snapshots-to-keep"
MAX_SNAPSHOT_AGE: Final = "max-snapshot-age-ms"
MAX_REF_AGE: Final = "max-ref-age-ms"
REF_OPTIONS: Final = (MIN_SNAPSHOTS, MAX_SNAPSHOT_AGE, MAX_REF_AGE)
"""How long a ref and its snapshots are kept."""
EXPIRE_PREFIX: Final = "history.expire."
"""Of the properties that say so for main, and for refs that do not say it themselves."""
COMPUTED_PREFIX: Final = "moulin.computed."
"""Of columns that were filled, by field id: the expression, or nothing where there was none."""
QUARANTINE_PREFIX: Final = "moulin.quarantine."
"""Of files that proved other than a manifest said: behind it is the number of the segment, and the value says why."""
WRITER_PREFIX: Final = "moulin.writer."
"""Of writers whose files were read and found right: behind it is a digest, and the value says who that is."""
VERIFIED: Final = "moulin.verified-version"
"""Up to which version every file that was taken at its manifest's word has been read since."""
EXPIRED_PREFIX: Final = "moulin.expired-"
EXPIRED_BEFORE: Final = EXPIRED_PREFIX + "before"
"""The version before which clean-up need not keep any: an engine expired the snapshots of all of them."""
EXPIRED_SNAPSHOTS: Final = EXPIRED_PREFIX + "snapshots"
"""Ids of snapshots of later versions that an engine expired, with commas: they are no longer shown."""
LOCATION: Final = "moulin.location"
"""Where engines put files of a table, as one spelled it, when that is not the table's own folder."""
_INTERNAL = (
    EXPIRED_PREFIX,
    REF_PREFIX,
    STATISTICS_PREFIX,
    PARTITION_STATISTICS_PREFIX,
    FILLING_PREFIX,
    COMPUTED_PREFIX,
    QUARANTINE_PREFIX,
    WRITER_PREFIX,
)
_LONGEST = 255
_MOST = 2**53
TAG, BRANCH = "tag", "branch"
MAIN: Final = "main"


@dataclass(frozen=True, slots=True)
class Ref:
    """A name for one version. `options` is what Iceberg engines say of how long to keep it; clean-up does so."""

    name: str
    version: int
    kind: str = TAG
    options: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return REF_PREFIX + self.name

    def to_json(self) -> str:
        return json.dumps({"version": self.version, "type": self.kind, **self.options}, sort_keys=True)


def check_ref_name(name: object) -> str:
    """A name that a version may get."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST or not name.isprintable():
        raise InvalidInput(f"A tag's name must be printable text of at most {_LONGEST} characters, not {name!r}.")
    if name == MAIN:
        raise InvalidInput(f"{MAIN!r} is the name of the newest version: choose another one.")
    return name


def is_internal(key: str) -> bool:
    """Whether a property is hidden from users."""
    return key in (VERIFIED, LOCATION) or key.startswith(_INTERNAL)


def quarantined(properties: Mapping[str, str]) -> dict[int, str]:
    """Segments whose files proved wrong, by number, and why."""
    prefix = QUARANTINE_PREFIX
    found = {key.removeprefix(prefix): why for key, why in properties.items() if key.startswith(prefix)}
    return {int(number): why for number, why in found.items() if number.isdecimal()}


def trust_marks(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that list verified and quarantined files: copied together with the files."""
    return {key: text for key, text in properties.items() if key == VERIFIED or key.startswith(QUARANTINE_PREFIX)}


@dataclass(frozen=True, slots=True)
class ExpiredSnapshots:
    """Snapshots that engines expired: those of versions before one, and some by their ids."""

    before: int = 0
    ids: frozenset[int] = frozenset()

    @staticmethod
    def of(properties: Mapping[str, Any]) -> ExpiredSnapshots:
        before, ids = (str(properties.get(key, "")) for key in (EXPIRED_BEFORE, EXPIRED_SNAPSHOTS))
        numbers = frozenset(int(one) for one in ids.split(",") if one.isdecimal())
        return ExpiredSnapshots(int(before) if before.isdecimal() else 0, numbers)

    def has(self, snapshot_id: int, version: int) -> bool:
        """Whether the snapshot of a version is one of them."""
        return version < self.before or snapshot_id in self.ids

    def properties(self) -> dict[str, str]:
        ids = ",".join(map(str, sorted(self.ids)))
        return {EXPIRED_BEFORE: str(self.before), **({EXPIRED_SNAPSHOTS: ids} if ids else {})}


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that users see."""
    return {key: value for key, value in properties.items() if not is_internal(key)}


def refs_of(properties: Mapping[str, Any]) -> dict[str, Ref]:
    """The named versions of a table, by name."""
    found = (read_ref(key, str(value)) for key, value in properties.items() if key.startswith(REF_PREFIX))
    return {ref.name: ref for ref in sorted(found, key=lambda ref: ref.name)}


def read_ref(key: str, text: str) -> Ref:
    """The ref that a property holds."""
    name = check_ref_name(key.removeprefix(REF_PREFIX))
    try:
        document = json.loads(text)
        version, kind = document.pop("version"), document.pop("type")
    except (ValueError, LookupError, AttributeError, TypeError):
        raise InvalidInput(f"Property {key!r} is not a valid tag.") from None
    if not isinstance(version, int) or isinstance(version, bool) or kind not in (TAG, BRANCH):
        raise InvalidInput(f"Property {key!r} is not a valid tag.")
    return Ref(name, version, kind, document)


def kept_for(options: Mapping[str, object], properties: Mapping[str, Any], option: str) -> int | None:
    """What a ref with these options, or else its table, says of an option; None when neither says what makes sense."""
    for value in (options.get(option), properties.get(EXPIRE_PREFIX + option)):
        with suppress(ValueError):
            if value is not None and (number := int(str(value))) > 0:
                return min(number, _MOST)
    return None


def statistics_of(properties: Mapping[str, Any], prefix: str = STATISTICS_PREFIX) -> dict[int, dict[str, Any]]:
    """Statistics files by snapshot id, as Iceberg metadata has them; those of partitions have a prefix of their own."""
    return {
        int(key.removeprefix(prefix)): json.loads(str(value))
        for key, value in properties.items()
        if key.startswith(prefix)
    }


__all__ = [
    "BRANCH",
    "EXPIRED_BEFORE",
    "EXPIRED_SNAPSHOTS",
    "EXPIRE_PREFIX",
    "LOCATION",
    "MAIN",
    "MAX_REF_AGE",
    "MAX_SNAPSHOT_AGE",
    "MIN_SNAPSHOTS",
    "PARTITION_STATISTICS_PREFIX",
    "QUARANTINE_PREFIX",
    "REF_OPTIONS",
    "REF_PREFIX",
    "STATISTICS_PREFIX",
    "TAG",
    "VERIFIED",
    "WRITER_PREFIX",
    "Ref",
    "check_ref_name",
    "is_internal",
    "kept_for",
    "quarantined",
    "read_ref",
    "refs_of",
    "shown",
    "statistics_of",
    "trust_marks",
]
