"""The golden directories say what Hive's readers see in them, whichever reader and time zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judges.bare import BareReader, identity_key
from tests.judges.golden import GoldenCase, GoldenSnapshot, cases
from tests.judges.golden_histories import HISTORIES
from tests.judges.line_process import JudgeError

_CASES = cases()
_SNAPSHOTS = [(case, snapshot) for case in _CASES for snapshot in case.snapshots]


@pytest.fixture(scope="session")
def readers_in_new_york(
    bare_reader_4_new_york: BareReader, bare_reader_3_new_york: BareReader
) -> dict[str, BareReader]:
    return {"4.0.1": bare_reader_4_new_york, "3.1.3": bare_reader_3_new_york}


def _read(
    reader: BareReader, case: GoldenCase, root: Path, *, vectorized: bool
) -> list[list[object]]:
    """Returns identity and columns of all partitions, in the order of the expected rows."""
    directories = [root / one.location for one in case.partitions] or [root]
    found = [
        row
        for directory in directories
        for row in reader.read(
            directory,
            case.write_ids,
            case.schema,
            txns=case.txns,
            buckets=case.buckets,
            vectorized=vectorized,
        )
    ]
    return sorted(found, key=identity_key)


def _expected(case: GoldenCase) -> list[list[object]]:
    width = 1 + len(case.columns)
    return sorted((row[:width] for row in case.rows), key=identity_key)


def test_golden_directories_and_histories_correspond_one_to_one() -> None:
    made = {case.id: case.statements for case in _CASES}
    told = {
        f"{version}/{history.name}": history.steps_for(f"golden.of_{history.name}")
        for history in HISTORIES
        for version in history.versions
    }
    assert made == told


@pytest.mark.parametrize("vectorized", [False, True], ids=["row", "vectorised"])
@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.id)
@pytest.mark.long_cases("*-row", "*-3.1.3-vectorised")
def test_hives_readers_read_or_refuse_a_golden_directory_as_its_case_says(
    case: GoldenCase,
    version: str,
    vectorized: bool,
    readers_in_new_york: dict[str, BareReader],
    tmp_path: Path,
) -> None:
    reader, root = readers_in_new_york[version], case.checkout(tmp_path)
    verdict = case.readers[f"{version} {'vectorised' if vectorized else 'row'}"]
    if verdict is None:
        assert _read(reader, case, root, vectorized=vectorized) == _expected(case)
    elif verdict == "other rows":
        assert _read(reader, case, root, vectorized=vectorized) != _expected(case)
    else:
        with pytest.raises(JudgeError) as refusal:
            _read(reader, case, root, vectorized=vectorized)
        assert refusal.value.kind == verdict


@pytest.mark.parametrize("case", [case for case in _CASES if case.partitions], ids=lambda c: c.id)
def test_a_partition_of_a_golden_directory_contains_exactly_its_rows(
    case: GoldenCase, bare_reader_4: BareReader, tmp_path: Path
) -> None:
    root = case.checkout(tmp_path)
    for partition in case.partitions:
        found = bare_reader_4.read(
            root / partition.location, case.write_ids, case.schema, txns=case.txns
        )
        assert found == case.rows_of(partition)


@pytest.mark.parametrize(
    ("case", "snapshot"),
    _SNAPSHOTS,
    ids=lambda value: getattr(value, "id", None) or getattr(value, "write_ids", None),
)
def test_the_hive_version_that_wrote_a_golden_directory_reads_the_rows_of_a_snapshot(
    case: GoldenCase,
    snapshot: GoldenSnapshot,
    bare_reader_4: BareReader,
    bare_reader_3: BareReader,
    tmp_path: Path,
) -> None:
    reader = bare_reader_4 if case.version == bare_reader_4.version else bare_reader_3
    root = case.checkout(tmp_path)
    if snapshot.rows is None:
        with pytest.raises(JudgeError, match="Not enough history"):
            reader.read(root, snapshot.write_ids, case.schema, txns=case.txns)
    else:
        found = reader.read(
            root, snapshot.write_ids, case.schema, txns=case.txns, buckets=case.buckets
        )
        assert found == snapshot.rows
