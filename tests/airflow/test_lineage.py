"""OpenLineage's own extractor gets the tables of a task; the metastore and Spark are stand-ins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk import BaseOperator

from airflow_hiveacid import operators
from airflow_hiveacid.format.records import Tag
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook, MadeTable
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.metastore_statements import DropTable, MetastoreStatement
from airflow_hiveacid.metastore.catalog import NewTable, table_struct
from airflow_hiveacid.metastore.definitions import DefinitionOutcome
from airflow_hiveacid.metastore.gen.faults.ttypes import NoSuchObjectException
from airflow_hiveacid.metastore.gen.tables.ttypes import GetTableResult
from airflow_hiveacid.operators.reporting.lineage import lineage_of
from tests.contract.stub_server import StubServer
from tests.support.airflow_support import Connections, FakeSpark, context_of, operator_of, run_task
from tests.support.cases import cases_of

_CLAUSES: Final = [{"when": "matched", "action": "update"}]
_COLUMNS: Final = {"sales": ("id", "price", "note"), "lines": ("id", "Price", "extra")}
"""The data columns of some tables; all other tables have only `id`."""


def _table(request: Any) -> GetTableResult:  # noqa: ANN401 - generated code has no types
    if request.tblName == "gone":
        raise NoSuchObjectException("demo.gone table not found")
    table = NewTable(
        ref=TableRef("demo", request.tblName),
        columns=tuple(
            Column(name=name.lower(), type="bigint")
            for name in _COLUMNS.get(request.tblName, ("id",))
        ),
        partition_columns=(Column(name="day", type="date"),),
        kind=TransactionalKind.FULL_ACID,
        location=f"file:/warehouse/{request.tblName}",
    )
    return GetTableResult(table=table_struct(table))


@pytest.fixture(autouse=True)
def metastore(connections: Connections) -> Iterator[StubServer]:
    """A metastore that knows every table except `demo.gone`."""
    with StubServer(get_table_req=_table) as server:
        connections.metastore(server.uri)
        yield server


def _on_orders(operator: type[BaseOperator], **arguments: Any) -> Any:  # noqa: ANN401 - the operator
    return operator(task_id="task", table="demo.orders", **arguments)


def _sql(sql: str, **more: Any) -> operators.HiveAcidSqlOperator:  # noqa: ANN401
    return operators.HiveAcidSqlOperator(task_id="task", sql=sql, **more)


def _transaction(statements: list[Any]) -> operators.HiveAcidTransactionOperator:
    return operators.HiveAcidTransactionOperator(task_id="task", statements=statements)


def _merge() -> operators.HiveAcidMergeOperator:
    return operators.HiveAcidMergeOperator(
        task_id="task",
        table="demo.orders",
        source={"table": "demo.arrivals"},
        keys=["id"],
        clauses=_CLAUSES,
    )


def _extracted(task: BaseOperator) -> OperatorLineage:
    """The lineage that OpenLineage gets when the task starts."""
    found = DefaultExtractor(task).extract()
    assert found is not None
    return found


def _names(found: OperatorLineage) -> tuple[list[str], list[str]]:
    return [one.name for one in found.inputs], [one.name for one in found.outputs]


def _task(text: str) -> BaseOperator:
    operator, arguments = operator_of(text)
    return operator(task_id="task", **arguments)


_CASES: Final = Path(__file__).with_name("cases")
_TASKS: Final = [
    (_task(text), *json.loads(tables)) for text, tables in cases_of(_CASES / "lineage.txt")
]
_WITHOUT_LINEAGE: Final = (
    # It measures tables, but reads and writes no rows.
    operators.HiveAcidCollectOperator(task_id="task"),
)


@pytest.mark.promise("A13")
@pytest.mark.parametrize(
    ("task", "read", "written"), _TASKS, ids=lambda given: type(given).__name__
)
def test_a_task_reports_the_tables_that_it_reads_and_writes_when_it_starts(
    task: BaseOperator, read: list[str], written: list[str]
) -> None:
    assert _names(_extracted(task)) == (read, written)


@pytest.mark.parametrize(
    ("location", "dataset"),
    [
        ("s3n://b/d/e", ("s3://b", "d/e")),
        ("s3a://b", ("s3://b", "/")),
        ("gs://b/d", ("gs://b", "d")),
        ("hdfs://nn:8020/d/", ("hdfs://nn:8020", "/d")),
        ("abfss://c@a.dfs.core.windows.net/d", ("abfss://c@a.dfs.core.windows.net", "/d")),
        ("file:///d", ("file", "/d")),
        ("file:/d", ("file", "/d")),
        ("/d", None),
    ],
)
def test_source_files_have_openlineage_dataset_names(
    location: str, dataset: tuple[str, str] | None
) -> None:
    task = _transaction(
        [
            f"LOAD DATA INPATH '{location}' INTO TABLE demo.orders",
            f"LOAD DATA INPATH '{location}' INTO TABLE demo.returns",
        ],
    )
    found = _extracted(task)
    named = [(one.namespace, one.name) for one in found.inputs]
    assert named == ([] if dataset is None else [dataset])


@pytest.mark.promise("A13")
def test_the_lineage_of_every_operator_is_tested() -> None:
    exported = {getattr(operators, name) for name in operators.__all__}
    classes = {one for one in exported if isinstance(one, type) and issubclass(one, BaseOperator)}
    assert {type(task) for task, *_ in _TASKS} | set(map(type, _WITHOUT_LINEAGE)) == classes


@pytest.mark.parametrize("task", _WITHOUT_LINEAGE, ids=lambda task: type(task).__name__)
def test_an_operator_that_reads_and_writes_no_rows_has_no_lineage(task: BaseOperator) -> None:
    assert ExtractorManager().get_extractor_class(task) is None


def test_a_table_dataset_has_the_address_of_the_metastore_and_its_columns(
    metastore: StubServer,
) -> None:
    found = _extracted(_merge())
    (table,) = found.inputs
    assert table.namespace == metastore.uri.replace("thrift:", "hive:")
    columns = [(one.name, one.type) for one in table.facets["schema"].fields]
    assert columns == [("id", "bigint"), ("day", "date")]


@pytest.mark.usefixtures("spark")
def test_a_task_reports_the_version_and_counts_of_its_table_when_it_ends() -> None:
    task = _merge()
    run_task(task, context_of("task"))
    found = DefaultExtractor(task).extract_on_complete(None)
    assert _names(found) == (["demo.arrivals"], ["demo.orders"])
    (written,) = found.outputs
    assert written.facets["version"].datasetVersion == "3"
    counts = written.outputFacets["outputStatistics"]
    assert (counts.rowCount, counts.fileCount, counts.size) == (3, 4, 500)
    assert "version" not in found.inputs[0].facets


def test_a_failed_task_reports_no_version(spark: FakeSpark) -> None:
    spark.tell(error={"type": "WriteConflictError", "message": "another write"}, status="failed")
    task = _merge()
    with pytest.raises(Exception, match="another write"):
        run_task(task, context_of("task"))
    found = DefaultExtractor(task).extract_on_failure(None)
    assert found is not None
    (written,) = found.outputs
    assert set(written.facets) == {"schema", "columnLineage"}
    assert written.outputFacets == {}


def test_a_missing_table_is_reported_without_columns() -> None:
    task = operators.HiveAcidCompactOperator(task_id="task", table="demo.gone")
    found = _extracted(task)
    assert [(one.name, one.facets) for one in found.outputs] == [("demo.gone", {})]


def test_tables_are_reported_without_columns_if_the_metastore_is_unreachable(
    connections: Connections, metastore: StubServer
) -> None:
    uri = metastore.uri
    metastore.__exit__(None, None, None)
    connections.metastore(uri)
    found = _extracted(_merge())
    assert [(one.name, one.facets) for one in found.outputs] == [("demo.orders", {})]


# ---- definitions ---------------------------------------------------------------------------------


def _change(dataset: Any) -> tuple[str, str | None]:  # noqa: ANN401 - OpenLineage's
    """The change of a table as a whole, and the table's name before it."""
    facet = dataset.facets["lifecycleStateChange"]
    previous = facet.previousIdentifier
    return facet.lifecycleStateChange.value, None if previous is None else previous.name


@pytest.mark.parametrize("is_new", [True, False])
def test_a_create_task_reports_the_columns_of_the_table_and_whether_it_is_new(
    monkeypatch: pytest.MonkeyPatch, *, is_new: bool
) -> None:
    made = MadeTable(ref=TableRef("demo", "gone"), is_new=is_new, location="file:/warehouse/gone")
    monkeypatch.setattr(HiveAcidHook, "create_table", lambda *_, **__: made)
    task = operators.HiveAcidCreateTableOperator(
        task_id="task",
        table="demo.gone",
        columns={"id": "{{ 'bigint' }}"},
        partition_columns={"day": "date"},
    )
    run_task(task)
    for found in (
        DefaultExtractor(task).extract_on_complete(None),
        DefaultExtractor(task).extract_on_failure(None),
    ):
        assert _names(found) == ([], ["demo.gone"])
        (table,) = found.outputs
        columns = [(one.name, one.type) for one in table.facets["schema"].fields]
        assert columns == [("id", "bigint"), ("day", "date")]
        assert ("lifecycleStateChange" in table.facets) is is_new
        assert not is_new or _change(table) == ("CREATE", None)


def test_a_tag_task_reports_the_version_that_it_tagged(monkeypatch: pytest.MonkeyPatch) -> None:
    write_ids = f"demo.orders:12:{2**63 - 1}::"
    tag = Tag(name="closing", table_id="1", write_ids=write_ids, made_s=0.0)
    monkeypatch.setattr(HiveAcidHook, "make_tag", lambda *_, **__: tag)
    task = _on_orders(operators.HiveAcidTagOperator, name="closing")
    run_task(task)
    found = DefaultExtractor(task).extract_on_complete(None)
    assert _names(found) == (["demo.orders"], [])
    assert found.inputs[0].facets["version"].datasetVersion == "12"


@pytest.mark.usefixtures("spark")
def test_a_script_reports_the_tables_that_it_creates_alters_renames_and_drops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unchanged = {"demo.there"}

    def run(_: HiveAcidHook, statement: MetastoreStatement, **__: object) -> DefinitionOutcome:
        return DefinitionOutcome(has_changed=statement.target not in unchanged)

    monkeypatch.setattr(HiveAcidHook, "run", run)
    task = _sql(
        "CREATE TABLE demo.new (id bigint);"
        " ALTER TABLE demo.new SET TBLPROPERTIES ('a' = 'b');"
        " CREATE TABLE IF NOT EXISTS demo.there (id bigint);"
        " ALTER TABLE demo.altered ADD COLUMNS (b int); ALTER TABLE demo.old RENAME TO demo.young;"
        " TRUNCATE TABLE demo.emptied; INSERT OVERWRITE TABLE demo.replaced VALUES (1);"
        " INSERT INTO demo.added VALUES (1); DROP TABLE demo.gone;"
        " LOAD DATA INPATH 'file:/x' INTO TABLE demo.loaded;"
        " LOAD DATA INPATH 'file:/x' OVERWRITE INTO TABLE demo.reloaded;"
        " CREATE TABLE demo.brief (id bigint); DROP TABLE demo.brief"
    )
    run_task(task)
    found = DefaultExtractor(task).extract_on_complete(None)
    changes = {
        table.name: _change(table)
        for table in found.outputs
        if "lifecycleStateChange" in table.facets
    }
    assert changes == {
        "demo.new": ("CREATE", None),
        "demo.altered": ("ALTER", None),
        "demo.young": ("RENAME", "demo.old"),
        "demo.emptied": ("TRUNCATE", None),
        "demo.replaced": ("OVERWRITE", None),
        "demo.gone": ("DROP", None),
        "demo.reloaded": ("OVERWRITE", None),
        "demo.brief": ("DROP", None),
    }
    unnamed = {table.name for table in found.outputs} - changes.keys()
    assert unnamed == {"demo.there", "demo.added", "demo.loaded"}


def _result(table: str, status: JobStatus = JobStatus.COMMITTED, **more: Any) -> JobResult:  # noqa: ANN401
    return JobResult(kind="kind", job_key="key", status=status, table=table, **more)


@pytest.mark.parametrize(
    ("status", "is_told"),
    [
        (JobStatus.COMMITTED, True),
        (JobStatus.ALREADY_DONE, True),
        (JobStatus.NOTHING_TO_DO, False),
        (JobStatus.PLANNED, False),
        (JobStatus.FAILED, False),
    ],
)
def test_a_change_that_this_or_an_earlier_try_committed_is_reported(
    status: JobStatus, *, is_told: bool
) -> None:
    job = DropTable(target="demo.gone")
    found = lineage_of("hive_acid_default", [job], [_result("demo.gone", status)])
    (table,) = found.outputs
    assert ("lifecycleStateChange" in table.facets) is is_told
    assert table.outputFacets == {}  # the metastore counts nothing


def test_a_transaction_reports_the_tables_that_it_truncates_or_overwrites() -> None:
    task = _transaction(
        [
            "FROM demo.a INSERT OVERWRITE TABLE demo.b SELECT * INSERT INTO demo.c SELECT *",
            "TRUNCATE TABLE demo.d",
        ],
    )
    write_ids = {"demo.b": 3, "demo.c": 4, "demo.d": 5}
    result = _result("demo.b", write_ids=write_ids)
    found = lineage_of("hive_acid_default", task.build_jobs(), [result])
    assert {
        table.name: (table.facets["version"].datasetVersion, _change(table))
        for table in found.outputs
        if "lifecycleStateChange" in table.facets
    } == {"demo.b": ("3", ("OVERWRITE", None)), "demo.d": ("5", ("TRUNCATE", None))}


def test_a_script_reports_the_last_version_and_the_total_counts_of_a_table() -> None:
    task = _sql("DELETE FROM demo.t WHERE id = 1; UPDATE demo.t SET id = 2")
    results = [
        _result(
            "demo.t", write_ids={"demo.t": 3}, rows=RowCounts(deleted=7), files=1, size_bytes=9
        ),
        _result(
            "demo.t", write_ids={"demo.t": 4}, rows=RowCounts(updated=2), files=3, size_bytes=5
        ),
    ]
    (table,) = lineage_of("hive_acid_default", task.build_jobs(), results).outputs
    assert table.facets["version"].datasetVersion == "4"
    counts = table.outputFacets["outputStatistics"]
    assert (counts.rowCount, counts.fileCount, counts.size) == (2, 4, 14)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("gone", [("key", "string"), ("month", "int")]),
        ("there", [("id", "bigint"), ("day", "date")]),
    ],
)
def test_a_table_that_does_not_exist_yet_has_the_columns_of_its_create_statement(
    name: str, columns: list[tuple[str, str]]
) -> None:
    task = _sql(f"CREATE TABLE IF NOT EXISTS demo.{name} (key string) PARTITIONED BY (month int)")
    found = _extracted(task)
    (table,) = found.outputs
    assert [(one.name, one.type) for one in table.facets["schema"].fields] == columns


def test_a_worker_without_the_drivers_login_still_reports_the_tables(
    connections: Connections, metastore: StubServer
) -> None:
    login = {"authentication": "password", "secret_in_clear": True, "secret_from": "env:ABSENT"}
    extra = {"uris": metastore.uri, **login}
    connections.add("hive_acid_default", "hive_acid_metastore", login="etl", extra=extra)
    found = _extracted(_merge())
    assert _names(found) == (["demo.arrivals"], ["demo.orders"])


# ---- source columns ------------------------------------------------------------------------------

_USES: Final = {
    ("DIRECT", "IDENTITY"): "",
    ("DIRECT", "TRANSFORMATION"): "~",
    ("DIRECT", "AGGREGATION"): "#",
    ("INDIRECT", "CONDITIONAL"): "?",
}


def _sources(found: OperatorLineage) -> dict[str, dict[str, str]]:
    """The source columns of each written table's columns, with the signs of `_USES`."""
    tables: dict[str, dict[str, str]] = {}
    for table in found.outputs:
        facet = table.facets.get("columnLineage")
        assert facet is None or facet.fields
        for column, one in {} if facet is None else facet.fields.items():
            parts = [
                f"{_USES[use.type, use.subtype]}{source.name.removeprefix('demo.')}.{source.field}"
                for source in one.inputFields
                for use in source.transformations
            ]
            tables.setdefault(table.name.removeprefix("demo."), {})[column] = " ".join(parts)
    return tables


def _insert(source: dict[str, Any], **more: Any) -> operators.HiveAcidInsertOperator:  # noqa: ANN401
    return operators.HiveAcidInsertOperator(
        task_id="task", table="demo.sales", source=source, **more
    )


_FILES: Final = {"location": "s3a://b/d", "format": "csv"}
_WITH_SOURCES: Final = cases_of(_CASES / "column_sources.txt")


@pytest.mark.parametrize(
    ("task", "sources"),
    [(_task(text.partition(": ")[2]), json.loads(sources)) for text, sources in _WITH_SOURCES],
    ids=[text.partition(": ")[0] for text, _ in _WITH_SOURCES],
)
def test_each_written_column_is_reported_with_its_source_columns(
    task: BaseOperator, sources: dict[str, dict[str, str]]
) -> None:
    assert _sources(_extracted(task)) == sources


def test_a_source_column_has_the_namespace_and_name_of_its_dataset(metastore: StubServer) -> None:
    task = _sql("INSERT INTO demo.other SELECT id, day FROM demo.lines")
    found = _extracted(task)
    (column,) = found.outputs[0].facets["columnLineage"].fields["id"].inputFields
    read = found.inputs[0]
    assert (column.namespace, column.name) == (read.namespace, read.name)
    assert column.namespace == metastore.uri.replace("thrift:", "hive:")
    task = _insert({**_FILES, "query": "SELECT id FROM source"})
    found = _extracted(task)
    (column,) = found.outputs[0].facets["columnLineage"].fields["id"].inputFields
    assert (column.namespace, column.name) == ("s3://b", "d")


@pytest.mark.parametrize("status", ["committed", "nothing_to_do"])
def test_a_table_that_existed_before_the_task_has_no_source_columns(
    spark: FakeSpark, status: str
) -> None:
    spark.tell(status=status)
    task = _sql("CREATE TABLE IF NOT EXISTS demo.other AS SELECT id FROM demo.lines")
    run_task(task, context_of("task"))
    found = DefaultExtractor(task).extract_on_complete(None)
    expected = {"other": {"id": "lines.id"}} if status == "committed" else {}
    assert _sources(found) == expected


def test_a_failed_column_analysis_omits_only_the_source_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("unexpected")

    monkeypatch.setattr("airflow_hiveacid.sql.origins.Tracer.values", fail)
    found = _extracted(_merge())
    assert _names(found) == (["demo.arrivals"], ["demo.orders"])
    assert _sources(found) == {}
    assert "schema" in found.outputs[0].facets


def test_a_task_with_too_much_sql_has_no_source_columns() -> None:
    text = "x" * 30_000
    one = f"INSERT INTO demo.other SELECT id, day FROM demo.lines WHERE id <> '{text}'"
    task = _sql(f"{one}; {one}; INSERT INTO demo.sales (id, day) SELECT id, day FROM demo.other o")
    assert _sources(_extracted(task)) == {}


def test_columns_have_no_source_columns_if_the_metastore_is_unreachable(
    connections: Connections, metastore: StubServer
) -> None:
    uri = metastore.uri
    metastore.__exit__(None, None, None)
    connections.metastore(uri)
    task = _sql("INSERT INTO demo.other SELECT id, day FROM demo.lines")
    assert _sources(_extracted(task)) == {}
