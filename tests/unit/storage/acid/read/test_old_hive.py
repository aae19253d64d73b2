"""Changes that Hive before 3 wrote into deltas, beside new rows, never pass for rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.reading import KeyRange, ReadRequest
from airflow_hiveacid.reading.orc_fit import judged
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.inspect import inspect
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.unit.storage.compacting import compact
from tests.unit.storage.orc_tables import (
    COLUMNS,
    Event,
    acid_file,
    ids,
    insert,
    rewrite_tail,
    tombstone,
    write_acid,
)

UPDATE: Final = insert(1, 1, 20, current=2, operation=1)
CHANGES: Final = {
    "an update": [UPDATE, insert(2, 0, 5)],
    "a delete": [tombstone(1, 2, 2), insert(2, 0, 5)],
    "a delete alone": [tombstone(1, 2, 2)],
    "both": [UPDATE, tombstone(1, 2, 2), insert(2, 0, 5)],
}
# Told by the footer, or by the rows alone.
CASES: Final = [*((name, True) for name in CHANGES), ("a delete", False), ("both", False)]
REMEDY: Final = r"in the format used before Hive 3.*COMPACT 'major'"


def table(root: Path, events: list[Event], *, is_told: bool = True) -> ValidWriteIdList:
    write_acid(root / "delta_0000001_0000001" / "bucket_00000", [insert(1, i, i) for i in range(4)])
    path = write_acid(root / "delta_0000002_0000002" / "bucket_00000", events)
    if not is_told:
        rewrite_tail(path, lambda tail: tail.footer.ClearField("statistics"))
    return ids(2)


def changed(root: Path) -> AcidFile:
    return acid_file(root / "delta_0000002_0000002" / "bucket_00000")


@pytest.mark.promise("D6")
@pytest.mark.parametrize(("changes", "is_told"), CASES)
def test_a_delta_with_changes_from_before_hive_3_is_refused_with_the_remedy(
    tmp_path: Path, changes: str, *, is_told: bool
) -> None:
    write_ids = table(tmp_path, CHANGES[changes], is_told=is_told)
    with pytest.raises(UnsupportedFileError, match=REMEDY):
        list(scan(str(tmp_path), COLUMNS, write_ids))
    for major in (False, True):
        with pytest.raises(UnsupportedFileError, match=REMEDY):
            compact(tmp_path, COLUMNS, write_ids, major=major)


@pytest.mark.promise("D6")
@pytest.mark.parametrize(("changes", "is_told"), CASES)
def test_changes_from_before_hive_3_are_refused_during_planning_even_with_a_key_range(
    tmp_path: Path, changes: str, *, is_told: bool
) -> None:
    table(tmp_path, CHANGES[changes], is_told=is_told)
    # No new row lies in this range, but the old version of one that was updated does.
    asked = ReadRequest(
        table_columns=COLUMNS,
        columns=COLUMNS[:1],
        ranges={"id": KeyRange(low=1, high=1)},
        in_utc=True,
    )
    with pytest.raises(UnsupportedFileError, match=REMEDY):
        judged(asked, [(changed(tmp_path), {})])


@pytest.mark.parametrize("changes", CHANGES)
def test_inspect_names_the_delta_with_changes_from_before_hive_3(
    tmp_path: Path, changes: str
) -> None:
    first, second = inspect(str(tmp_path), table(tmp_path, CHANGES[changes]))
    assert (first.rows, first.why) == (4, "live")
    assert second.rows is None
    assert re.search(REMEDY, second.why)


@pytest.mark.promise("D6")
def test_changes_from_before_hive_3_are_refused_even_if_no_stripe_is_read(tmp_path: Path) -> None:
    table(tmp_path, [insert(1, 0, 1, operation=1, current=2), insert(2, 0, 5)])
    with pytest.raises(UnsupportedFileError, match=REMEDY):
        list(read_events(changed(tmp_path), COLUMNS, stripes=[]))


@pytest.mark.promise("D6")
@pytest.mark.parametrize("parts", [1, 2])
def test_an_update_event_in_a_base_is_read_as_the_updated_row(tmp_path: Path, parts: int) -> None:
    """Hive's compaction keeps the last event of a row as it is."""
    events = [insert(1, 0, 0), UPDATE, insert(2, 0, 5)]
    path = tmp_path / "base_0000002" / "bucket_00000"
    write_acid(path, *([events] if parts == 1 else [events[:2], events[2:]]))
    write_acid(tmp_path / "delete_delta_0000003_0000003" / "bucket_00000", [tombstone(1, 0, 3)])
    batches = scan(str(tmp_path), COLUMNS, ids(3), with_identity=True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["row__id"]["writeid"], row["row__id"]["rowid"], row["id"]) for row in rows] == [
        *((1, 1, 20), (2, 0, 5))
    ]
    assert compact(tmp_path, COLUMNS, ids(3), major=True) == ("base_0000003",)
    (event, other) = [
        row
        for batch in read_events(
            acid_file(
                tmp_path / "base_0000003/bucket_00000",
                key="delta_1_1/bucket_00000",  # where nothing of old Hive is borne
            ),
            COLUMNS,
        )
        for row in batch.to_pylist()
    ]
    assert (event["operation"], event["currentTransaction"], event["row"]["id"]) == (0, 1, 20)
    assert other["row"]["id"] == 5
