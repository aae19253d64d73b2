from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.records import Move
from airflow_hiveacid.format.table import (
    COPY_OF,
    Column,
    FileFormat,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.maintenance import ConversionTarget
from airflow_hiveacid.plan.conversion import (
    emptied_by,
    moves_in,
    moves_out,
    parameters_of,
    why_not_files,
    why_not_state,
    why_not_table,
)
from tests.unit.format.listings import ids, listing

FULL, ONLY, FLAT = ConversionTarget
NONE, ACID, INSERT_ONLY = TransactionalKind
TABLE = TableInfo(
    ref=TableRef("db", "t"),
    location="/t",
    columns=(Column(name="id", type="int"),),
    kind=NONE,
)
PARQUET = Storage(format=FileFormat.PARQUET)
TRANSLATED = {"EXTERNAL": "TRUE", "TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}


@pytest.mark.parametrize(
    ("changes", "to", "why"),
    [
        ({}, FULL, None),
        ({}, ONLY, None),
        ({"parameters": TRANSLATED}, FULL, None),
        ({"parameters": {"EXTERNAL": "FALSE"}}, FULL, None),
        ({"num_buckets": 2, "bucket_columns": ("id",)}, FULL, None),
        ({"storage": PARQUET}, ONLY, None),
        ({"kind": INSERT_ONLY}, FLAT, None),
        ({"parameters": {"EXTERNAL": "true"}}, FULL, "it is external"),
        ({"parameters": {"EXTERNAL": "TRUE"}}, ONLY, "it is external"),
        ({"storage": PARQUET}, FULL, "ORC only"),
        ({"storage": Storage(format=FileFormat.AVRO)}, ONLY, "this provider cannot read"),
        ({"sort_columns": ("id",)}, FULL, "SORTED BY"),
        ({"num_buckets": 2}, ONLY, "CLUSTERED BY"),
        ({"kind": INSERT_ONLY}, FULL, "copy its rows to a new table"),
        ({"kind": ACID}, ONLY, "make it flat first"),
        ({"kind": ACID}, ONLY, "it is full_acid"),
    ],
)
def test_the_table_definition_decides_whether_a_conversion_is_possible(
    changes: dict[str, object], to: ConversionTarget, why: str | None
) -> None:
    found = why_not_table(replace(TABLE, **changes), to)  # type: ignore[arg-type]
    assert (found is None) == (why is None)
    assert why is None or why in str(found)


def test_a_conversion_changes_table_properties_as_hive_does() -> None:
    assert parameters_of(TABLE, FULL) == {
        "transactional": "true",
        "transactional_properties": "default",
    }
    assert parameters_of(replace(TABLE, parameters=TRANSLATED), ONLY) == {
        "transactional": "true",
        "transactional_properties": "insert_only",
        "EXTERNAL": "FALSE",
        "TRANSLATED_TO_EXTERNAL": None,
        "external.table.purge": None,
    }
    assert parameters_of(replace(TABLE, parameters={COPY_OF: "db.u#1"}), ONLY)[COPY_OF] is None
    assert parameters_of(TABLE, FLAT) == {"transactional": None, "transactional_properties": None}


@pytest.mark.parametrize(
    ("names", "full", "insert_only"),
    [
        ("", None, None),
        ("000000_0 000000_0_copy_1 000001_0 _SUCCESS _x/y .x.crc", None, None),
        (f"000000_{'1' * 40}", None, None),
        ("HIVE_UNION_SUBDIR_1/000000_0", None, "in a sub-directory"),
        ("HIVE_UNION_SUBDIR_1/x/000000_0", "that Hive did not create", "in a sub-directory"),
        ("part-00000.snappy.orc", "not have a name in Hive's form", None),
        ("000000_0.orc", "not have a name in Hive's form", None),
        ("bucket_00000", "not have a name in Hive's form", None),
        ("4096_0", "bucket above 4095", None),
        ("000000_0 delta_1_1_0/bucket_00000", "a name like those of", "a name like those of"),
        ("000000_0 base_x/", "a name like those of", "a name like those of"),
    ],
)
def test_file_names_decide_whether_a_flat_table_can_become_transactional(
    names: str, full: str | None, insert_only: str | None
) -> None:
    for to, why in ((FULL, full), (ONLY, insert_only)):
        found = why_not_files(listing(names), to)
        assert (found is None) == (why is None), found
        assert why is None or why in str(found)


def test_a_conversion_moves_all_visible_files_into_one_delta() -> None:
    delta = DeltaName(low=WriteId(1), high=WriteId(1), statement_id=StatementId(0))
    assert moves_in(listing("000000_0 part-0.orc _SUCCESS _hiveacid/x"), delta) == [
        Move(location="/t", source="000000_0", target="delta_0000001_0000001_0000/000000_0"),
        Move(location="/t", source="part-0.orc", target="delta_0000001_0000001_0000/part-0.orc"),
    ]


def test_a_conversion_to_flat_keeps_the_file_order_and_skips_existing_names() -> None:
    names = listing("base_2/000000_0 delta_1_1_0/000000_0 delta_3_3_0/a.gz delta_4_4_0/x 000000_0")
    state = resolve(names, ids("4:MAX::"), None, INSERT_ONLY)
    state = replace(state, originals=tuple(f for f in names.files if f.path == "000000_0"))
    moves = moves_out(state)
    assert [(m.source, m.target) for m in moves] == [
        ("base_2/000000_0", "000001_0"),
        ("delta_3_3_0/a.gz", "000002_0.gz"),
        ("delta_4_4_0/x", "000003_0"),
    ]
    assert [(m.source, m.target) for m in emptied_by(moves)] == [
        ("base_2", "_tmp_hiveacid_emptied-base_2"),
        ("delta_3_3_0", "_tmp_hiveacid_emptied-delta_3_3_0"),
        ("delta_4_4_0", "_tmp_hiveacid_emptied-delta_4_4_0"),
    ]


@pytest.mark.parametrize(
    ("names", "snapshot", "why"),
    [
        ("base_2 delta_3_3_0", "3:MAX::", None),
        ("base_2 delta_1_1_0", "3:MAX::", "delta_1_1_0"),
        ("base_2 delta_3_3_0", "3:MAX::3", "delta_3_3_0"),
        ("base_2 delta_3_3_0", "3:3:3:", "delta_3_3_0"),
    ],
)
def test_a_table_with_obsolete_or_uncommitted_directories_is_not_converted(
    names: str, snapshot: str, why: str | None
) -> None:
    found = why_not_state(resolve(listing(names), ids(snapshot), None, INSERT_ONLY))
    assert (found is None) == (why is None)
    assert why is None or f"{why} is obsolete or not yet" in str(found)
