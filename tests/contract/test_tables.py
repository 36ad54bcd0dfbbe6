"""Tables: names, state at a version, history, settings, drops. Rule numbers are those of the meta service."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import TableCommit
from moulin.config import DAY, Config
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.model.ids import new_id
from moulin.model.operations import AlterSchema, Append, Delete, Kind, Restore, SetPartitioning, SetProperties
from moulin.model.schema.change import AddColumn, DropColumn, RenameColumn
from tests.contract.conftest import Backend, HandClock
from tests.contract.samples import commit, live, make_table, new_table, segment, vector


def names(catalog: Catalog, database: str = "d", **options: bool) -> list[str]:
    return [table.name for table in catalog.tables(database, **options)]


def test_create_gives_an_empty_table(catalog: Catalog, clock: HandClock) -> None:
    """TB-01, TB-06"""
    state = make_table(catalog, "t", "d", partition_by=["day(ts)"], properties={"a": "b"})
    version = catalog.version()
    assert (state.full_name, state.version, state.head_version, state.created_version) == (
        "d.t",
        version,
        version,
        version,
    )
    assert [field.name for field in state.schema.fields] == ["id", "ts", "region"]
    assert [field.name for field in state.spec.fields] == ["ts_day"]
    assert state.properties == {"a": "b"}
    assert (state.last_sequence, state.next_row_id, state.event_time) == (0, 0, 2)
    assert catalog.segments(state.id, version) == []
    entry = catalog.table_entry(state.id)
    assert (entry.segments, entry.rows, entry.bytes, entry.tombstone) == (0, 0, 0, None)
    assert catalog.table("d", "t") == state


def test_names_are_unique_in_a_database_only(catalog: Catalog) -> None:
    """TB-02, TB-03, VW-19"""
    first = make_table(catalog, "t", "d")
    assert make_table(catalog, "t", "e").id != first.id
    assert make_table(catalog, "T", "d").id != first.id
    with pytest.raises(AlreadyExists, match=r"d\.t"):
        catalog.create_table("d", "t", new_table())
    with pytest.raises(InvalidInput):
        catalog.create_table("d", "a..b", new_table())
    assert names(catalog) == ["T", "t"]


def test_tables_and_views_share_their_names(catalog: Catalog) -> None:
    """TB-04, VW-05"""
    make_table(catalog, "t")
    catalog.create_view("d", "v", ["t"])
    with pytest.raises(AlreadyExists, match="View"):
        catalog.create_table("d", "v", new_table())
    with pytest.raises(AlreadyExists, match="Table"):
        catalog.create_view("d", "t", ["t"])
    with pytest.raises(AlreadyExists):
        catalog.rename_table("d", "t", "d", "v")
    with pytest.raises(AlreadyExists):
        catalog.rename_view("d", "v", "t")


def test_a_table_and_a_view_created_at_once_do_not_both_get_the_name(catalog: Catalog) -> None:
    """TB-05"""
    make_table(catalog, "t")

    def make(round_: int, view: bool) -> bool:
        try:
            if view:
                catalog.create_view("d", f"x{round_}", ["t"])
            else:
                catalog.create_table("d", f"x{round_}", new_table())
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for round_ in range(5):
            made = list(pool.map(make, [round_] * 4, [True, False, True, False]))
            assert sum(made) == 1


def test_unknown_ones_are_not_found(catalog: Catalog) -> None:
    make_table(catalog, "t")
    for call in (
        lambda: catalog.table("d", "nothing"),
        lambda: catalog.table("e", "t"),
        lambda: catalog.table_by_id(new_id()),
        lambda: catalog.table_entry(new_id()),
        lambda: catalog.segments(new_id(), 1),
        lambda: catalog.count_rows(new_id(), 1),
        lambda: catalog.history(new_id()),
        lambda: catalog.drop_table("d", "nothing"),
        lambda: catalog.resurrect_table("d", "nothing"),
        lambda: catalog.rename_table("d", "nothing", "d", "x"),
        lambda: catalog.pin(new_id(), 1),
        lambda: commit(catalog, new_id(), Append()),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_rename_keeps_id_versions_and_rows(catalog: Catalog) -> None:
    state = make_table(catalog, "t", "d")
    catalog.create_database("e")
    added = segment(catalog, state.id)
    version = commit(catalog, state.id, Append(added=(added,))).version
    moved = catalog.rename_table("d", "t", "e", "u")
    assert (moved.id, moved.full_name, moved.version) == (state.id, "e.u", catalog.version())
    assert live(catalog, state.id, version) == {added.number: 10}
    assert catalog.table("e", "u", version).head_version == version
    assert names(catalog, "d") == []
    before = catalog.version()
    assert catalog.rename_table("e", "u", "e", "u").version == before
    with pytest.raises(NotFound):
        catalog.rename_table("e", "u", "nowhere", "u")


def test_a_replacement_takes_the_name_and_drops_the_other_in_one_version(catalog: Catalog) -> None:
    old = make_table(catalog, "t", "d")
    new = catalog.create_table("d", "fresh", new_table())
    added = segment(catalog, new.id)
    commit(catalog, new.id, Append(added=(added,)))
    before = catalog.version()
    placed = catalog.replace_table("d", "t", "fresh")
    assert (placed.id, placed.full_name, placed.version) == (new.id, "d.t", before + 1)
    assert (names(catalog), catalog.version()) == (["t"], before + 1)
    assert live(catalog, new.id, before + 1) == {added.number: 10}
    catalog.rename_table("d", "t", "d", "later")
    assert catalog.resurrect_table("d", "t").id == old.id
    assert catalog.replace_table("d", "u", "later").full_name == "d.u"
    assert sorted(names(catalog)) == ["t", "u"]


def test_a_replacement_that_is_refused_changes_nothing(catalog: Catalog) -> None:
    make_table(catalog, "t", "d")
    catalog.create_table("d", "fresh", new_table())
    catalog.create_view("d", "v", ["t"])
    before = catalog.version()
    with pytest.raises(FailedPrecondition, match="view v"):
        catalog.replace_table("d", "t", "fresh")
    with pytest.raises(AlreadyExists, match="View"):
        catalog.replace_table("d", "v", "fresh")
    with pytest.raises(NotFound):
        catalog.replace_table("d", "t", "nothing")
    assert catalog.replace_table("d", "t", "t").full_name == "d.t"
    assert (sorted(names(catalog)), catalog.version()) == (["fresh", "t"], before)


def test_a_member_of_a_view_stays_in_its_database(catalog: Catalog) -> None:
    make_table(catalog, "t", "d")
    catalog.create_database("e")
    catalog.create_view("d", "v", ["t"])
    assert catalog.rename_table("d", "t", "d", "u").name == "u"
    assert [m.name for m in catalog.view("d", "v").members] == ["u"]
    with pytest.raises(FailedPrecondition, match="view v"):
        catalog.rename_table("d", "u", "e", "u")


def test_every_version_has_the_schema_and_properties_of_its_time(catalog: Catalog) -> None:
    state = make_table(catalog, properties={"a": "1"})
    created = catalog.version()
    added = commit(catalog, state.id, AlterSchema((AddColumn("note", "string"),))).version  # type: ignore[arg-type]
    changed = commit(catalog, state.id, SetProperties({"b": "2"}, ("a",))).version
    split = commit(catalog, state.id, SetPartitioning(("bucket(4, id)",))).version
    renamed = commit(catalog, state.id, AlterSchema((RenameColumn("note", "remark"),))).version
    at = {version: catalog.table("d", "t", version) for version in (created, added, changed, split, renamed)}
    assert [f.name for f in at[created].schema.fields] == ["id", "ts", "region"]
    assert [f.name for f in at[split].schema.fields] == ["id", "ts", "region", "note"]
    assert [f.name for f in at[renamed].schema.fields] == ["id", "ts", "region", "remark"]
    assert at[added].schema.find_field("note").field_id == at[renamed].schema.find_field("remark").field_id
    assert [at[v].properties for v in at] == [{"a": "1"}, {"a": "1"}, {"b": "2"}, {"b": "2"}, {"b": "2"}]
    assert [len(at[v].spec.fields) for v in at] == [0, 0, 0, 1, 1]
    assert [at[v].head_version for v in at] == list(at)
    assert catalog.table("d", "t") == at[renamed]
    between = make_table(catalog, "other").version
    assert catalog.table("d", "t", between).head_version == renamed


def test_field_ids_are_never_reused(catalog: Catalog) -> None:
    state = make_table(catalog)
    for _ in range(2):
        commit(catalog, state.id, AlterSchema((AddColumn("x", "int"),)))  # type: ignore[arg-type]
        commit(catalog, state.id, AlterSchema((DropColumn("x"),)))
    commit(catalog, state.id, AlterSchema((AddColumn("x", "int"),)))  # type: ignore[arg-type]
    assert catalog.table("d", "t").schema.find_field("x").field_id == 6
    commit(catalog, state.id, Restore(state.version))
    commit(catalog, state.id, AlterSchema((AddColumn("x", "int"),)))  # type: ignore[arg-type]
    assert catalog.table("d", "t").schema.find_field("x").field_id == 7
    assert len(catalog.table("d", "t").schemas) == 7


def test_columns_in_use_stay(catalog: Catalog) -> None:
    state = make_table(catalog, partition_by=["region"])
    for column in ("region", "ts"):
        with pytest.raises(FailedPrecondition, match="partitioning|event time|sort order"):
            commit(catalog, state.id, AlterSchema((DropColumn(column),)))
    with pytest.raises(NotFound, match="nothing"):
        commit(catalog, state.id, SetPartitioning(("day(nothing)",)))
    with pytest.raises(InvalidInput):
        commit(catalog, state.id, SetPartitioning(("day(id)",)))
    assert catalog.table("d", "t") == state


def test_versions_that_cannot_be_read_are_not_found(catalog: Catalog) -> None:
    catalog.create_database("d")
    before = catalog.version()
    state = make_table(catalog)
    for version, why in ((before, "created at version"), (catalog.version() + 1, "does not exist yet")):
        for call in (
            lambda v: catalog.table("d", "t", v),
            lambda v: catalog.table_by_id(state.id, v),
            lambda v: catalog.segments(state.id, v),
            lambda v: catalog.count_rows(state.id, v),
            lambda v: catalog.pin(state.id, v),
            lambda v: commit(catalog, state.id, Restore(v)),
        ):
            with pytest.raises(NotFound, match=why):
                call(version)


def test_specs_change_while_old_segments_keep_theirs(catalog: Catalog) -> None:
    state = make_table(catalog, partition_by=["region"])
    old = segment(catalog, state.id, partition=(b"eu",))
    commit(catalog, state.id, Append(added=(old,)))
    commit(catalog, state.id, SetPartitioning(("bucket(4, id)", "region")))
    spec_id = catalog.table("d", "t").spec_id
    assert spec_id == 1
    new = segment(catalog, state.id, spec_id=spec_id, partition=(b"\1\0\0\0", None))
    version = commit(catalog, state.id, Append(added=(new,))).version
    found = catalog.segments(state.id, version)
    assert [(s.facts.spec_id, s.facts.partition) for s in found] == [(0, (b"eu",)), (1, (b"\1\0\0\0", None))]
    commit(catalog, state.id, SetPartitioning(("region",)))
    again = catalog.table("d", "t")
    assert again.spec_id == 0, "the same partitioning again is the same spec"
    assert [f.field_id for f in again.specs[1].fields if f.name == "region"] == [1000], "and the same field its id"


def test_history_tells_what_happened(catalog: Catalog, clock: HandClock) -> None:
    state = make_table(catalog)
    clock.forward(1)
    first = segment(catalog, state.id, rows=10)
    appended = commit(catalog, state.id, Append(added=(first,)))
    clock.forward(1)
    deleted = commit(catalog, state.id, Delete(vectors=(vector(state.id, first.number, 4),)))
    commit(catalog, state.id, SetProperties({"a": "b"}))
    make_table(catalog, "other")
    history = catalog.history(state.id)
    assert [c.kind for c in history] == [Kind.SET_PROPERTIES, Kind.DELETE, Kind.APPEND, "create"]
    assert [c.version for c in history][1:3] == [deleted.version, appended.version]
    assert [c.timestamp_ns for c in history][1:3] == [deleted.timestamp_ns, appended.timestamp_ns]
    assert history[2].summary == {"added-data-files": "1", "added-records": "10", "added-files-size": "1000"}
    assert history[1].summary == {"deleted-records": "4", "changed-deletion-vectors": "1"}
    assert (history[2].first_row_id, history[2].added_rows) == (0, 10)
    assert len({c.snapshot_id for c in history}) == 4
    assert catalog.history(state.id, limit=2) == history[:2]


def test_callers_add_to_the_summary(catalog: Catalog) -> None:
    state = make_table(catalog)
    catalog.commit([TableCommit(state.id, catalog.version(), SetProperties({"a": "b"}), {"by": "ann"})])
    assert catalog.history(state.id)[0].summary["by"] == "ann"


def test_a_time_finds_the_version_of_that_time(catalog: Catalog, clock: HandClock) -> None:
    start = clock.now
    versions = []
    for name in ("a", "b", "c"):
        clock.forward(10)
        catalog.create_database(name)
        versions.append(catalog.version())
    assert catalog.version_at(start + 10 * 10**9) == versions[0]
    assert catalog.version_at(start + 25 * 10**9) == versions[1]
    assert catalog.version_at(start + 10**15) == versions[2]
    with pytest.raises(NotFound):
        catalog.version_at(start)


def test_stamps_rise_even_when_the_clock_falls(catalog: Catalog, clock: HandClock) -> None:
    state = make_table(catalog)
    stamps = []
    for seconds in (0, -100, 0, 50, 200):
        clock.forward(seconds)
        stamps.append(commit(catalog, state.id, SetProperties({"a": str(seconds)})).timestamp_ns)
    assert stamps == sorted(set(stamps))


def test_a_drop_leaves_a_tombstone(catalog: Catalog, clock: HandClock) -> None:
    """TB-18, TB-24, GEN-08"""
    state = make_table(catalog)
    dropped = catalog.drop_table("d", "t")
    assert dropped.tombstone is not None
    assert dropped.tombstone.delete_at - dropped.tombstone.tombstoned_at == DAY * 1e9
    assert names(catalog) == []
    assert names(catalog, include_dropped=True) == ["t"]
    for call in (
        lambda: catalog.table("d", "t"),
        lambda: catalog.table_by_id(state.id),
        lambda: catalog.segments(state.id, state.version),
        lambda: catalog.history(state.id),
        lambda: commit(catalog, state.id, SetProperties({"a": "b"})),
        lambda: commit(catalog, state.id, Append()),
    ):
        with pytest.raises(NotFound, match="drop|exist"):
            call()
    clock.forward(10)
    assert catalog.drop_table("d", "t") == dropped, "GEN-21: the first tombstone stays"


def test_an_immediate_drop_has_no_grace(catalog: Catalog) -> None:
    """TB-19"""
    make_table(catalog)
    tombstone = catalog.drop_table("d", "t", immediate=True).tombstone
    assert tombstone is not None
    assert tombstone.delete_at == tombstone.tombstoned_at
    with pytest.raises(FailedPrecondition, match="grace"):
        catalog.resurrect_table("d", "t")


def test_members_of_live_views_are_not_dropped(catalog: Catalog) -> None:
    """TB-11, TB-13, TB-14, TB-20, VW-15"""
    make_table(catalog, "t")
    catalog.create_view("d", "v", ["t"])
    catalog.create_view("d", "w", ["t"])
    for immediate in (False, True):
        with pytest.raises(FailedPrecondition, match="v, w"):
            catalog.drop_table("d", "t", immediate=immediate)
    catalog.drop_view("d", "v")
    catalog.drop_view("d", "w")
    assert catalog.drop_table("d", "t").tombstone is not None


def test_a_drop_and_a_view_of_it_at_once_leave_no_view_without_its_table(catalog: Catalog) -> None:
    """TB-21, GEN-25"""
    for round_ in range(5):
        make_table(catalog, f"t{round_}")

        def change(view: bool, round_: int = round_) -> None:
            try:
                if view:
                    catalog.create_view("d", f"v{round_}", [f"t{round_}"])
                else:
                    catalog.drop_table("d", f"t{round_}")
            except MoulinError:
                pass

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(change, (True, False)))
        alive = {table.id for table in catalog.tables("d")}
        assert all(member.id in alive for view in catalog.views("d") for member in view.members)


def test_resurrect_brings_everything_back(catalog: Catalog, clock: HandClock) -> None:
    """TB-22, TB-23"""
    state = make_table(catalog, properties={"a": "b"})
    added = segment(catalog, state.id)
    version = commit(catalog, state.id, Append(added=(added,))).version
    before = catalog.table("d", "t", version)
    catalog.drop_table("d", "t")
    clock.forward(DAY - 1)
    entry = catalog.resurrect_table("d", "t")
    assert (entry.id, entry.rows, entry.tombstone) == (state.id, 10, None)
    assert catalog.table("d", "t", version) == before
    assert live(catalog, state.id, version) == {added.number: 10}
    catalog.drop_table("d", "t")
    clock.forward(DAY + 1)
    with pytest.raises(FailedPrecondition, match="grace"):
        catalog.resurrect_table("d", "t")


@pytest.mark.parametrize("taker", ["table", "view"])
def test_a_taken_name_blocks_the_return(catalog: Catalog, taker: str) -> None:
    """TB-23, GEN-20"""
    state = make_table(catalog, "t")
    make_table(catalog, "u")
    catalog.drop_table("d", "t")
    if taker == "table":
        make_table(catalog, "t")
    else:
        catalog.create_view("d", "t", ["u"])
    with pytest.raises(AlreadyExists):
        catalog.resurrect_table("d", "t")
    if taker == "table":
        catalog.rename_table("d", "t", "d", "x")
    else:
        catalog.rename_view("d", "t", "x")
    assert catalog.resurrect_table("d", "t").id == state.id


def test_of_several_dropped_ones_the_last_comes_back(catalog: Catalog, clock: HandClock) -> None:
    """VW-20"""
    ids = []
    for _ in range(3):
        ids.append(make_table(catalog).id)
        clock.forward(1)
        catalog.drop_table("d", "t")
    assert catalog.resurrect_table("d", "t").id == ids[-1]
    assert len(catalog.tables("d", include_dropped=True)) == 3


def test_grace_windows_are_configuration(backend: Backend, clock: HandClock) -> None:
    """TB-09"""
    catalog = backend.open(backend.new_uri(), config=Config(table_grace=5.0), clock=clock)
    make_table(catalog)
    catalog.drop_table("d", "t")
    clock.forward(6)
    with pytest.raises(FailedPrecondition):
        catalog.resurrect_table("d", "t")
