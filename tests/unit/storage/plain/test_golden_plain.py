"""Every golden insert-only table, row for row: what Hive reads in its own files is what we read."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.plain.rows import scan_plain
from airflow_hiveacid.storage.plain.text_form import DEFAULT_TEXT, TextForm
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden_plain import PlainCase, plain_cases
from tests.unit.storage.writing import columns_of, lines_of

# As the steps of the case say.
FORMS = {"header_text": TextForm(delimiter=",", header_lines=1)}
CASES = plain_cases()


def is_undated(case: PlainCase) -> bool:
    """Whether nobody knows the calendar of its old days: Hive 4 would show others."""
    return (case.version, case.name) == ("3.1.3", "ancient_avro")


def rows_of(
    case: PlainCase,
    *,
    write_ids: str | None = None,
    with_originals: bool = False,
    matching: Matching = Matching.UNAMBIGUOUS,
) -> list[str]:
    columns = columns_of(dict(case.columns))

    def found() -> Iterator[str]:
        for values, place in case.places():
            batches = scan_plain(
                str(place),
                columns,
                FileFormat[case.format.upper()],
                ValidWriteIdList.parse(write_ids or case.write_ids),
                ValidTxnList.parse(case.txns),
                with_originals=with_originals,
                text=FORMS.get(case.name, DEFAULT_TEXT),
                timestamps=TimestampForm.PAIR,
                matching=matching,
            )
            for line in lines_of(batches, columns):
                yield json.dumps([*json.loads(line), *values])

    return sorted(found())


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if not (c.name.startswith(("stray", "renamed_orc")) or is_undated(c))],
    ids=lambda c: f"{c.version} {c.name}",
)
def test_our_rows_equal_those_that_hive_reads(case: PlainCase) -> None:
    assert rows_of(case) == sorted(map(json.dumps, case.rows))


def test_the_golden_cases_cover_both_hive_versions_and_all_formats() -> None:
    assert {(c.version, c.format) for c in CASES} == {
        *((version, f) for version in ("4.0.1", "3.1.3") for f in ("orc", "parquet", "avro")),
        ("4.0.1", "text"),  # what Hive 3.1 writes is the same
    }


def test_old_dates_of_an_unknown_calendar_are_refused() -> None:
    (case,) = filter(is_undated, CASES)
    with pytest.raises(UnsupportedFileError, match="does not state their calendar"):
        rows_of(case)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name.startswith("stray")],
    ids=lambda c: f"{c.version} {c.name}",
)
def test_files_outside_base_and_delta_are_refused_unless_read_as_original_files(
    case: PlainCase,
) -> None:
    with pytest.raises(UnsupportedFileError, match=r"hiveacid\.reads\.originals"):
        rows_of(case)
    # Hive passes over the one at the root, and reads the one beside another in a delta.
    assert [json.dumps(row) for row in case.rows] == ['[1, "a"]', '[1, "a"]', '[2, "b"]']
    assert rows_of(case, with_originals=True) == ['[1, "a"]'] * 3 + ['[2, "b"]']


@pytest.mark.parametrize(
    ("version", "matching"), [("3.1.3", Matching.NAME), ("4.0.1", Matching.POSITION)]
)
def test_a_renamed_orc_column_is_refused_unless_the_matching_is_given(
    version: str, matching: Matching
) -> None:
    case = next(c for c in CASES if (c.version, c.name) == (version, "renamed_orc"))
    with pytest.raises(UnsupportedFileError, match="renamed"):
        rows_of(case)
    assert rows_of(case, matching=matching) == sorted(map(json.dumps, case.rows))


@pytest.mark.parametrize("format_", ["orc", "parquet", "avro", "text"])
def test_rows_of_open_and_aborted_writes_are_invisible(format_: str) -> None:
    case = next(c for c in CASES if (c.version, c.name) == ("4.0.1", f"overwrite_{format_}"))
    table, high, none, *_ = case.write_ids.split(":")
    assert rows_of(case, write_ids=f"{table}:{high}:{none}::2,3") == ['[1, "a"]', '[2, "b"]']
    assert rows_of(case, write_ids=f"{table}:{high}:3:3:") == ['[7, "g"]']
