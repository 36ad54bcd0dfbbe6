"""Load a day, find a mistake, correct it, compare with what it was."""

from __future__ import annotations

import sys

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
lake.create_database("sensors", if_not_exists=True)
readings = lake.create_table(
    "sensors.readings",
    [("sensor", "string", False), ("at", "timestamptz", False), ("celsius", "double")],
    partition_by=["day(at)"],
    event_time="at",
)

readings.append(
    [
        {"sensor": "roof", "at": "2024-03-01T10:00:00Z", "celsius": 8.5},
        {"sensor": "roof", "at": "2024-03-01T11:00:00Z", "celsius": 850.0},
        {"sensor": "cellar", "at": "2024-03-01T10:00:00Z", "celsius": 12.0},
    ]
)
wrong = readings.version

readings.overwrite(
    [{"sensor": "roof", "at": "2024-03-01T11:00:00Z", "celsius": 8.5}],
    where="sensor = 'roof' and celsius > 100",
)

hottest = max(readings.scan(columns=["celsius"]).to_arrow().column("celsius").to_pylist())
before = max(readings.at(version=wrong).scan(columns=["celsius"]).to_arrow().column("celsius").to_pylist())
print(f"hottest: {hottest} now, {before} at version {wrong}")
lake.close()
