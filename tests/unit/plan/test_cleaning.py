from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.records import FirstSeen, LeftUpload, Reader
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.plan import cleaning
from tests.unit.plan.states import state_of

MAX = 9223372036854775807
DIRECTORIES = ("base_0000002", "delta_0000001_0000001_0000", "delta_0000002_0000002_0000")
OLD = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]


def state(
    write_ids: str = "3:MAX::",
    directories: tuple[str, ...] = DIRECTORIES,
    originals: tuple[str, ...] = (),
) -> AcidState:
    paths = (f"{directory}/bucket_00000" for directory in directories)
    return state_of((*paths, *originals), write_ids)


def plan(
    s: AcidState,
    txns: str,
    *,
    seen: dict[str, FirstSeen] | None = None,
    staging: tuple[cleaning.StagingDirectory, ...] = (),
    retention_s: float = 0.0,
    now_s: float = 1000.0,
) -> cleaning.CleaningPlan:
    return cleaning.plan_cleaning(
        s,
        staging,
        seen or {},
        found := ValidTxnList.parse(txns),
        readers=[Reader(txn_id=txn_id) for txn_id in found.open],
        now_s=now_s,
        retention_s=retention_s,
        orphan_age_s=100.0,
    )


def test_without_open_transactions_replaced_directories_are_removed_at_once() -> None:
    found = plan(state(), f"9:{MAX}::")
    assert [r.path for r in found.remove] == OLD
    assert found.unseen == ("base_0000002",)
    assert found.keep == ()


@pytest.mark.promise("K1")
@pytest.mark.promise("C9")
def test_a_replaced_directory_is_kept_while_a_transaction_that_may_read_it_is_open() -> None:
    seen = {"base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=0.0)}
    held = plan(state(), "12:8:8:", seen=seen)
    assert held.remove == ()
    assert [k.why for k in held.keep] == ["transaction 8 is open and may read it"] * 2
    assert [reader.txn_id for reader in held.waited_for] == [TxnId(8)]
    released = plan(state(), f"12:{MAX}::", seen=seen)
    assert [r.path for r in released.remove] == OLD
    assert released.waited_for == ()


@pytest.mark.parametrize(("youngest_reader", "goes"), [(8, False), (9, False), (10, True)])
def test_deltas_are_kept_for_each_reader_that_may_have_begun_before_the_base_was_seen(
    youngest_reader: int, goes: bool
) -> None:
    # 9 was the newest transaction there was when the base was first seen: it may read the deltas.
    seen = {"base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=0.0)}
    found = plan(state(), f"12:{youngest_reader}:{youngest_reader}:", seen=seen)
    assert [r.path for r in found.remove] == (OLD if goes else [])
    assert len(found.keep) == (0 if goes else 2)


def test_directories_wait_only_for_readers_from_before_their_own_replacement_was_seen() -> None:
    # The reader began after the base was seen, and before the delta of two was.
    deltas = ("delta_0000003_0000003_0000", "delta_0000004_0000004_0000")
    s = state("4:MAX::", (*DIRECTORIES, *deltas, "delta_0000003_0000004"))
    seen = {
        "base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=0.0),
        "delta_0000003_0000004": FirstSeen(high_watermark=TxnId(20), at_s=0.0),
    }
    found = plan(s, "25:15:15:", seen=seen)
    assert [r.path for r in found.remove] == OLD
    assert [k.path for k in found.keep] == list(deltas)


def test_nothing_is_removed_if_a_transaction_is_open_when_the_base_is_first_seen() -> None:
    assert plan(state(), "9:9:9:").remove == ()


def test_original_files_are_kept_for_open_readers_as_deltas_are() -> None:
    converted = state(directories=("base_0000002",), originals=("000000_0", "000001_0"))
    seen = {"base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=0.0)}
    held = plan(converted, "12:9:9:", seen=seen)
    assert held.remove == ()
    assert [k.path for k in held.keep] == ["000000_0", "000001_0"]
    released = plan(converted, "12:10:10:", seen=seen)
    assert [(r.path, r.why) for r in released.remove] == [
        ("000000_0", "replaced by base_0000002"),
        ("000001_0", "replaced by base_0000002"),
    ]


def test_replaced_directories_with_files_that_no_compaction_has_read_are_kept() -> None:
    odd = state(
        directories=(*DIRECTORIES, "delta_0000001_0000001_0000/delta_0000001_0000001_0000"),
        originals=("delta_0000002_0000002_0000/part-0.orc", "part-0.orc", "000000_0"),
    )
    cleaned = plan(odd, f"9:{MAX}::")
    assert [r.path for r in cleaned.remove] == ["000000_0"]
    assert [(k.path, k.why.partition(" may be data")[0]) for k in cleaned.keep] == [
        (
            "delta_0000001_0000001_0000",
            "delta_0000001_0000001_0000/delta_0000001_0000001_0000/bucket_00000",
        ),
        ("delta_0000002_0000002_0000", "delta_0000002_0000002_0000/part-0.orc"),
        ("part-0.orc", "part-0.orc"),
    ]


@pytest.mark.promise("K5")
def test_replaced_directories_are_kept_for_the_retention_time() -> None:
    seen = {"base_0000002": FirstSeen(high_watermark=TxnId(9), at_s=950.0)}
    kept = plan(state(), f"9:{MAX}::", seen=seen, retention_s=60.0)
    assert kept.remove == ()
    assert {one.why for one in kept.keep} == {"the retention of 1 min ends in 10 s"}
    found = plan(state(), f"9:{MAX}::", seen=seen, retention_s=60.0, now_s=1010.0)
    assert [r.path for r in found.remove] == OLD


@pytest.mark.promise("K2")
def test_cleaning_removes_only_directories_whose_write_ids_are_all_aborted() -> None:
    s = state(
        "4:MAX::3",
        ("delta_0000001_0000001_0000", "delta_0000003_0000003_0000", "delta_0000002_0000004"),
    )
    assert [r.path for r in plan(s, f"9:{MAX}::").remove] == ["delta_0000003_0000003_0000"]


def test_old_staging_directories_are_removed_unless_their_transaction_is_open() -> None:
    def staged(txn: int | None, age_s: float) -> cleaning.StagingDirectory:
        return cleaning.StagingDirectory(
            path="_tmp_hiveacid_5",
            txn_id=None if txn is None else TxnId(txn),
            modified_s=1000.0 - age_s,
            size_bytes=1,
        )

    none = state(directories=())
    assert plan(none, "9:5:5:", staging=(staged(5, 500.0),)).keep[0].why.endswith("is writing it")
    assert plan(none, f"9:{MAX}::", staging=(staged(5, 50.0),)).remove == ()
    assert len(plan(none, f"9:{MAX}::", staging=(staged(5, 500.0),)).remove) == 1
    assert len(plan(none, f"9:{MAX}::", staging=(staged(None, 500.0),)).remove) == 1


@pytest.mark.parametrize(
    ("path", "goes"),
    [
        ("_tmp_hiveacid_5-1.0/delta_0000003_0000003_0000/bucket_00000", False),  # open
        ("_tmp_hiveacid_6-1.0/delta_0000003_0000003_0000/bucket_00000", True),
        ("_tmp_hiveacid_10-1.0/delta_0000003_0000003_0000/bucket_00000", False),  # began since
        ("p=1/delta_0000003_0000003_0000/bucket_00000", True),
        ("p=1/delta_0000004_0000004_0000/bucket_00000", False),  # open
        ("p=1/delta_0000007_0000007_0000/bucket_00000", True),
        ("p=1/delta_0000008_0000008_0000/bucket_00000", False),  # allocated since
        ("p=1/base_0000007_v0000005/bucket_00000", False),  # an open compaction
        ("p=1/base_0000007_v0000010/bucket_00000", False),  # a compaction that began since
        ("p=1/base_0000007_v0000006/bucket_00000", True),
        ("p=1/other_program/bucket_00000", False),  # not ours
    ],
)
def test_an_upload_is_aborted_only_if_its_writer_has_ended(path: str, *, goes: bool) -> None:
    txns = ValidTxnList(high_watermark=TxnId(9), open=(TxnId(5),))
    write_ids = ValidWriteIdList.parse("db.t:7:4:4:")
    upload = LeftUpload(path=path, upload_id="u", begun_s=1000.0)

    def aborted(now_s: float) -> list[str]:
        found = cleaning.plan_uploads([upload], txns, write_ids, now_s=now_s, orphan_age_s=100.0)
        return [removal.path for _, removal in found]

    assert aborted(1100.0) == ([path] if goes else [])
    assert aborted(1099.0) == []


def test_a_table_with_obsolete_or_aborted_files_is_not_clean() -> None:
    assert not cleaning.is_clean(state())
    assert not cleaning.is_clean(state(directories=("base_0000002",), originals=("000000_0",)))
    assert not cleaning.is_clean(state("4:MAX::3", ("delta_0000003_0000003_0000",)))
    assert cleaning.is_clean(state(directories=("base_0000002",)))


def ends(s: AcidState, *, is_insert_only: bool = False) -> dict[str, tuple[str, int]]:
    """What replaced each thing that goes, and which versions end with it."""
    found = cleaning.plan_cleaning(
        s,
        (),
        {},
        ValidTxnList.parse(f"9:{MAX}::"),
        readers=(),
        now_s=0.0,
        retention_s=0.0,
        orphan_age_s=0.0,
        is_insert_only=is_insert_only,
    )
    return {r.path: (r.why.removeprefix("replaced by "), r.ends) for r in found.remove}


def test_each_obsolete_path_is_replaced_by_the_lowest_base_that_covers_it() -> None:
    bases = ("base_0000003", "base_0000005", "base_0000007")
    deltas = (
        "delta_0000002_0000002_0000",
        "delta_0000005_0000005_0000",
        "delta_0000008_0000008_0000",
    )
    found = ends(state("9:MAX::", (*bases, *deltas), ("000000_0",)))
    assert found == {
        "base_0000003": ("base_0000005", 5),
        "base_0000005": ("base_0000007", 7),
        "delta_0000002_0000002_0000": ("base_0000003", 3),
        "delta_0000005_0000005_0000": ("base_0000005", 5),
        "000000_0": ("base_0000003", 3),
    }


def test_an_aborted_base_replaces_nothing() -> None:
    directories = ("base_0000004", "base_0000005", "delta_0000003_0000003_0000")
    found = ends(state_of(directories, "9:MAX::4", has_marks=False))
    assert found["delta_0000003_0000003_0000"] == ("base_0000005", 5)


def test_removing_merged_deltas_ends_older_versions_of_insert_only_tables_only() -> None:
    merged = state("9:MAX::", ("delta_0000003_0000003_0000", "delta_0000003_0000004"))
    path = "delta_0000003_0000003_0000"
    assert ends(merged)[path] == ("delta_0000003_0000004", 0)
    assert ends(merged, is_insert_only=True)[path] == ("delta_0000003_0000004", 4)


@pytest.mark.promise("K9")
@pytest.mark.parametrize(
    ("age_s", "is_removable", "noted_ago_s", "found"),
    [
        (100.0, True, 86400.0, (["x"], [], [])),
        (100.0, True, 86399.0, ([], ["x"], [])),
        (99.0, True, 86400.0, ([], ["x"], [])),
        (100.0, False, 86400.0, ([], [], ["x"])),
        (None, True, 86400.0, ([], [], ["x"])),
    ],
)
def test_an_unknown_file_is_removed_only_if_it_is_removable_and_old(
    age_s: float | None,
    is_removable: bool,
    noted_ago_s: float,
    found: tuple[list[str], list[str], list[str]],
) -> None:
    one = cleaning.UnknownPath(
        path="x", why="y", size_bytes=1, age_s=age_s, is_removable=is_removable
    )
    noted = {"x": FirstSeen(high_watermark=TxnId(9), at_s=0.0)}
    now = FirstSeen(high_watermark=TxnId(9), at_s=noted_ago_s)
    plan = cleaning.plan_unknown([one], noted, now, readers=(), unknown_age_s=100.0)
    assert tuple([u.path for u in part] for part in (plan.remove, plan.keep, plan.unknown)) == found
    assert cleaning.plan_unknown([one], {}, now, readers=(), unknown_age_s=100.0).remove == ()


@pytest.mark.parametrize(
    ("is_dry", "noted", "why"),
    [
        (False, {}, "found less than 1 d ago; may be removed in 1 d"),
        (True, {}, "a cleaning may remove it 1 d after it has first found it"),
        (True, {"x": 0.0}, "found less than 1 d ago; may be removed in 23 h"),
    ],
)
def test_a_dry_run_does_not_count_the_day_that_only_a_cleaning_counts(
    is_dry: bool, noted: dict[str, float], why: str
) -> None:
    one = cleaning.UnknownPath(path="x", why="y", size_bytes=1, age_s=200.0, is_removable=True)
    seen = {path: FirstSeen(high_watermark=TxnId(9), at_s=at_s) for path, at_s in noted.items()}
    now = FirstSeen(high_watermark=TxnId(9), at_s=3600.0)
    plan = cleaning.plan_unknown([one], seen, now, readers=(), unknown_age_s=100.0, is_dry=is_dry)
    assert [removal.why for removal in plan.keep] == [why]


@pytest.mark.promise("K9")
@pytest.mark.parametrize(("reader", "goes"), [(9, False), (10, True)])
def test_an_unknown_file_is_kept_for_each_reader_up_to_its_note(reader: int, goes: bool) -> None:
    one = cleaning.UnknownPath(path="x", why="y", size_bytes=1, age_s=200.0, is_removable=True)
    noted = {"x": FirstSeen(high_watermark=TxnId(9), at_s=0.0)}
    now = FirstSeen(high_watermark=TxnId(12), at_s=86400.0)
    readers = [Reader(txn_id=TxnId(reader))]
    plan = cleaning.plan_unknown([one], noted, now, readers=readers, unknown_age_s=100.0)
    assert [r.path for r in plan.remove] == (["x"] if goes else [])
    assert list(plan.waited_for) == ([] if goes else readers)
    assert plan.unseen == ()
    unnoted = cleaning.plan_unknown([one], {}, now, readers=readers, unknown_age_s=100.0)
    assert (unnoted.remove, unnoted.unseen) == ((), ("x",))
