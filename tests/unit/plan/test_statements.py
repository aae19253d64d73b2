from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    ConfigurationError,
    InsertOnlyTableError,
    NotTransactionalError,
    SortedTableError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements.arguments import merge_clauses
from airflow_hiveacid.plan.statements.dml import (
    check_changeable,
    check_insertable,
    check_readable,
    check_source,
    resolve_insert,
    resolve_merge,
    resolve_update,
    sql_string,
)


def table(**changes: object) -> TableInfo:
    values: dict[str, object] = {
        "ref": TableRef("d", "t"),
        "location": "/d/t",
        "columns": tuple(Column(name=n, type="int") for n in ("id", "a", "b")),
        "partition_columns": (Column(name="p", type="int"),),
        "bucket_columns": ("b",),
        "num_buckets": 2,
    }
    return TableInfo(**(values | changes))  # type: ignore[arg-type]


def merge(*clauses: MergeClause, keys: tuple[str, ...] = ("id",)) -> MergeSpec:
    return MergeSpec(target="d.t", source=SourceSpec(table="d.s"), keys=keys, clauses=clauses)


def clause(when: str, action: str, **changes: Any) -> MergeClause:  # noqa: ANN401
    return MergeClause(when=MergeWhen(when), action=MergeAction(action), **changes)


MATCHED_ALL = clause("matched", "update")
INSERT_ALL = clause("not_matched", "insert")


@pytest.mark.promise("D4")
@pytest.mark.promise("D5")
def test_only_unsorted_full_acid_orc_tables_can_be_changed() -> None:
    check_changeable(table(), "UPDATE")
    with pytest.raises(NotTransactionalError, match=r"table d\.t: is not transactional"):
        check_changeable(table(kind=TransactionalKind.NONE), "UPDATE")
    with pytest.raises(InsertOnlyTableError, match=r"d\.t: is insert-only, so UPDATE"):
        check_changeable(table(kind=TransactionalKind.INSERT_ONLY), "UPDATE")
    with pytest.raises(SortedTableError, match="SORTED BY a"):
        check_changeable(table(sort_columns=("a",)), "UPDATE")
    with pytest.raises(UnsupportedTableError, match="ORC"):
        check_changeable(table(storage=Storage(format=FileFormat.PARQUET)), "UPDATE")


INSERT_ONLY = {"kind": TransactionalKind.INSERT_ONLY, "bucket_columns": (), "num_buckets": 0}


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_insert_only_tables_can_be_read_and_inserted_into(format_: FileFormat) -> None:
    plain = table(**INSERT_ONLY, storage=Storage(format=format_))
    check_readable(plain)
    check_insertable(plain)
    # Reading one that is sorted or has buckets asks for nothing.
    check_readable(dataclasses.replace(plain, sort_columns=("a",), num_buckets=2))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"sort_columns": ("a",)}, SortedTableError),
        ({"num_buckets": 2}, UnsupportedTableError),
        ({"kind": TransactionalKind.NONE}, NotTransactionalError),
    ],
)
def test_inserts_into_sorted_or_bucketed_insert_only_tables_and_flat_tables_are_refused(
    changes: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_insertable(table(**INSERT_ONLY | changes))


def test_update_star_takes_the_sources_columns_but_never_bucket_or_partition_columns() -> None:
    (update,) = resolve_merge(table(), merge(MATCHED_ALL), ["ID", "a", "b", "p", "other"])
    assert update.assignments == {"id": "s.`id`", "a": "s.`a`"}
    assert update.unchanged == ("p", "b")  # a row where the source has another value is an error
    (update,) = resolve_merge(table(), merge(MATCHED_ALL, keys=("id", "p")), ["id", "a", "p"])
    assert update.unchanged == ()


def test_insert_star_sets_columns_that_the_source_lacks_to_null() -> None:
    (insertion,) = resolve_merge(table(), merge(INSERT_ALL), ["id", "p"])
    assert insertion.assignments == {"id": "s.`id`", "a": "NULL", "b": "NULL", "p": "s.`p`"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (clause("matched", "insert"), ConfigurationError),
        (clause("not_matched", "delete"), ConfigurationError),
        (clause("matched", "update", values=("1",)), ConfigurationError),
        (clause("not_matched", "insert", set={"a": "1"}, values=("1",) * 4), ConfigurationError),
        (clause("not_matched_by_source", "update"), ConfigurationError),
        (clause("matched", "update", set={"zz": "1"}), UnknownColumnError),
        (clause("matched", "update", set={"P": "1"}), ColumnUpdateError),
        (clause("matched", "update", set={"B": "1"}), ColumnUpdateError),
    ],
)
def test_an_invalid_merge_clause_is_refused(given: MergeClause, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve_merge(table(), merge(given), ["id", "a"])


def test_a_merge_needs_clauses_and_keys_that_both_sides_have() -> None:
    with pytest.raises(ConfigurationError, match="no clauses"):
        resolve_merge(table(), merge(), ["id"])
    with pytest.raises(ConfigurationError, match="no key"):
        resolve_merge(table(), merge(INSERT_ALL, keys=()), ["id"])
    with pytest.raises(UnknownColumnError, match=r"d\.t: has no column 'zz'"):
        resolve_merge(table(), merge(INSERT_ALL, keys=("zz",)), ["zz"])
    with pytest.raises(UnknownColumnError, match="source: has no column 'a'"):
        resolve_merge(table(), merge(INSERT_ALL, keys=("a",)), ["id"])


def test_an_update_must_assign_a_column() -> None:
    with pytest.raises(ConfigurationError, match="assigns no column"):
        resolve_update(table(), UpdateSpec(target="d.t", set={}))


def insert(**changes: object) -> InsertSpec:
    return InsertSpec(target="d.t", source=SourceSpec(table="d.s"), **changes)  # type: ignore[arg-type]


def test_an_insert_by_name_leaves_missing_columns_null() -> None:
    assert resolve_insert(table(), insert(), ["P", "id"]) == {
        "id": "`id`",
        "a": "NULL",
        "b": "NULL",
        "p": "`P`",
    }


def test_an_insert_with_a_column_list_matches_by_position_and_sets_static_partitions() -> None:
    given = resolve_insert(
        table(), insert(columns=("a", "id"), partition={"p": "it's"}), ["x", "y"]
    )
    assert given == {"id": "`y`", "a": "`x`", "b": "NULL", "p": "'it\\'s'"}


def test_an_insert_refuses_wrong_column_counts_and_duplicate_or_unknown_columns() -> None:
    with pytest.raises(ConfigurationError, match="names 1 columns, but the source has 2"):
        resolve_insert(table(), insert(columns=("a",)), ["x", "y"])
    with pytest.raises(ConfigurationError, match="'p' twice"):
        resolve_insert(table(), insert(partition={"p": "1"}), ["p"])
    with pytest.raises(UnknownColumnError, match="'zz'"):
        resolve_insert(table(), insert(), ["zz"])
    with pytest.raises(UnknownColumnError, match="'a'"):
        resolve_insert(table(), insert(partition={"a": "1"}), ["id"])


POSITION = {"match": ColumnMatch.POSITION}
TWO_PARTITIONS = {"partition_columns": tuple(Column(name=n, type="int") for n in ("p", "q"))}


def test_an_insert_by_position_takes_data_columns_then_dynamic_partitions() -> None:
    wide = table(**TWO_PARTITIONS)
    data = {"id": "`b`", "a": "`id`", "b": "`x`"}
    given = resolve_insert(wide, insert(**POSITION), ["b", "id", "x", "q", "p"])
    assert given == data | {"p": "`q`", "q": "`p`"}
    fixed = insert(**POSITION, partition={"P": "1"}, dynamic_partition=("Q",))
    assert resolve_insert(wide, fixed, ["b", "id", "x", "y"]) == data | {"p": "'1'", "q": "`y`"}
    both = insert(**POSITION, partition={"q": "2", "p": "1"})
    assert resolve_insert(wide, both, ["b", "id", "x"]) == data | {"p": "'1'", "q": "'2'"}


@pytest.mark.parametrize(
    ("of_partitions", "columns"),
    [
        ({}, 3),
        ({}, 6),
        ({"partition": {"p": "1"}}, 3),
        ({"partition": {"p": "1"}}, 4),
        ({"partition": {"q": "1"}, "dynamic_partition": ("p",)}, 4),
        ({"dynamic_partition": ("q", "p")}, 5),
        ({"dynamic_partition": ("p",)}, 5),
        ({"partition": {"p": "1", "q": "2"}}, 4),
    ],
)
def test_an_insert_by_position_needs_every_column_and_the_tables_own_partition_clause(
    of_partitions: dict[str, object], columns: int
) -> None:
    with pytest.raises(ConfigurationError, match=r"INSERT into d\.t"):
        resolve_insert(
            table(**TWO_PARTITIONS),
            insert(**POSITION, **of_partitions),
            [f"c{i}" for i in range(columns)],
        )


def test_a_merge_insert_needs_a_value_for_each_column_in_table_order() -> None:
    whole = dataclasses.replace(INSERT_ALL, values=("1", "s.a", "NULL", "s.p + 1"))
    (resolved,) = resolve_merge(table(), merge(whole), ["id"])
    assert resolved.assignments == {"id": "1", "a": "s.a", "b": "NULL", "p": "s.p + 1"}
    short = dataclasses.replace(INSERT_ALL, values=("1", "2", "3"))
    with pytest.raises(ConfigurationError, match="inserts 3 values, but the table has 4 columns"):
        resolve_merge(table(), merge(short), ["id"])


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", "'plain'"),
        ("it's", r"'it\'s'"),
        ("a\\b", r"'a\\b'"),
        ("ends with \\", r"'ends with \\'"),
        (r"\' OR 1 = 1 --", r"'\\\' OR 1 = 1 --'"),
    ],
)
def test_a_string_literal_escapes_quotes_and_backslashes(text: str, literal: str) -> None:
    assert sql_string(text) == literal


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (SourceSpec(), "exactly one of: .*; found 0"),
        (SourceSpec(table="d.s", values=()), "exactly one of: .*; found 2"),
        (SourceSpec(location="/x"), "source /x needs a format"),
        (SourceSpec(tables={}), "needs a query"),
        (SourceSpec(tables={}, query="select 1", table="d.s"), "exactly one of: .*; found 2"),
        (SourceSpec(values=((1,), (1, 2))), r"values\[1\] has 2 values"),
        (SourceSpec(values=((1,),), columns=("a", "b")), "has 1 values for 2 columns"),
    ],
)
def test_a_source_is_exactly_one_of_files_a_table_a_query_or_rows_of_one_length(
    source: SourceSpec, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        check_source(source)


def test_a_delete_clause_of_a_merge_cannot_set_columns() -> None:
    delete = clause("matched", "delete", set={"a": "1"})
    with pytest.raises(ConfigurationError, match=r"d\.t: WHEN matched deletes, so it cannot set"):
        resolve_merge(table(), merge(delete), ["id"])


@pytest.mark.promise("D1")
def test_four_formats_are_read_and_written_and_others_are_refused_by_name() -> None:
    for format_ in set(FileFormat) - {FileFormat.OTHER}:
        known = table(**INSERT_ONLY, storage=Storage(format=format_))
        check_readable(known)
        check_insertable(known)
    rc = Storage(format=FileFormat.OTHER, input_format="org.RC", serde="org.Columnar")
    for check in (check_readable, check_insertable):
        with pytest.raises(UnsupportedTableError, match=r"org\.RC with org\.Columnar; .* Copy it"):
            check(table(**INSERT_ONLY, storage=rc))


def test_a_merge_clause_after_an_unconditional_one_of_its_kind_is_refused() -> None:
    clauses = [
        {"when": "matched", "action": "update"},
        {"when": "not_matched", "action": "insert"},
        {"when": "matched", "action": "delete"},
    ]
    with pytest.raises(ConfigurationError, match="no row reaches clause 3"):
        merge_clauses(clauses)
    assert len(merge_clauses([clauses[2] | {"condition": "s.gone"}, *clauses[:2]])) == 3
    # A program's job was made by no operator.
    with pytest.raises(ConfigurationError, match=r"d\.t: no row reaches clause 2"):
        resolve_merge(table(), merge(MATCHED_ALL, clause("matched", "delete")), ["id"])
