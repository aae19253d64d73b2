"""What cannot be done is refused before anything is written, with an error that names the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import DeleteSpec, InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.plan.statements.dml import check_changeable
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, value_failure
from airflow_hiveacid.spark.writing.context import JobContext
from spark_apps.merge import merge
from tests.support.merge_clauses import INSERT_ALL, UPDATE_ALL, unmatched_insert
from tests.support.spark_lab import Lab, make_lab
from tests.support.terms import job_terms
from tests.unit.storage.orc_tables import B1, insert, write_acid


@pytest.fixture(scope="module")
def t(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """One table for all tests that leave it as it is."""
    for lab in make_lab(spark, hive_metastore):
        yield filled(lab)


@pytest.fixture
def own(lab4: Lab) -> Lab:
    """Such a table for one test."""
    return filled(lab4)


def filled(lab: Lab) -> Lab:
    lab.table(
        "t", {"id": "bigint", "n": "int", "b": "int"}, partition={"p": "int"}, buckets=("b", 2)
    )
    lab.insert("t", [(1, 1, 1, 1), (2, 2, 2, 2)], ["id", "n", "b", "p"])
    return lab


def untouched(lab: Lab) -> None:
    """Nothing was written, nothing is left over, no transaction stays open."""
    assert lab.rows("t") == [(1, 1, 1, 1), (2, 2, 2, 2)]
    files = {str(p.relative_to(lab.root("t"))) for p in lab.root("t").rglob("*") if p.is_file()}
    assert {f.partition("/")[2].partition("/")[0] for f in files if f.startswith("p=")} == {
        "delta_0000001_0000001_0000"
    }
    assert not [f for f in files if "_tmp_" in f]
    assert lab.client.show_locks(lab.info("t").ref) == ()


def test_the_error_about_a_missing_table_names_it(t: Lab) -> None:
    with pytest.raises(errors.TableNotFoundError, match=rf"{t.db}\.nope"):
        t.delete("nope")
    untouched(t)


@pytest.mark.promise("D5")
def test_a_delete_from_a_flat_table_is_refused(t: Lab) -> None:
    t.table("plain", {"id": "int"}, kind=TransactionalKind.NONE)
    with pytest.raises(errors.NotTransactionalError, match=r"plain: is not transactional"):
        t.delete("plain")


@pytest.mark.promise("D4")
def test_a_delete_from_an_insert_only_table_is_refused(t: Lab) -> None:
    t.table("mm", {"id": "int"}, kind=TransactionalKind.INSERT_ONLY)
    with pytest.raises(errors.InsertOnlyTableError, match=r"mm: is insert-only, so DELETE"):
        t.delete("mm")


@pytest.mark.promise("W11")
def test_a_partition_column_cannot_be_updated(t: Lab) -> None:
    with pytest.raises(errors.ColumnUpdateError, match=r"'p' cannot be updated"):
        t.update("t", {"p": "3"})
    untouched(t)


@pytest.mark.promise("W11")
def test_a_bucket_column_cannot_be_updated(t: Lab) -> None:
    with pytest.raises(errors.ColumnUpdateError, match=r"'b' cannot be updated"):
        t.update("t", {"b": "3"})
    untouched(t)


@pytest.mark.parametrize(("column", "row"), [("b", (1, 5, 2, 1)), ("p", (1, 5, 1, 2))])
@pytest.mark.long_cases("p-*")
def test_a_merge_that_updates_a_bucket_or_partition_value_is_refused(
    t: Lab, column: str, row: tuple[int, ...]
) -> None:
    with pytest.raises(errors.ColumnUpdateError, match=rf"'{column}' cannot be updated"):
        t.merge("t", [row], ["id", "n", "b", "p"], ["id"], [UPDATE_ALL])
    untouched(t)


@pytest.mark.parametrize("key", [1.5, "x", 2**63])
@pytest.mark.long_cases("1.5")
def test_the_error_quotes_a_merge_key_that_does_not_fit_its_column(t: Lab, key: object) -> None:
    words = rf"{t.db}\.t: column 'id' is bigint.*'{key}'"
    with pytest.raises(errors.TypeMismatchError, match=words):
        t.merge("t", [(1, 5), (key, 6)], ["id", "n"], ["id"], [UPDATE_ALL])
    untouched(t)


@pytest.mark.promise("W7")
def test_two_source_rows_for_one_target_row_raise_an_error_and_change_nothing(t: Lab) -> None:
    with pytest.raises(errors.MergeCardinalityError, match=rf"{t.db}\.t: 1 target row"):
        t.merge("t", [(1, 5), (1, 6)], ["id", "n"], ["id"], [UPDATE_ALL])
    untouched(t)


def test_two_source_rows_for_one_target_row_are_allowed_if_only_one_meets_a_clause(
    own: Lab,
) -> None:
    clause = dataclasses.replace(UPDATE_ALL, condition="s.n = 6", set={"n": "s.n"})
    own.merge("t", [(1, 5), (1, 6)], ["id", "n"], ["id"], [clause])
    assert own.rows("t") == [(1, 6, 1, 1), (2, 2, 2, 2)]


def test_the_error_about_an_unknown_column_lists_the_existing_columns(t: Lab) -> None:
    with pytest.raises(errors.UnknownColumnError, match=r"no column 'zz'.*id, n, b, p"):
        t.update("t", {"zz": "1"})
    with pytest.raises(errors.UnknownColumnError, match="zz"):
        t.delete("t", "zz = 1")
    untouched(t)


def test_an_expression_with_a_syntax_error_is_refused(t: Lab) -> None:
    with pytest.raises(errors.ExpressionError, match=r"cannot use the expression 'n \+'"):
        t.update("t", {"n": "n +"})
    untouched(t)


def test_a_value_of_a_type_that_does_not_fit_its_column_is_refused(t: Lab) -> None:
    with pytest.raises(errors.TypeMismatchError, match=r"'n' is int, but the value is boolean"):
        t.update("t", {"n": "true"})
    untouched(t)


def test_a_value_that_overflows_its_column_raises_an_error_and_changes_nothing(t: Lab) -> None:
    with pytest.raises(Exception, match=r"(?i)overflow"):
        t.update("t", {"n": "cast(n as bigint) + 3000000000"})
    untouched(t)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (DeleteSpec(target="", where="id = 'seven'"), "id = 'seven'"),
        (DeleteSpec(target="", where="p > 0 AND n / (b - b) > 1"), "n / (b - b)"),
        (UpdateSpec(target="", set={"n": "n / (b - b)"}), "n / (b - b)"),
        (UpdateSpec(target="", set={"n": "array(1)[n]"}), "array(1)[n]"),
        (
            UpdateSpec(target="", set={"n": "cast(n AS bigint) + 3000000000"}),
            "UPDATE",
        ),
        (
            InsertSpec(
                target="", source=SourceSpec(tables={}, query="SELECT 1L id, 1 / 0 n, 1 b, 1 p")
            ),
            "1 / 0",
        ),
    ],
    ids=str,
)
def test_an_error_that_a_value_causes_becomes_one_that_names_the_part_of_the_statement(
    t: Lab, change: DeleteSpec | UpdateSpec | InsertSpec, part: str
) -> None:
    spec = dataclasses.replace(change, target=f"{t.db}.t")
    with pytest.raises(SPARK_ERRORS) as raised:
        t.run(spec)
    failure = value_failure(raised.value, spec)
    assert failure is not None
    assert str(failure).startswith(f"table {t.db}.t: cannot use the expression {repr(part)[:-1]}")
    assert ": [" in str(failure)
    untouched(t)


def test_the_error_about_a_missing_source_names_it(t: Lab, tmp_path: Path) -> None:
    source = SourceSpec(format="parquet", location=str(tmp_path / "nothing"))
    with pytest.raises(errors.SourceNotFoundError, match="nothing"):
        t.run(InsertSpec(target=f"{t.db}.t", source=source))
    with pytest.raises(errors.TableNotFoundError, match=r"nope"):
        t.run(InsertSpec(target=f"{t.db}.t", source=SourceSpec(table=f"{t.db}.nope")))
    with pytest.raises(errors.ConfigurationError, match="exactly one"):
        t.run(InsertSpec(target=f"{t.db}.t", source=SourceSpec()))
    untouched(t)


def test_the_error_about_an_unreachable_metastore_contains_its_address(t: Lab) -> None:
    down = dataclasses.replace(
        t, endpoint=MetastoreEndpoint(uris=("thrift://127.0.0.1:1",), connect_timeout_s=1.0)
    )
    with pytest.raises(errors.MetastoreUnavailableError, match=r"127\.0\.0\.1:1"):
        down.delete("t")


@pytest.mark.promise("L5")
def test_a_lock_that_times_out_raises_an_error_and_leaves_no_waiting_lock(own: Lab) -> None:

    table = own.info("t")
    access = TableAccess(table=table, operations=frozenset({DataOperation.OVERWRITE}))
    with (
        connect(own.endpoint) as other,
        begin(other, job_terms(f"{own.db}/other"), writes=[access]) as txn,
    ):
        with pytest.raises(errors.LockNotAcquiredError, match=rf"no lock on {own.db}\.t after"):
            own.delete("t", lock_timeout_s=1.0)
        assert {k.txn_id for k in own.client.show_locks(table.ref)} == {txn.txn_id}
        txn.abandon()
    untouched(own)


def test_a_job_whose_transaction_was_aborted_meanwhile_fails_and_changes_nothing(own: Lab) -> None:
    def abort_at(step: str) -> Callable[[str], None]:
        def hook(reached: str) -> None:
            if reached == step:
                (txn,) = {k.txn_id for k in own.client.show_locks(own.info("t").ref)}
                assert txn is not None
                own.client.abort_txn(txn)

        return hook

    for step in ("staged", "published"):
        with pytest.raises(errors.TransactionAbortedError, match="is aborted"):
            own.delete("t", "id = 1", on_step=abort_at(step))
        assert own.rows("t") == [(1, 1, 1, 1), (2, 2, 2, 2)]


def test_the_error_about_a_location_without_write_permission_names_it(own: Lab) -> None:
    # Nobody makes a directory in the kernel's own file system, not even root.
    own.table("fixed", {"id": "bigint"})
    own.root("fixed").rmdir()
    own.root("fixed").symlink_to("/sys/kernel")
    with pytest.raises(errors.LocationPermissionError, match=r"no permission to write .*fixed"):
        own.delete("fixed")


def test_the_error_about_a_damaged_file_names_it_and_nothing_is_written(own: Lab) -> None:
    (file,) = own.root("t").glob("p=1/delta_*/bucket_*")
    content = file.read_bytes()
    file.write_bytes(content[:-20] + b"\0" * 20)
    with pytest.raises(errors.CorruptFileError, match=file.name):
        own.update("t", {"n": "0"})
    with pytest.raises(errors.CorruptFileError, match=file.name):
        own.compact("t", CompactionChoice.MAJOR, partition="p=1")
    file.write_bytes(content)
    untouched(own)


def test_delete_events_for_a_bucket_without_a_data_file_raise_an_error(own: Lab) -> None:
    own.delete("t", "id = 1")
    (file,) = own.root("t").glob("p=1/delta_*/bucket_*")
    file.unlink()
    with pytest.raises(errors.DanglingDeleteError, match="delete_delta"):
        own.rows("t")
    with pytest.raises(errors.DanglingDeleteError, match="delete_delta"):
        own.compact("t", CompactionChoice.MAJOR, partition="p=1")


def test_a_sorted_table_is_refused(t: Lab) -> None:

    # No metastore makes such a table any more; tables from before it learned to refuse exist.
    with pytest.raises(errors.SortedTableError, match="SORTED BY n"):
        check_changeable(dataclasses.replace(t.info("t"), sort_columns=("n",)), "DELETE")


def test_a_not_matched_condition_cannot_use_target_columns(t: Lab) -> None:
    clause = unmatched_insert("t.n = 1")
    with pytest.raises(errors.UnknownColumnError, match=r"t\.n"):
        t.merge("t", [(9, 9)], ["id", "n"], ["id"], [clause])
    untouched(t)


def test_the_merge_job_refuses_a_spec_of_a_different_kind(t: Lab) -> None:

    spec = JobSpec(
        job_key="k", metastore=t.endpoint, job=DeleteSpec(target=f"{t.db}.t", where="id = 1")
    )
    with pytest.raises(errors.ConfigurationError, match="does not run delete jobs"):
        merge(JobContext.of(t.spark, spec, t.client, print))


def test_a_row_in_a_file_of_another_bucket_is_changed_only_after_a_major_compaction(
    lab4: Lab,
) -> None:
    """Hive 4 would ignore the delete event, because its file has the bucket of the row."""
    lab4.table("m", {"id": "int", "name": "string"})
    lab4.insert("m", [(1, "n1"), (2, "n2")], ["id", "name"])
    (delta,) = lab4.directories("m")
    write_acid(
        lab4.root("m") / delta / "bucket_00000", [insert(1, 0, 1), insert(1, 0, 2, bucket=B1)]
    )
    assert lab4.rows("m") == [(1, "n1"), (2, "n2")]
    for change in (
        lambda: lab4.delete("m", "id = 2"),
        lambda: lab4.update("m", {"name": "'x'"}, "id = 2"),
        lambda: lab4.merge("m", [(2, "x")], ["id", "name"], ["id"], [UPDATE_ALL]),
    ):
        with pytest.raises(errors.UnsupportedFileError, match=f"{delta}/bucket_00000.*compact"):
            change()
    lab4.merge("m", [(2, "x")], ["id", "name"], ["id"], [INSERT_ALL])
    assert lab4.directories("m") == [delta]
    assert lab4.rows("m") == [(1, "n1"), (2, "n2")]
    lab4.compact("m", CompactionChoice.MAJOR)
    lab4.delete("m", "id = 2")
    assert lab4.rows("m") == [(1, "n1")]
