"""daft as a client of the REST catalog: `python daft_client.py ADDRESS`.

Runs in an environment of its own: daft takes no pyarrow as new as Moulin's. Prints JSON: an answer for each step.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any


def frame(*rows: tuple[int, str | None, float | None]) -> Any:
    import daft
    import pyarrow as pa

    ids, regions, amounts = (list(values) for values in zip(*rows, strict=True))
    stamps = pa.array([datetime(2024, 3, 1 + n % 28, tzinfo=UTC) for n in ids], pa.timestamp("us", "UTC"))
    columns = {"id": pa.array(ids, pa.int64()), "ts": stamps, "region": pa.array(regions, pa.string())}
    return daft.from_arrow(pa.table({**columns, "amount": pa.array(amounts, pa.float64())}))


def main(address: str) -> None:
    import daft
    from daft.catalog import Catalog
    from pyiceberg.catalog.rest import RestCatalog

    catalog = RestCatalog("lake", uri=address)

    def ids(name: str, where: Any = None) -> list[int]:
        found = daft.read_iceberg(catalog.load_table(name))
        return sorted((found if where is None else found.where(where)).to_pydict()["id"])

    def write(name: str, mode: str, *rows: tuple[int, str | None, float | None]) -> list[str]:
        done = frame(*rows).write_iceberg(catalog.load_table(name), mode=mode).to_pydict()
        return sorted(done["operation"])

    def refused(name: str) -> str:
        try:
            return f"not refused: {write(name, 'append', (1, 'eu', 1.0))}"
        except Exception as error:  # noqa: BLE001 - whatever daft makes of the answer
            return str(error)

    answers: dict[str, Any] = {}
    for name in ("shop.plain", "shop.parted"):
        answers[name] = {
            "read": ids(name),
            "filtered": ids(name, daft.col("region") == "us"),
            "append": write(name, "append", (100, "us", 1.5), (101, None, None), (102, "eu", 0.0)),
            "appended": ids(name),
            "counted": daft.read_iceberg(catalog.load_table(name)).count_rows(),
        }
    answers["overwrite"] = write("shop.parted", "overwrite", (7, "eu", 1.0), (8, "us", 2.0))
    answers["overwritten"] = ids("shop.parted")
    answers["keyed"] = refused("shop.keyed")
    theirs = Catalog.from_iceberg(catalog)
    rows = frame((1, "eu", None), (2, None, 2.5))
    theirs.create_table("shop.made", rows.schema()).append(rows)
    answers["made"] = sorted(theirs.get_table("shop.made").read().to_pydict()["id"])
    sys.stdout.write(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
