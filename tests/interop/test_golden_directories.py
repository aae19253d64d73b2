"""The golden directories say what Hive's readers see in them, whichever reader and time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judges.golden import GoldenCase, GoldenSnapshot, cases
from judges.line_process import JudgeError

if TYPE_CHECKING:
    from pathlib import Path

    from judges.bare import BareReader

_CASES = cases()
_SNAPSHOTS = [(case, snapshot) for case in _CASES for snapshot in case.snapshots]
_MODES = pytest.mark.parametrize("vectorized", [False, True], ids=["row", "vectorised"])


def _read(
    reader: BareReader, case: GoldenCase, directory: Path, *, vectorized: bool
) -> list[list[object]]:
    return reader.read(
        directory,
        case.write_ids,
        case.schema,
        txns=case.txns,
        buckets=case.buckets,
        vectorized=vectorized,
    )


@_MODES
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
def test_the_reader_of_hive_4_finds_the_expected_rows(
    case: GoldenCase, vectorized: bool, bare_reader_4_new_york: BareReader, tmp_path: Path
) -> None:
    root = case.checkout(tmp_path)
    if not case.partition_columns:
        assert _read(bare_reader_4_new_york, case, root, vectorized=vectorized) == case.rows
    for partition in case.partitions:
        directory = root / partition.location
        found = _read(bare_reader_4_new_york, case, directory, vectorized=vectorized)
        assert found == case.rows_of(partition)
    assert sum(len(case.rows_of(partition)) for partition in case.partitions) in {0, len(case.rows)}


@pytest.mark.parametrize(
    ("case", "snapshot"), _SNAPSHOTS, ids=lambda value: getattr(value, "id", None)
)
def test_the_reader_of_hive_4_sees_what_a_snapshot_says(
    case: GoldenCase, snapshot: GoldenSnapshot, bare_reader_4: BareReader, tmp_path: Path
) -> None:
    root = case.checkout(tmp_path)
    if snapshot.rows is None:
        with pytest.raises(JudgeError, match="Not enough history"):
            bare_reader_4.read(root, snapshot.write_ids, case.schema, txns=case.txns)
    else:
        found = bare_reader_4.read(
            root, snapshot.write_ids, case.schema, txns=case.txns, buckets=case.buckets
        )
        assert found == snapshot.rows
