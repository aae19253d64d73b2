from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset

from airflow_hiveacid.assets import compaction_asset, hive_asset, partitions_asset
from airflow_hiveacid.assets.uris import WHOLE_TABLE, AssetUri, dataset_name, normalized
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ConfigurationError, InvalidNameError
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun, RowCounts, StatementResult
from airflow_hiveacid.operators.reporting.outlets import describe_outlets
from tests.support.airflow_minors import IS_3_3
from tests.support.airflow_support import Connections, context_of


class _Spec:
    generation = 0
    on_rerun = OnRerun.APPLY


class _Task:
    def __init__(self, *outlets: Asset) -> None:
        self.outlets = list(outlets)


KeysOf = Callable[[JobResult], set[str]]


@pytest.fixture
def keys_of(caplog: pytest.LogCaptureFixture) -> KeysOf:
    """Get the partition keys of a result's event; below Airflow 3.3, only the log has them."""

    def keys_of_event(result: JobResult) -> set[str]:
        caplog.clear()
        asset, context = partitions_asset("db.t"), context_of()
        describe_outlets(_Task(asset), context, [(_Spec(), result)])  # type: ignore[arg-type]
        if IS_3_3:
            assert caplog.messages == []
            return set(context["outlet_events"][asset].partition_keys)
        said = "events have no partition keys below Airflow 3.3; left out: "
        assert all(message.startswith(said) for message in caplog.messages)
        keys = [ast.literal_eval(message.removeprefix(said)) for message in caplog.messages]
        return set().union(*keys)

    return keys_of_event


def _merged(table: str, *partitions: str) -> JobResult:
    return JobResult(
        kind="merge",
        job_key="k",
        status=JobStatus.COMMITTED,
        table=table,
        partitions=partitions,
    )


def test_table_partition_and_compaction_assets_have_different_names_and_uris() -> None:
    assets = [hive_asset("Db.T"), partitions_asset("db.t"), compaction_asset("db.t")]
    assert [(one.name, one.uri) for one in assets] == [
        ("db.t", "hiveacid://hive_acid_default/db/t"),
        ("db.t partitions", "hiveacid://hive_acid_default/db/t/partitions"),
        ("db.t compaction", "hiveacid://hive_acid_default/db/t/compaction"),
    ]
    other = hive_asset("db.t", hive_acid_conn_id="hms/2")
    assert (other.name, other.uri) == ("hms/2: db.t", "hiveacid://hms%2F2/db/t")
    assert AssetUri.of(other) == AssetUri(conn_id="hms/2", table=AssetUri.of(assets[0]).table)  # type: ignore[union-attr]
    assert AssetUri.of(Asset("db.t")) is None


def test_compaction_assets_with_different_settings_have_different_names_and_uris() -> None:
    plain = compaction_asset("db.t", delta_count=None, delta_ratio=None)
    assert plain == compaction_asset("db.t")
    few = compaction_asset("db.t", delta_count=5, delta_ratio="off")
    assert (few.name, few.uri) == (
        "db.t compaction delta_count=5 delta_ratio=off",
        "hiveacid://hive_acid_default/db/t/compaction?delta_count=5&delta_ratio=off",
    )
    small = compaction_asset("db.t", also_when={"small_files": 200, "aborted_transactions": "off"})
    assert small.name == "db.t compaction also_when=aborted_transactions:off,small_files:200"
    assert small == compaction_asset("db.t", also_when="small_files=200,aborted_transactions=off")
    others = [
        small,
        compaction_asset("db.t", delta_count=10, delta_ratio=0.1),  # not the table's own thresholds
        compaction_asset("db.t", poll_interval=timedelta(seconds=90)),
        compaction_asset("db.t", refire_after=timedelta(days=30)),
    ]
    assert len({asset.uri for asset in (plain, few, *others)}) == 6
    assert len({asset.name for asset in (plain, few, *others)}) == 6
    for asset in (plain, few, *others):
        assert str(AssetUri.of(asset)) == normalized(urlsplit(asset.uri)).geturl() == asset.uri


def test_wrong_arguments_of_an_asset_are_refused_while_the_dag_is_parsed() -> None:
    with pytest.raises(InvalidNameError):
        compaction_asset("no_database")
    with pytest.raises(ConfigurationError, match="delta_count must be 1 or more"):
        compaction_asset("db.t", delta_count=0)
    with pytest.raises(ConfigurationError, match="delta_count and delta_ratio are both off"):
        compaction_asset("db.t", delta_count="off", delta_ratio="off")
    with pytest.raises(ConfigurationError, match="also_when has no threshold 'files'"):
        compaction_asset("db.t", also_when={"files": 1})
    with pytest.raises(ConfigurationError, match="poll_interval must be above 0 s, found 0"):
        compaction_asset("db.t", poll_interval=timedelta(0))
    with pytest.raises(ConfigurationError, match="refire_after must be 0 s or more, found -5"):
        compaction_asset("db.t", refire_after=timedelta(seconds=-5))


def test_our_asset_uris_are_normalized_and_other_uris_are_refused() -> None:
    parts = urlsplit("hiveacid://hms/DB/T")
    assert normalized(parts).geturl() == "hiveacid://hms/db/t"
    for wrong in ("hiveacid://hms/db", "hiveacid:///db/t", "hiveacid://hms/db/t/x/y"):
        with pytest.raises(ValueError, match="not an asset URI of a Hive ACID table"):
            normalized(urlsplit(wrong))
    with pytest.raises(ValueError, match="'rows'"):
        normalized(urlsplit("hiveacid://hms/db/t/rows"))
    with pytest.raises(InvalidNameError):
        hive_asset("t")


def test_a_lineage_dataset_names_the_first_server_of_the_connection(
    connections: Connections,
) -> None:
    connections.add(
        "hms", "hive_acid_metastore", extra={"uris": "thrift://one:9083,thrift://two:9083"}
    )
    uri = AssetUri.of(hive_asset("db.t", hive_acid_conn_id="hms"))
    assert uri is not None
    assert dataset_name(uri) == ("hive://one:9083", "db.t")


@pytest.mark.parametrize(
    ("partitions", "keys"),
    [
        (("day=1", "day=2"), {"day=1", "day=2"}),
        (("",), {WHOLE_TABLE}),
        ((), {WHOLE_TABLE}),
        (tuple(f"day={n}" for n in range(100)), {f"day={n}" for n in range(100)}),
        (tuple(f"day={n}" for n in range(101)), {WHOLE_TABLE}),
        (("day=1", "day=" + "x" * 250), {WHOLE_TABLE}),
    ],
    ids=["partitions", "unpartitioned", "none", "most", "too many", "too long"],
)
def test_an_event_has_changed_partitions_as_keys_or_one_key_for_the_whole_table(
    keys_of: KeysOf, partitions: tuple[str, ...], keys: set[str]
) -> None:
    assert keys_of(_merged("db.t", *partitions)) == keys


@pytest.mark.parametrize(
    ("files", "keys"), [(0, set()), (1, {WHOLE_TABLE})], ids=["delete", "truncate"]
)
def test_a_statement_that_wrote_no_file_has_no_partition_key(
    keys_of: KeysOf, files: int, keys: set[str]
) -> None:
    result = JobResult(
        kind="sql",
        job_key="k",
        status=JobStatus.COMMITTED,
        table="db.t",
        write_ids={"db.t": 7},
        files=files,
    )
    statement = StatementResult(kind="sql", table="db.t", rows=RowCounts(), files=files)
    assert keys_of(result) == keys
    assert keys_of(replace(result, details={"statements": [to_json(statement)]})) == keys


def test_partitions_of_a_different_table_are_not_partition_keys(keys_of: KeysOf) -> None:
    assert keys_of(_merged("db.s", "day=1")) == set()
