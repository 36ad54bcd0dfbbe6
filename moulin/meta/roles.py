"""Roles of callers. Each includes the ones before it."""

from __future__ import annotations

from moulin.network.callers import Role as Role

# Calls of CatalogService that only look. A pin binds nobody but clean-up and runs out by itself: readers take them.
CATALOG_READS = (
    "GetLake", "ListDatabases", "GetDatabase", "PreviewDropDatabase", "ListTables", "LoadTable", "GetTableEntry",
    "ListViews", "GetView", "FindCommit", "GetVersion", "GetVersionAt", "GetHeadVersion", "ListHistory",
    "ListSequenceVersions", "ListBirthVersions", "ListSegments", "ListPartitions", "GetSegments", "CountRows",
    "ListMerges", "LoadTableUntil", "ListChangedVersions", "ListChanges", "Pin", "RenewPin", "Unpin", "ListRegions",
    "GetRegionEpoch", "ListMergeTasks", "GetMergeTask", "ListHeldInputs", "ListIndexes", "ListIndexCoverage",
    "GetWrittenBytes", "GetPublishedVersion", "GetStreams", "ListClaimedTables", "ListBranches",
    "GetBranch", "ListBranchTables", "ListBases", "ListKnownPaths",
)  # fmt: skip
