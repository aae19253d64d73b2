"""Which jobs a worker refuses before Spark starts, and which it must leave to the driver."""

from __future__ import annotations

from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    ConfigurationError,
    ConversionRefusedError,
    HiveAcidError,
    InsertOnlyTableError,
    NotTransactionalError,
    PartitionNotFoundError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionName,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.job import Job, ProgramSpec
from airflow_hiveacid.jobs.maintenance import (
    ChangeFeedSpec,
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ConversionTarget,
    ConvertSpec,
    ProveErasureSpec,
    RebalanceSpec,
    RestoreSpec,
)
from airflow_hiveacid.jobs.statements import (
    ColumnMatch,
    CreateAsSpec,
    DeleteSpec,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    MultiInsertSpec,
    SourceSpec,
    TransactionSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.operators.submission.table_checks import check_tables
from tests.contract.fake_client import FakeClient

T, PARTS, ODD, PLAIN, FLAT, STUCK, BUCKETS, OFF, GONE = (
    f"default.{name}"
    for name in ("t", "parts", "odd", "plain", "flat", "stuck", "buckets", "off", "gone")
)
ONE_ROW: Final = SourceSpec(values=((1, "a"),), columns=("id", "name"))
FILES: Final = SourceSpec(format="parquet", location="hdfs://nn/landing")
SET_NAME: Final = MergeClause(
    when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set={"name": "s.name"}
)


@pytest.fixture(autouse=True)
def _tables(client: FakeClient) -> None:
    """One table of each kind; `parts` has the partitions a/1 and b/2, and `odd` has one."""
    more: dict[str, dict[str, Any]] = {
        T: {},
        PARTS: {
            "partition_columns": (
                Column(name="day", type="string"),
                Column(name="month", type="int"),
            )
        },
        ODD: {
            "partition_columns": (
                Column(name="moment", type="timestamp"),
                Column(name="ratio", type="double"),
                Column(name="small", type="tinyint"),
                Column(name="unread", type="interval_year_month"),
            )
        },
        PLAIN: {"kind": TransactionalKind.INSERT_ONLY, "format": FileFormat.PARQUET},
        FLAT: {"kind": TransactionalKind.NONE},
        STUCK: {
            "kind": TransactionalKind.INSERT_ONLY,
            "bucket_columns": ("id",),
            "num_buckets": 2,
        },
        BUCKETS: {"bucket_columns": ("id",), "num_buckets": 2},
        OFF: {
            "partition_columns": (Column(name="day", type="string"),),
            "parameters": {"NO_AUTO_COMPACTION": "true"},
        },
    }
    columns = (Column(name="id", type="bigint"), Column(name="name", type="string"))
    made = {
        name: client.create_table(NewTable(ref=TableRef.parse(name), columns=columns, **given))
        for name, given in more.items()
    }
    names = [PartitionName.parse(name) for name in ("day=a/month=1", "day=b/month=2")]
    client.add_partitions(made[PARTS], names)
    odd = PartitionName.parse("moment=2024-01-01/ratio=0.0/small=257/unread=1")
    client.add_partitions(made[ODD], [odd])


def merge(target: str = T, source: SourceSpec = ONE_ROW, **more: Any) -> MergeSpec:  # noqa: ANN401
    given: dict[str, Any] = {"keys": ("id",), "clauses": (SET_NAME,), **more}
    return MergeSpec(target=target, source=source, **given)


def insert(source: SourceSpec = ONE_ROW, target: str = T, **more: Any) -> InsertSpec:  # noqa: ANN401
    return InsertSpec(target=target, source=source, **more)


@pytest.mark.parametrize(
    ("job", "error", "says"),
    [
        (insert(target=GONE), TableNotFoundError, GONE),
        (insert(SourceSpec(table=GONE)), TableNotFoundError, GONE),
        (insert(SourceSpec(tables={"x": GONE}, query="SELECT 1")), TableNotFoundError, GONE),
        (insert(target=FLAT), NotTransactionalError, FLAT),
        (insert(FILES, columns=("id", "nmae")), UnknownColumnError, "nmae"),
        (insert(SourceSpec(values=((1,),))), UnknownColumnError, "col1"),
        (insert(SourceSpec(table=PARTS)), UnknownColumnError, "day"),
        (insert(FILES, PARTS, partition={"dya": "a"}), UnknownColumnError, "dya"),
        (
            insert(FILES, PARTS, partition={"month": "1"}, match=ColumnMatch.POSITION),
            ConfigurationError,
            "does not match the table",
        ),
        (merge(PLAIN), InsertOnlyTableError, "MERGE"),
        (insert(target=STUCK), UnsupportedTableError, "only Hive can write"),
        (merge(source=FILES, keys=("idd",)), UnknownColumnError, "idd"),
        (merge(source=SourceSpec(table=PLAIN), keys=("idd",)), UnknownColumnError, "idd"),
        (merge(BUCKETS, clauses=(MergeClause(
            when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set={"id": "1"}),
        )), ColumnUpdateError, "bucket"),
        (merge(tables={"x": GONE}), TableNotFoundError, GONE),
        (UpdateSpec(target=T, set={"nmae": "'a'"}), UnknownColumnError, "nmae"),
        (UpdateSpec(target=PARTS, set={"day": "'a'"}), ColumnUpdateError, "partition"),
        (UpdateSpec(target=T, set={"name": "'a'"}, tables={"x": GONE}), TableNotFoundError, GONE),
        (DeleteSpec(target=PLAIN, where="id = 1"), InsertOnlyTableError, "DELETE"),
        (TruncateSpec(target=PARTS, partition={"dya": "a"}), UnknownColumnError, "dya"),
        (TruncateSpec(target=PARTS, partition={"day": "c"}), PartitionNotFoundError, "day=c"),
        (TruncateSpec(target=PARTS, partition={"month": "3"}), PartitionNotFoundError, "month=3"),
        (TruncateSpec(target=PARTS, partition={"day": None}), ConfigurationError, "'day' is NULL"),
        (LoadSpec(target=BUCKETS, location="/x"), ConfigurationError, "CLUSTERED BY"),
        (LoadSpec(target=PARTS, location="/x", partition={"day": "a"}), ConfigurationError, "ever"),
        (RestoreSpec(target=FLAT, version="version 1"), NotTransactionalError, FLAT),
        (RebalanceSpec(target=BUCKETS), UnsupportedTableError, "it is CLUSTERED BY id, so a hash"),
        (RebalanceSpec(target=PLAIN), InsertOnlyTableError, "a rebalance is impossible"),
        (RebalanceSpec(target=FLAT), NotTransactionalError, FLAT),
        (RebalanceSpec(target=PARTS, order_by=("day",)), UnknownColumnError, "no column 'day'"),
        (RebalanceSpec(target=PARTS, partition="day=c"), PartitionNotFoundError, "day=c"),
        (RebalanceSpec(target=T, partition="day=a"), PartitionNotFoundError, "day=a"),
        (CompactSpec.of_table(GONE), TableNotFoundError, GONE),
        (CompactSpec.of_table(PARTS, partition="day=a/month=2"), PartitionNotFoundError, "month=2"),
        (
            CompactSpec.of_table(OFF, partition="day=c", choice=CompactionChoice.MAJOR),
            PartitionNotFoundError,
            "day=c",
        ),
        (CleanSpec.of_table(FLAT), NotTransactionalError, FLAT),
        (ProveErasureSpec(target=FLAT, where="id = 1"), NotTransactionalError, FLAT),
        (CleanSpec.of_table(PARTS, partition="day=c/month=1"), PartitionNotFoundError, "day=c"),
        (ChangeFeedSpec(target=GONE, location="/feed"), TableNotFoundError, GONE),
        (CreateAsSpec(target=GONE, source=SourceSpec(table=GONE)), TableNotFoundError, GONE),
        (ConvertSpec(target=GONE, to=ConversionTarget.FLAT), TableNotFoundError, GONE),
        (
            ConvertSpec(target=T, to=ConversionTarget.INSERT_ONLY, plan_only=True),
            ConversionRefusedError,
            "make it flat first",
        ),
    ],
)  # fmt: skip
def test_a_job_that_its_driver_would_refuse_is_refused_before_spark_starts(
    client: FakeClient, job: Job, error: type[HiveAcidError], says: str
) -> None:
    with pytest.raises(error, match=says):
        check_tables(client, job)


@pytest.mark.parametrize(
    "job",
    [
        insert(),
        insert(FILES),
        insert(SourceSpec(table=PARTS, query="SELECT id AS nmae FROM source")),
        insert(SourceSpec(values=((1, "a", "a", 1),)), PARTS, match=ColumnMatch.POSITION),
        insert(SourceSpec(table=FLAT), PLAIN),
        merge(source=FILES, clauses=(MergeClause(
            when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
        )),
        UpdateSpec(target=T, set={"NAME": "DEFAULT"}, where="nmae = 1"),
        DeleteSpec(target=T, where="nmae = 1"),
        # Spark decides which values are equal.
        TruncateSpec(target=PARTS, partition={"Month": "01"}),
        TruncateSpec(target=PARTS, partition={"month": "x"}),
        TruncateSpec(target=PARTS, partition={"day": "b", "month": "2"}),
        LoadSpec(target=PARTS, location="/x", partition={"DAY": "c", "month": "9"}),
        CompactSpec.of_table(PARTS, partition="day=a/month=1"),
        # The driver skips this table without a look at its partitions.
        CompactSpec.of_table(OFF, partition="day=c"),
        TruncateSpec(target=ODD, partition={"moment": "2024-01-01 00:00:00.000000"}),
        TruncateSpec(target=ODD, partition={"ratio": "-0.0"}),
        TruncateSpec(target=ODD, partition={"small": "1"}),
        CleanSpec.of_table(PLAIN),
        ProveErasureSpec(target=PARTS, where="nmae = 1"),
        RestoreSpec(target=T, version="version 1"),
        RebalanceSpec(target=PARTS, partition="day=a/month=1", order_by=("name", "id")),
        # An earlier try has created the table, and its source was dropped since.
        CreateAsSpec(target=T, source=SourceSpec(table=GONE)),
        CreateAsSpec(target=GONE, source=SourceSpec(table=T)),
        # An earlier try has written this run's range, and the column was dropped since.
        ChangeFeedSpec(target=T, location="/feed", keys=("gone",), columns=("gone",)),
        # The driver first undoes or finishes an interrupted conversion.
        ConvertSpec(target=T, to=ConversionTarget.INSERT_ONLY),
        # A program may create its tables.
        ProgramSpec(application="/program.py", inserts=(GONE,)),
    ],
)  # fmt: skip
def test_a_job_that_its_driver_may_accept_passes_the_checks(client: FakeClient, job: Job) -> None:
    check_tables(client, job)


def test_a_table_that_an_interrupted_conversion_renamed_passes_the_checks(
    client: FakeClient,
) -> None:
    columns = (Column(name="id", type="bigint"),)
    client.create_table(NewTable(ref=TableRef("default", "gone__acid"), columns=columns))
    check_tables(client, ConvertSpec(target=GONE, to=ConversionTarget.FLAT))


def test_an_error_in_a_transaction_names_the_statement(client: FakeClient) -> None:
    both = MultiInsertSpec(
        inserts=(insert(SourceSpec(tables={"x": T}, query="SELECT * FROM x"), target=FLAT),)
    )
    job = TransactionSpec(statements=(insert(), both, merge()))
    with pytest.raises(NotTransactionalError) as caught:
        check_tables(client, job)
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
