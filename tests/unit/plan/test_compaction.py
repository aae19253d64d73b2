from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan import compaction
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from tests.unit.plan.states import state_of

MINOR, MAJOR = CompactionChoice.MINOR, CompactionChoice.MAJOR


def inserts(low: int, high: int, size: int = 10) -> dict[str, int]:
    return {f"delta_{i:07d}_{i:07d}_0000": size for i in range(low, high + 1)}


def plan(
    s: AcidState,
    choice: CompactionChoice = CompactionChoice.AUTO,
    *,
    can_hide: bool = True,
    **terms: Any,  # noqa: ANN401
) -> compaction.CompactionPlan | compaction.NoCompaction:
    return compaction.plan_compaction(
        s, choice, CompactionPolicy(), can_hide_until_commit=can_hide, **terms
    )


def planned(
    s: AcidState,
    choice: CompactionChoice,
    **terms: Any,  # noqa: ANN401
) -> compaction.CompactionPlan:
    found = plan(s, choice, **terms)
    assert isinstance(found, compaction.CompactionPlan)
    return found


@pytest.mark.promise("C4")
@pytest.mark.parametrize(("deltas", "fires"), [(9, False), (10, True), (11, True)])
def test_a_minor_compaction_is_planned_at_ten_deltas_not_at_nine(deltas: int, fires: bool) -> None:
    found = plan(
        state_of({"base_0000001": 10_000, **inserts(2, 1 + deltas)}, f"{1 + deltas}:MAX::")
    )
    assert isinstance(found, compaction.CompactionPlan) is fires
    if isinstance(found, compaction.CompactionPlan):
        assert not found.is_major
        assert [str(o) for o in found.outputs(TxnId(7))] == [
            f"delta_0000002_{1 + deltas:07d}_v0000007"
        ]


BASE, DELETES = {"base_0000001": 1000}, {"delete_delta_0000004_0000004_0000": 50}


@pytest.mark.parametrize(
    ("directories", "files", "choice", "replaced", "saved_rows"),
    [
        (BASE | inserts(2, 3), {}, MINOR, 2 - 1, 0),
        (BASE | inserts(2, 3) | DELETES, {}, MINOR, 3 - 2, 0),
        (BASE | inserts(2, 3), {}, MAJOR, 3 - 1, 0),
        (BASE | inserts(2, 3) | DELETES, {}, MAJOR, 4 - 1, 2 * 50),
        (inserts(1, 1), {"000000_0": 30}, MAJOR, 2 - 1, 0),
        (inserts(1, 1), {}, MAJOR, 0, 0),
    ],
)
def test_the_score_is_the_saved_opens_and_deleted_rows_per_byte_read(
    directories: dict[str, int],
    files: dict[str, int],
    choice: CompactionChoice,
    replaced: int,
    saved_rows: int,
) -> None:
    found = planned(state_of(directories | files, "4:MAX::"), choice)
    assert found.is_major is (choice is MAJOR)
    read = sum(n for name, n in directories.items() if found.is_major or name not in BASE)
    read += sum(files.values())
    assert found.bytes_in == read
    assert found.score == (replaced * compaction.OPEN_BYTES + saved_rows) / read


@pytest.mark.promise("C5")
@pytest.mark.parametrize(("size", "fires"), [(99, False), (100, True), (101, True)])
def test_a_major_compaction_is_planned_at_ten_percent_of_the_base(size: int, fires: bool) -> None:
    found = plan(state_of({"base_0000001": 1000, **inserts(2, 2, size)}, "2:MAX::"))
    assert isinstance(found, compaction.CompactionPlan) is fires
    if isinstance(found, compaction.CompactionPlan):
        assert found.is_major
        assert [str(o) for o in found.outputs(None)] == ["base_0000002"]


@pytest.mark.promise("C7")
def test_compaction_excludes_deltas_at_or_above_the_lowest_open_write_id() -> None:
    found = planned(state_of(inserts(1, 12), "12:5:5:"), MAJOR)
    assert found.high == 4
    assert [d.text for d in found.inputs] == list(inserts(1, 4))


def test_a_minor_compaction_of_inserts_and_deletes_is_major_if_results_cannot_be_hidden() -> None:
    both = {**inserts(1, 3), "delete_delta_0000002_0000002_0000": 5}
    s = state_of({"base_0000000": 1, **both}, "3:MAX::")
    hidden = planned(s, MINOR)
    assert [str(o) for o in hidden.outputs(TxnId(9))] == [
        "delete_delta_0000001_0000003_v0000009",
        "delta_0000001_0000003_v0000009",
    ]
    plain = planned(s, MINOR, can_hide=False)
    assert plain.is_major
    assert "would not become visible at once" in plain.why


@pytest.mark.promise("C13")
def test_tables_with_original_files_get_a_major_compaction() -> None:
    found = planned(
        state_of({**inserts(10000001, 10000002), "000000_0": 100}, "10000002:MAX::"),
        MINOR,
    )
    assert found.is_major
    assert "original files" in found.why


def test_deltas_with_loaded_files_get_a_major_compaction() -> None:
    # LOAD DATA puts files without ACID columns into a delta.
    loaded = {f"delta_{i:07d}_{i:07d}_0000/000000_0": 10 for i in (1, 2)}
    s = state_of(loaded, "2:MAX::")
    assert s.originals == ()
    found = planned(s, MINOR)
    assert found.is_major
    assert "do not store row IDs" in found.why


def test_a_minor_compaction_joins_two_deltas_of_one_kind() -> None:
    deletes = {f"delete_{name}": size for name, size in inserts(2, 3).items()}
    for directories in (inserts(1, 2), {"base_0000001": 9, **deletes}):
        found = planned(state_of(directories, "3:MAX::"), MINOR)
        assert len(found.inputs) == 2


@pytest.mark.parametrize(
    "directories",
    [{}, inserts(1, 1), {**inserts(1, 1), "delete_delta_0000001_0000001_0000": 3}],
)
def test_no_minor_compaction_is_planned_for_at_most_one_delta_and_one_delete_delta(
    directories: dict[str, int],
) -> None:
    assert isinstance(plan(state_of(directories, "1:MAX::"), MINOR), compaction.NoCompaction)


def test_a_base_without_deltas_needs_no_compaction() -> None:
    found = plan(state_of({"base_0000004": 50}, "4:MAX::"), MAJOR)
    assert found == compaction.NoCompaction(why="there is no delta")


def names(*texts: str) -> list[BaseName | DeltaName]:
    found = [parse_directory_name(text) for text in texts]
    return [name for name in found if name is not None]


def dead_major(files: dict[str, int] | None = None) -> compaction.CompactionPlan:
    """A compaction of write IDs 1 to 3, with deletes, whose base is `base_0000003`."""
    inputs = {**inserts(1, 3), "delete_delta_0000002_0000002_0000": 5}
    return planned(state_of({**inputs, **(files or {})}, "3:MAX::"), MAJOR)


@pytest.mark.parametrize(
    ("other", "is_beside"),
    [
        ("delta_0000001_0000005", True),
        ("delta_0000003_0000004", True),
        ("delta_0000001_0000003", False),  # covered
        ("delta_0000004_0000005", False),  # above
        ("delete_delta_0000001_0000005", False),  # deletes count once however often they are read
        ("base_0000005", False),  # covers it
    ],
)
def test_a_delta_that_begins_within_a_base_and_ends_above_it_is_read_beside_the_base(
    other: str, *, is_beside: bool
) -> None:
    assert bool(compaction.read_beside(dead_major(), names(*inserts(1, 3), other))) is is_beside
    assert bool(compaction.read_beside(dead_major({"000000_0": 7}), names(other))) is is_beside


WIDER = ("delta_0000001_0000005", "delete_delta_0000001_0000005")


@pytest.mark.parametrize(
    "present",
    [
        (*inserts(1, 3), "delete_delta_0000002_0000002_0000", *WIDER),  # nothing is cleaned yet
        WIDER,  # all of it is, and the wider ones hold it
        ("delta_0000003_0000005", *inserts(1, 3), "delete_delta_0000002_0000002_0000"),
    ],
)
def test_a_base_of_an_aborted_compaction_duplicates_rows_beside_a_wider_delta(
    present: tuple[str, ...],
) -> None:
    assert compaction.doubles_rows(dead_major(), names("base_0000003", *present))


@pytest.mark.parametrize(
    ("present", "replacing"),
    [
        (("base_0000006_v0000020", "base_0000005"), "base_0000006_v0000020"),
        (("base_0000005", "base_0000006_v0000020"), "base_0000006_v0000020"),
        (("base_0000006_v0000021",), None),
        (("base_0000006_v0000022",), None),
        (("base_0000006_v0000021", "base_0000005_v0000020"), "base_0000005_v0000020"),
        (("base_0000004", "base_0000003_v0000020"), None),
        (("base_0000007", "base_0000008", "base_0000009"), None),
        (("delta_0000005_0000006", "_base_0000006", "x"), None),
    ],
)
def test_a_visible_base_with_a_higher_write_id_replaces_a_compaction(
    present: tuple[str, ...], replacing: str | None
) -> None:
    """Transaction 21 is open, 22 is aborted; so are write IDs 7 and 8, and 9 is not given yet."""
    found = planned(state_of(inserts(1, 4), "4:MAX::"), MAJOR)
    txns = ValidTxnList(high_watermark=TxnId(30), open=(TxnId(21),), aborted=(TxnId(22),))
    now = ValidWriteIdList.parse("d.t:8:7:7:8")
    base = compaction.replacing_base(found, present, now, txns)
    assert (base and str(base)) == replacing


@pytest.mark.parametrize(
    ("missing", "present"),
    [
        ("the delta of write ID 1", ("delta_0000002_0000005", "delete_delta_0000001_0000005")),
        ("the deletes", ("delta_0000001_0000005",)),
        ("all deltas but one", ("delta_0000003_0000005", "delta_0000002_0000002_0000")),
    ],
)
def test_a_base_of_an_aborted_compaction_is_kept_if_any_of_its_inputs_is_missing(
    missing: str, present: tuple[str, ...]
) -> None:
    assert missing
    assert not compaction.doubles_rows(dead_major(), names("base_0000003", *present))


def test_a_base_of_an_aborted_compaction_is_kept_if_it_contains_original_files() -> None:
    inputs = (*inserts(1, 3), "delete_delta_0000002_0000002_0000")
    present = names("base_0000003", *inputs, *WIDER)
    assert not compaction.doubles_rows(dead_major({"000000_0": 7}), present)


@pytest.mark.parametrize(
    "other",
    [
        "delta_0000004_0000005",  # above it
        "delta_0000001_0000003",  # covered by it
        "delete_delta_0000001_0000005",  # deletes count once however often they are read
    ],
)
def test_a_base_of_an_aborted_compaction_is_kept_if_it_duplicates_no_rows(other: str) -> None:
    inputs = (*inserts(1, 3), "delete_delta_0000002_0000002_0000")
    assert not compaction.doubles_rows(dead_major(), names("base_0000003", *inputs, other))


def test_an_aborted_minor_compaction_duplicates_no_rows() -> None:
    found = planned(state_of(inserts(1, 3), "3:MAX::"), MINOR)
    assert not compaction.doubles_rows(found, names(*inserts(1, 3), "delta_0000001_0000005"))


def test_a_minor_compaction_of_deltas_of_one_write_id_becomes_major() -> None:
    """Hive 4 looks for deletes of rows of their own write ID in later statements only."""
    names = ("delta_0000001_0000001_0000", "delete_delta_0000001_0000001_0001")
    pair = dict.fromkeys(names, 10)
    write_ids = "2:MAX::"
    more = state_of({**pair, "delta_0000001_0000001_0001": 10}, write_ids)
    found = planned(more, MINOR)
    assert (found.is_major, "compares statement IDs" in found.why) == (True, True)
    assert isinstance(plan(state_of(pair, write_ids), MINOR), compaction.NoCompaction)
    wider = state_of({**pair, "delta_0000002_0000002_0000": 10}, write_ids)
    found = planned(wider, MINOR)
    assert not found.is_major


def test_a_minor_compaction_of_an_insert_only_table_is_hidden_or_becomes_major() -> None:
    """A reader of an older snapshot would see all rows of a wider delta."""
    kind = TransactionalKind.INSERT_ONLY
    s = state_of((f"{name}/000000_0" for name in inserts(1, 3)), kind=kind)
    hidden = planned(s, MINOR, kind=kind)
    assert hidden.hides
    assert [str(o) for o in hidden.outputs(TxnId(9))] == ["delta_0000001_0000003_v0000009"]
    whole = planned(s, MINOR, can_hide=False, kind=kind)
    assert (whole.is_major, whole.hides) == (True, False)
    assert "older snapshot" in whole.why
    assert [str(o) for o in whole.outputs(None)] == ["base_0000003"]


def test_a_minor_compaction_reads_only_deltas() -> None:
    for beside, kept in (({"base_0000002": 9}, {}), ({}, {"000000_0": 9})):
        s = state_of({**beside, **inserts(3, 5), **kept}, "5:MAX::")
        for choice, is_whole in ((MINOR, False), (MAJOR, True)):
            read = planned(s, choice, kind=TransactionalKind.INSERT_ONLY).read
            assert len(read.deltas) == 3
            assert (read.base, read.originals) == (
                (s.base, s.originals) if is_whole else (None, ())
            )
            assert (s.base is None, s.originals == ()) == (not beside, not kept)


def two_buckets() -> AcidState:
    return state_of(f"{name}/bucket_0000{b}" for name in inserts(1, 2) for b in (0, 1))


@pytest.mark.parametrize("choice", [MAJOR, MINOR])
@pytest.mark.parametrize(
    "appears",
    [compaction.Appearance.FILE_BY_FILE, compaction.Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE],
)
def test_a_compaction_that_would_appear_file_by_file_must_write_exactly_one_file(
    choice: CompactionChoice, appears: compaction.Appearance
) -> None:
    several = plan(two_buckets(), choice, can_hide=False, appears=appears)
    assert isinstance(several, compaction.NoCompaction)
    assert "2 files would appear file by file" in several.why
    one = planned(state_of(inserts(1, 2)), choice, can_hide=False, appears=appears)
    assert one.needs_one_file
    assert one.hides is (appears is compaction.Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE)


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        (MAJOR, "base_0000002_v0000009"),
        (MINOR, "delta_0000001_0000002_v0000009"),
    ],
)
def test_a_hidden_compaction_may_write_several_files_that_appear_at_its_commit(
    choice: CompactionChoice, name: str
) -> None:
    found = planned(two_buckets(), choice, appears=compaction.Appearance.HIDDEN)
    assert found.hides
    assert not found.needs_one_file
    assert [str(o) for o in found.outputs(TxnId(9))] == [name]


def test_a_compaction_published_by_rename_may_write_several_files() -> None:
    found = planned(two_buckets(), MAJOR, can_hide=False, appears=compaction.Appearance.AT_ONCE)
    assert not found.hides
    assert [str(o) for o in found.outputs(None)] == ["base_0000002"]


def test_with_older_readers_a_base_is_hidden_until_its_commit_but_a_delta_is_not() -> None:
    """Hive 4 reads a base whose last write it takes to be open, if that is the lowest such one."""
    major = planned(two_buckets(), MAJOR, can_hide=False, appears=compaction.Appearance.AT_ONCE)
    major = dataclasses.replace(major, has_older_readers=True)
    assert major.hides
    assert not major.needs_one_file
    assert [str(o) for o in major.outputs(TxnId(9))] == ["base_0000002_v0000009"]
    minor = dataclasses.replace(major, is_major=False)
    assert not minor.hides, "rows of a delta are read by their own write IDs"
