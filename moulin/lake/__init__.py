"""Lake: the main class of the API. Each module has the methods for one subject; `Lake` combines them.

Modules: `handle` holds the catalog and the storage, `queries` uses Spark and DuckDB, `branches` creates and publishes
branches, `objects` has databases, base paths and tables, `views` has views; `lake` combines them. `address` resolves
the catalog, the storage and the settings of an address.

May import: all layers from `moulin.table` down; Spark, DuckDB and Iceberg are passed in by the entry point, as ports.
Read first: `lake.py`.
"""

from moulin.lake.address import locate, locate_replica
from moulin.lake.lake import Lake

__all__ = ["Lake", "locate", "locate_replica"]
