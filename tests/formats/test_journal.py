from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats import journal
from moulin.formats.journal import Journal, JournalEntry, JournalSet, encode_journal, follow, pack

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "journal.md"

Address = tuple[int, int]
GONE: Address = (-1, -1)
Model = dict[Address, Address]


def entry(segment: int, start: int, addresses: list[int], vector_id: int = 0) -> JournalEntry:
    return JournalEntry(segment, vector_id, start, np.array(addresses, dtype=np.int64))


def example() -> bytes:
    """Segment 7, read with vector 3, and segment 9 go into segments 12 and 13; row 1 of segment 7 is dropped."""
    first = np.array([*pack(0, np.array([0])), -1, *pack(0, np.array([2])), *pack(1, np.array([0]))])
    return encode_journal([12, 13], [JournalEntry(7, 3, 0, first), JournalEntry(9, 0, 100, pack(0, np.array([1])))])


def merge(
    rng: np.random.Generator, inputs: dict[int, int], first_output: int, tasks: int, dropped: float
) -> tuple[JournalSet, Model, dict[int, int]]:
    """A compaction of whole inputs {segment: rows} in any order: its journals, what they must say, and its outputs."""
    cuts = {
        segment: np.sort([0, rows, *rng.integers(0, rows + 1, tasks - 1)]).tolist() for segment, rows in inputs.items()
    }
    journals, model, outputs = [], Model(), dict[int, int]()
    for task in range(tasks):
        numbers = [first_output + 2 * task, first_output + 2 * task + 1]
        slices = {segment: range(*cuts[segment][task : task + 2]) for segment in inputs}
        kept = [(s, position) for s, part in slices.items() for position in part if rng.random() >= dropped]
        split, addresses = int(rng.integers(0, len(kept) + 1)), dict[Address, int]()
        for i, at in enumerate(rng.permutation(len(kept))):
            output, position = (0, i) if i < split else (1, i - split)
            addresses[kept[at]] = output << 40 | position
            model[kept[at]] = (numbers[output], position)
        outputs |= {numbers[0]: split, numbers[1]: len(kept) - split}
        entries = [
            entry(segment, part.start, [addresses.get((segment, position), -1) for position in part], 100 + segment)
            for segment, part in slices.items()
        ]
        journals.append(Journal.decode(encode_journal(numbers, entries[::-1])))
    return JournalSet(journals), model, {number: rows for number, rows in outputs.items() if rows}


def asked(found: tuple[np.ndarray, np.ndarray]) -> list[Address]:
    assert found[0].dtype == found[1].dtype == np.int64
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def test_the_example_of_the_page_is_what_the_code_writes() -> None:
    block = PAGE.read_text().split("<!-- example -->")[1].split("```")[1]
    stored = bytes.fromhex("".join(line[:48] for line in block.strip().splitlines()))
    written = example()
    # The frames are those of one zstd release: another may write other bytes of the same meaning.
    header = struct.unpack("<I", stored[8:12])[0]
    assert stored[: header - 20] == written[: header - 20]
    for data in (stored, written):
        read = Journal.decode(data)
        assert read.outputs == (12, 13)
        assert asked(read.lookup(7, np.arange(4))) == [(12, 0), GONE, (12, 2), (13, 0)]
        assert asked(read.lookup(9, np.array([100]))) == [(12, 1)]
    unpacked = [bytes.fromhex(line) for line in PAGE.read_text().split("```")[3].strip().splitlines()]
    frames = stored[header : header + 25], stored[header + 25 :]
    codec = pa.Codec("zstd")
    assert [
        codec.decompress(frame, len(planes), asbytes=True) for frame, planes in zip(frames, unpacked, strict=True)
    ] == unpacked


def test_a_journal_says_what_it_covers() -> None:
    read = Journal.decode(example())
    assert read.segments() == [7, 9]
    assert (read.vector_id(7), read.vector_id(9)) == (3, 0)
    assert (read.coverage(7), read.coverage(9)) == ([(0, 4)], [(100, 101)])
    read.verify()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.integers(0, 50), st.integers(0, 40), min_size=1, max_size=4),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 2**32),
)
def test_a_compaction_in_slices_is_found_as_in_a_dict(
    inputs: dict[int, int], tasks: int, dropped: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    journals, model, _ = merge(rng, inputs, 100, tasks, dropped)
    assert journals.segments() == sorted(segment for segment, rows in inputs.items() if rows)
    for segment in journals.segments():
        assert journals.coverage(segment) == [(0, inputs[segment])]
        assert journals.vector_id(segment) == 100 + segment
        positions = rng.integers(0, inputs[segment], 30)
        expected = [model.get((segment, int(position)), GONE) for position in positions]
        assert asked(journals.lookup(segment, positions)) == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32))
def test_positions_are_carried_through_compactions_of_compactions(merges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    live = {segment: int(rng.integers(1, 30)) for segment in range(1, 6)}
    first = dict(live)
    where = {(segment, position): (segment, position) for segment, rows in first.items() for position in range(rows)}
    chain = []
    for number in range(merges):
        chosen = {segment: rows for segment, rows in live.items() if rng.random() < 0.7}
        journals, model, outputs = merge(rng, chosen, 100 * (number + 1), int(rng.integers(1, 3)), 0.2)
        chain.append(journals)
        for start, (segment, position) in where.items():
            if segment in chosen:
                where[start] = model.get((segment, position), GONE)
        live = {segment: rows for segment, rows in live.items() if segment not in chosen} | outputs
    for segment, rows in first.items():
        found = asked(follow(chain, segment, np.arange(rows)))
        assert found == [where[segment, position] for position in range(rows)]


def test_a_chain_of_no_compactions_leaves_rows_where_they_are() -> None:
    positions = np.array([5, 1])
    segments, places = follow([], 4, positions)
    assert asked((segments, places)) == [(4, 5), (4, 1)]
    places[0] = 0
    assert positions[0] == 5


def test_many_chunks_are_found_and_only_the_needed_ones_are_decoded() -> None:
    rows = 2 * journal.CHUNK_ROWS + 10
    rng = np.random.default_rng(5)
    addresses = rng.permutation(rows).astype(np.int64)
    addresses[rng.random(rows) < 0.1] = -1
    data = bytearray(encode_journal([3], [entry(1, 50, addresses.tolist()), entry(2, 0, [rows])]))
    read = Journal.decode(bytes(data))
    positions = rng.integers(0, rows, 1_000)
    out_segment, out_position = read.lookup(1, positions + 50)
    assert np.array_equal(out_position, addresses[positions])
    assert np.array_equal(out_segment, np.where(addresses[positions] < 0, -1, 3))

    data[-len(data) // 3] ^= 1
    damaged = Journal.decode(bytes(data))
    assert asked(damaged.lookup(2, np.array([0]))) == [(3, rows)]
    assert asked(damaged.lookup(1, np.array([50]))) == asked(read.lookup(1, np.array([50])))
    with pytest.raises(Corrupt, match="chunk 1 at offset"):
        damaged.lookup(1, np.array([50 + journal.CHUNK_ROWS]))
    with pytest.raises(Corrupt, match="chunk 1 at offset"):
        damaged.verify()


def test_the_largest_addresses_are_kept() -> None:
    outputs = list(range(journal.MAX_OUTPUTS))
    addresses = [*pack(journal.MAX_OUTPUTS - 1, np.array([2**40 - 1])).tolist(), 0, -1]
    read = Journal.decode(encode_journal(outputs, [entry(2**63 - 1, 2**40 - 3, addresses, 2**63 - 1)]))
    found = read.lookup(2**63 - 1, np.arange(2**40 - 3, 2**40))
    assert asked(found) == [(journal.MAX_OUTPUTS - 1, 2**40 - 1), (0, 0), GONE]
    assert read.vector_id(2**63 - 1) == 2**63 - 1


def test_positions_that_are_not_covered_are_refused() -> None:
    read = Journal.decode(encode_journal([5], [entry(1, 10, [0, 1]), entry(1, 20, [2])]))
    assert read.coverage(1) == [(10, 12), (20, 21)]
    for position in (0, 9, 12, 19, 21, -1):
        with pytest.raises(InvalidInput, match=f"Position {position} of segment 1 is not covered"):
            read.lookup(1, np.array([10, position]))
    with pytest.raises(InvalidInput, match="Segment 2 is not an input"):
        read.lookup(2, np.array([0]))
    with pytest.raises(InvalidInput, match="integers"):
        read.lookup(1, np.array([10.0]))
    assert asked(read.lookup(1, np.array([], dtype=np.int64))) == []


def test_a_compaction_without_outputs_drops_everything() -> None:
    read = Journal.decode(encode_journal([], [entry(1, 0, [-1, -1])]))
    assert read.outputs == ()
    assert asked(read.lookup(1, np.array([1, 0]))) == [GONE, GONE]


def test_a_compaction_without_inputs_covers_nothing() -> None:
    read = Journal.decode(encode_journal([4], [entry(1, 0, [])]))
    assert read.segments() == []
    assert JournalSet([]).segments() == []
    assert JournalSet([read]).outputs == (4,)


UNWRITABLE = {
    "outputs that repeat": ([1, 1], []),
    "a negative output": ([-1], []),
    "an output of 2**63": ([2**63], []),
    "a negative segment": ([1], [entry(-1, 0, [0])]),
    "a negative vector": ([1], [entry(1, 0, [0], -1)]),
    "a negative start": ([1], [entry(1, -1, [0])]),
    "a start of 2**40": ([1], [entry(1, 2**40, [0])]),
    "a stop past 2**40": ([1], [entry(1, 2**40 - 1, [0, 1])]),
    "slices that overlap": ([1], [entry(1, 0, [0, 1]), entry(1, 1, [2])]),
    "a slice given twice": ([1], [entry(1, 0, [0]), entry(1, 0, [1])]),
    "two vectors of one input": ([1], [entry(1, 0, [0], 5), entry(1, 1, [1], 6)]),
    "an address in no output": ([1], [entry(1, 0, [1 << 40])]),
    "an address below -1": ([1], [entry(1, 0, [-2])]),
    "two rows at one address": ([1], [entry(1, 0, [3, -1, 3])]),
    "addresses that are no integers": ([1], [JournalEntry(1, 0, 0, np.array([0.5]))]),
}


@pytest.mark.parametrize("what", UNWRITABLE)
def test_what_makes_no_journal_is_refused(what: str) -> None:
    with pytest.raises(InvalidInput):
        encode_journal(*UNWRITABLE[what])


@pytest.mark.parametrize(("output", "position"), [(-1, 0), (journal.MAX_OUTPUTS, 0), (0, -1), (0, 2**40)])
def test_what_fits_no_address_is_refused(output: int, position: int) -> None:
    with pytest.raises(InvalidInput):
        pack(output, np.array([position]))


def test_journals_of_different_compactions_are_refused_as_a_set() -> None:
    first = Journal.decode(encode_journal([5], [entry(1, 0, [0, 1], 8)]))
    overlapping = Journal.decode(encode_journal([6], [entry(1, 1, [0], 8)]))
    other_vector = Journal.decode(encode_journal([6], [entry(1, 2, [0], 9)]))
    with pytest.raises(InvalidInput, match="position 1 of segment 1 is covered twice"):
        JournalSet([first, overlapping])
    with pytest.raises(InvalidInput, match="vectors 8 and 9"):
        JournalSet([first, other_vector])


def test_every_flipped_byte_every_cut_and_every_added_byte_is_refused() -> None:
    data = example()
    for at in range(len(data)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                Journal.decode(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]).verify()
        with pytest.raises(Corrupt):
            Journal.decode(data[:at])
    with pytest.raises(Corrupt):
        Journal.decode(data + b"\0")


def reseal(data: bytes) -> bytes:
    """The same bytes with a right header CRC, when the header has a place for it."""
    size = struct.unpack("<I", data[8:12])[0]
    if not 28 <= size <= len(data):
        return data
    return data[: size - 4] + struct.pack("<I", zlib.crc32(data[: size - 4])) + data[size:]


def test_a_newer_format_is_not_supported() -> None:
    data = example()
    with pytest.raises(Unsupported, match=r"x\.journal has format 2"):
        Journal.decode(reseal(data[:4] + struct.pack("<I", 2) + data[8:]), source="x.journal")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(4, 127), st.integers(0, 255)), min_size=1, max_size=3))
def test_a_forged_header_with_a_right_crc_crashes_nothing(changes: list[tuple[int, int]]) -> None:
    data = bytearray(example())
    for at, value in changes:
        data[at] = value
    try:
        read = Journal.decode(reseal(bytes(data)))
        read.verify()
    except (Corrupt, Unsupported):
        return
    for segment in read.segments():
        for start, stop in read.coverage(segment):
            out_segment, out_position = read.lookup(segment, np.arange(start, stop))
            assert set(out_segment.tolist()) <= {*read.outputs, -1}
            assert ((out_segment == -1) == (out_position == -1)).all()


FORGED_DELTAS = [
    (1, [-1]),
    (2, [5, -5]),
    (1, [-(2**63)]),
    (1, [(1 << 40) + 1]),
    (2, [2**63 - 1, 2]),
    (1, [1, 1]),
    (2, [1]),
]


@pytest.mark.parametrize(("rows", "deltas"), FORGED_DELTAS)
def test_a_forged_chunk_with_right_crcs_is_refused(rows: int, deltas: list[int]) -> None:
    data = encode_journal([1], [entry(1, 0, list(range(rows)))])
    header = struct.unpack("<I", data[8:12])[0]
    planes = np.array(deltas, dtype="<i8").view(np.uint8).reshape(-1, 8).T.tobytes()
    body = pa.Codec("zstd").compress(planes, asbytes=True)
    index = struct.pack("<II", len(body), zlib.crc32(body))
    with pytest.raises(Corrupt, match="chunk 0"):
        Journal.decode(reseal(data[: header - 12] + index + bytes(4) + body)).verify()
