"""OpenLineage's own extractor gets the tables of a task; the metastore and Spark are stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.extractors.base import DefaultExtractor
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.sdk import BaseOperator

from airflow_hiveacid import operators
from airflow_hiveacid.format.records.keeping import Tag
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook, MadeTable
from airflow_hiveacid.jobs.metastore_statements import DropTable, MetastoreStatement
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.metastore.catalog import NewTable, table_struct
from airflow_hiveacid.metastore.definitions.work import DefinitionOutcome
from airflow_hiveacid.metastore.gen.faults.ttypes import NoSuchObjectException
from airflow_hiveacid.metastore.gen.tables.ttypes import GetTableResult
from airflow_hiveacid.operators.reporting.lineage import lineage_of
from tests.contract.stub_server import StubServer
from tests.support.airflow_support import Connections, FakeSpark, context_of, run_task

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


_SPARK_TASKS: Final = (
    (_merge(), ["demo.arrivals"], ["demo.orders"]),
    (
        _on_orders(
            operators.HiveAcidInsertOperator, source={"location": "s3a://b/d/", "format": "orc"}
        ),
        ["d"],
        ["demo.orders"],
    ),
    (
        _on_orders(operators.HiveAcidUpdateOperator, assignments={"id": "id + 1"}),
        [],
        ["demo.orders"],
    ),
    (_on_orders(operators.HiveAcidDeleteOperator), [], ["demo.orders"]),
    (_on_orders(operators.HiveAcidTruncateOperator), [], ["demo.orders"]),
    (_on_orders(operators.HiveAcidLoadOperator, location="s3://b/d"), ["d"], ["demo.orders"]),
    (
        _sql(
            "INSERT INTO demo.orders SELECT * FROM demo.a; DROP TABLE demo.a;"
            " DELETE FROM demo.orders WHERE id IN (SELECT b.id FROM demo.b b);"
            " ALTER TABLE demo.c RENAME TO demo.d; CREATE DATABASE other; SHOW LOCKS demo.e;"
            " ABORT TRANSACTIONS 7"
        ),
        ["demo.a", "demo.b"],
        ["demo.orders", "demo.a", "demo.d"],
    ),
    (
        _sql(
            "MERGE INTO demo.orders o USING demo.a a ON o.id = a.id"
            " WHEN MATCHED AND a.id IN (SELECT b.id FROM demo.b b) THEN DELETE;"
            " UPDATE demo.orders SET id = 1 WHERE id IN (SELECT c.id FROM demo.c c);"
            " CREATE TABLE demo.d AS SELECT * FROM demo.e"
        ),
        ["demo.a", "demo.b", "demo.c", "demo.e"],
        ["demo.orders", "demo.d"],
    ),
    (
        _transaction(
            [
                "FROM demo.a INSERT INTO demo.b SELECT * INSERT INTO demo.c SELECT *",
                "DELETE FROM demo.a WHERE id = 1",
            ],
        ),
        ["demo.a"],
        ["demo.b", "demo.c", "demo.a"],
    ),
    (
        operators.HiveAcidPySparkOperator(
            task_id="task", application="a.py", reads=["demo.a"], changes=["demo.b"]
        ),
        ["demo.a"],
        ["demo.b"],
    ),
    (_on_orders(operators.HiveAcidCompactOperator), [], ["demo.orders"]),
    (operators.HiveAcidCompactTablesOperator(task_id="task", tables="demo.*"), [], []),
    (_on_orders(operators.HiveAcidCleanOperator), [], ["demo.orders"]),
    (operators.HiveAcidCleanTablesOperator(task_id="task", tables="demo.*"), [], []),
    (_on_orders(operators.HiveAcidProveErasureOperator, where="id = 1"), ["demo.orders"], []),
    (_on_orders(operators.HiveAcidConvertOperator, to="flat"), [], ["demo.orders"]),
    (_on_orders(operators.HiveAcidRebalanceOperator), [], ["demo.orders"]),
    (_on_orders(operators.HiveAcidRestoreOperator, version=3), [], ["demo.orders"]),
    (
        _on_orders(operators.HiveAcidChangeFeedOperator, location="file:/feed"),
        ["demo.orders"],
        ["/feed"],
    ),
)
_METASTORE_TASKS: Final = (
    (
        _on_orders(operators.HiveAcidCreateTableOperator, columns={"id": "bigint"}),
        [],
        ["demo.orders"],
    ),
    (_on_orders(operators.HiveAcidTagOperator, name="closing"), ["demo.orders"], []),
)
_WITHOUT_LINEAGE: Final = (
    # It measures tables, but reads and writes no rows.
    operators.HiveAcidCollectOperator(task_id="task"),
)
_TASKS: Final = (*_SPARK_TASKS, *_METASTORE_TASKS)


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


def _merge_of(*clauses: dict[str, Any], **source: Any) -> operators.HiveAcidMergeOperator:  # noqa: ANN401
    return operators.HiveAcidMergeOperator(
        task_id="task", table="demo.sales", source=source, keys=["id"], clauses=list(clauses)
    )


_SALES: Final = {"id": "lines.id", "price": "lines.price", "day": "lines.day"}
_FILES: Final = {"location": "s3a://b/d", "format": "csv"}
_UPDATE_ALL: Final = {"when": "matched", "action": "update"}
_INSERT_ALL: Final = {"when": "not_matched", "action": "insert"}
_WITH_SOURCES: Final = {
    "insert by name": (
        _insert({"table": "demo.lines", "query": "SELECT id, price, day FROM source"}),
        {"sales": _SALES},
    ),
    "insert of a query of several tables": (
        _insert(
            {
                "tables": {"a": "demo.lines", "b": "demo.other"},
                "query": "SELECT a.ID, sum(a.extra + b.id) AS price, max(:day) AS note, b.day"
                " FROM a JOIN b ON a.id = b.id GROUP BY a.id, b.day",
            },
            parameters={"day": "2026-01-31"},
        ),
        {"sales": {"id": "lines.id", "price": "#lines.extra #other.id", "day": "other.day"}},
    ),
    "insert of listed columns": (
        _insert({"table": "demo.lines"}, columns=["price", "id", "note", "day"]),
        {
            "sales": {
                "price": "lines.id",
                "id": "lines.price",
                "note": "lines.extra",
                "day": "lines.day",
            }
        },
    ),
    "insert of files": (
        _insert({**_FILES, "query": "SELECT id, upper(Note) AS note FROM source"}),
        {"sales": {"id": "d.id", "note": "~d.note"}},
    ),
    "insert of all columns of files": (_insert(_FILES), {}),
    "insert of values": (_insert({"columns": ["id"], "values": [[1]]}), {}),
    "insert of a column that the table does not have": (_insert({"table": "demo.lines"}), {}),
    "insert of two columns of one name": (
        _insert({"table": "demo.lines", "query": "SELECT id, day, price AS id FROM source"}),
        {},
    ),
    "insert of a column whose name only Spark knows": (
        _insert({"table": "demo.lines", "query": "SELECT id, cast(price AS int) FROM source"}),
        {"sales": {"id": "lines.id"}},
    ),
    "insert in SQL": (
        _sql(
            "INSERT INTO demo.sales PARTITION (day)"
            " SELECT l.extra, 1, l.id + 1, day FROM demo.lines l"
        ),
        {"sales": {"id": "lines.extra", "note": "~lines.id", "day": "lines.day"}},
    ),
    "overwrite of a partition, by an earlier version": (
        _sql(
            "INSERT OVERWRITE TABLE demo.sales PARTITION (day = :day) SELECT id, price, extra"
            " FROM demo.lines FOR VERSION AS OF 3 WHERE day = :day",
            parameters={"day": {"type": "date", "value": "2026-01-31"}},
        ),
        {"sales": {"id": "lines.id", "price": "lines.price", "note": "lines.extra"}},
    ),
    "insert of too few columns": (_sql("INSERT INTO demo.sales SELECT id FROM demo.lines"), {}),
    "inserts into one table": (
        _sql(
            "INSERT INTO demo.sales (id, price, day) SELECT id, 0, day FROM demo.lines;"
            " INSERT INTO demo.sales (id, note, day)"
            " SELECT max(id), (SELECT 1), day FROM demo.other GROUP BY day"
        ),
        {"sales": {"id": "lines.id #other.id", "day": "lines.day other.day"}},
    ),
    "an insert that is known beside one that is not": (
        _sql(
            "INSERT INTO demo.sales SELECT id, 0, 0, day FROM demo.lines;"
            " LOAD DATA INPATH 's3://b/d' INTO TABLE demo.sales PARTITION (day = '1')"
        ),
        {},
    ),
    "several inserts of one query": (
        _transaction(
            [
                (
                    "FROM (SELECT id, price * 2 AS p, day FROM demo.lines) q"
                    " INSERT INTO demo.sales (id, price, day) SELECT q.id, q.p, q.day"
                    " INSERT INTO demo.other SELECT q.p, q.day"
                )
            ],
        ),
        {
            "sales": {"id": "lines.id", "price": "~lines.price", "day": "lines.day"},
            "other": {"id": "~lines.price", "day": "lines.day"},
        },
    ),
    "create table as": (
        _sql(
            "CREATE TABLE demo.gone AS SELECT id AS a, upper(l.extra) AS b, count(*) AS n,"
            " price + 1 FROM demo.lines l"
        ),
        {"gone": {"a": "lines.id", "b": "~lines.extra"}},
    ),
    "create table as a table": (
        _sql("CREATE TABLE demo.gone AS SELECT * FROM demo.other"),
        {"gone": {"id": "other.id", "day": "other.day"}},
    ),
    "update": (
        operators.HiveAcidUpdateOperator(
            task_id="task",
            table="demo.sales",
            assignments={"Price": "price + id", "note": "CASE WHEN id > 1 THEN 'x' END", "id": "1"},
        ),
        {"sales": {"price": "~sales.id ~sales.price", "note": "?sales.id"}},
    ),
    "update in SQL, with a query": (
        _sql("UPDATE demo.sales s SET price = s.id, note = (SELECT max(l.id) FROM demo.lines l)"),
        {"sales": {"price": "sales.id"}},
    ),
    "merge of all columns": (
        _merge_of(_UPDATE_ALL, _INSERT_ALL, table="demo.lines"),
        {"sales": _SALES},
    ),
    "merge": (
        _merge_of(
            {"when": "matched", "action": "delete", "condition": "s.extra > 1"},
            {"when": "matched", "action": "update", "set": {"price": "t.price + s.p"}},
            {"when": "not_matched", "action": "insert", "set": {"id": "s.id", "price": "s.p"}},
            {"when": "not_matched_by_source", "action": "update", "set": {"note": "id"}},
            table="demo.lines",
            query="SELECT id, sum(price) AS p, max(extra) AS extra FROM source GROUP BY id",
        ),
        {"sales": {"id": "lines.id", "price": "#lines.price ~sales.price", "note": "sales.id"}},
    ),
    "merge of files": (
        _merge_of(
            {"when": "matched", "action": "update", "set": {"note": "s.x", "price": "id"}},
            _INSERT_ALL,
            **_FILES,
        ),
        {},
    ),
    "merge of some columns of files": (
        _merge_of({"when": "matched", "action": "update", "set": {"note": "s.x"}}, **_FILES),
        {"sales": {"note": "d.x"}},
    ),
    "merge in SQL": (
        _sql(
            "MERGE INTO demo.sales a USING demo.lines b ON a.id = b.id AND b.extra > 0"
            " WHEN MATCHED THEN UPDATE SET price = b.price"
            " WHEN NOT MATCHED THEN INSERT VALUES (b.id, b.extra, DEFAULT, b.day)"
        ),
        {"sales": {"id": "lines.id", "price": "lines.extra lines.price", "day": "lines.day"}},
    ),
    "a table that the same task alters": (
        _sql(
            "INSERT INTO demo.sales SELECT id, 0, 0, day FROM demo.lines;"
            " ALTER TABLE demo.lines ADD COLUMNS (more int)"
        ),
        {},
    ),
    "a table that the same task drops": (
        _sql("INSERT INTO demo.sales SELECT id, 0, 0, day FROM demo.lines; DROP TABLE demo.sales"),
        {},
    ),
    "a table that the same task renames": (
        _sql(
            "INSERT INTO demo.sales SELECT id, 0, 0, day FROM demo.lines;"
            " ALTER TABLE demo.lines RENAME TO demo.old"
        ),
        {},
    ),
    "a column that an earlier insert may have written, too": (
        _transaction(
            [
                {
                    "insert": {
                        "table": "demo.sales",
                        "source": {
                            "table": "demo.lines",
                            "query": "SELECT id, cast(price AS int) FROM source",
                        },
                    }
                },
                "INSERT INTO demo.sales (id, price) SELECT id, id FROM demo.other",
            ],
        ),
        {"sales": {"id": "lines.id other.id"}},
    ),
    "a table that does not exist yet": (
        _sql("CREATE TABLE demo.gone (id bigint); INSERT INTO demo.gone SELECT id FROM demo.lines"),
        {},
    ),
    "a source that does not exist": (
        _sql("INSERT INTO demo.sales (id) SELECT id FROM demo.gone"),
        {},
    ),
    "delete": (operators.HiveAcidDeleteOperator(task_id="task", table="demo.sales"), {}),
}


@pytest.mark.parametrize(("task", "sources"), _WITH_SOURCES.values(), ids=_WITH_SOURCES)
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
