"""Lake: the front door, thin. Each module has the calls about one subject; `Lake` is all of them.

Rooms: `handle` holds the catalog and the storage, `queries` asks Spark and DuckDB, `branches` makes and publishes
branches, `objects` has databases, base paths and tables, `views` has views; `lake` opens them all. `address` finds
the catalog, the storage and the settings of an address.

May import: all layers from `moulin.table` down; Spark, DuckDB and Iceberg come from the entry point, as ports.
Read first: `lake.py`.
"""

from moulin.lake.address import locate, locate_replica
from moulin.lake.lake import Lake

__all__ = ["Lake", "locate", "locate_replica"]
