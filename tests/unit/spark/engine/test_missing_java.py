"""What a job does in a release of Spark whose own classes differ: slower, or refused by name."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.java_gateway import JavaClass, JavaPackage
from py4j.protocol import Py4JError
from pyspark.sql.types import IntegerType

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.reading import KeyRange
from airflow_hiveacid.spark import engine
from airflow_hiveacid.spark.engine import catalyst, parsed_sql, progress, session as session_module
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.session import await_executor
from airflow_hiveacid.spark.engine.tasks import collected, is_stopped
from airflow_hiveacid.spark.reading import file_relation, pruning as bounds_module
from airflow_hiveacid.spark.reading.live_files import LiveFiles, PlainRows
from airflow_hiveacid.spark.writing import flat_files
from airflow_hiveacid.supported_versions import PAGE
from tests.support.tables import table_of

ABSENT = Py4JError("Method anything([class java.lang.String]) does not exist\nTrace:\n...")


def absent(*_: object, **__: object) -> NoReturn:
    raise ABSENT


class Java:
    """Objects of a JVM that has every class and method but some."""

    def __init__(self, *absent_names: str, **known: object) -> None:
        vars(self).update(dict.fromkeys(absent_names, absent), **known)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object) -> Any:  # noqa: ANN401
        return self


def call_a_package() -> None:
    engine.JavaNames(JavaPackage("org.gone", None, "jvm"))()  # type: ignore[operator]


@pytest.mark.parametrize("call", [absent, call_a_package])
def test_a_missing_method_or_class_is_told_from_other_failures(call: Callable[[], None]) -> None:
    with pytest.raises(engine.UnknownJavaCallError) as raised, engine.unknown_calls():
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", [Py4JError("the JVM has ended"), TypeError("a does not exist")])
def test_another_failure_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, engine.unknown_calls():
        raise error
    assert raised.value is error


def test_a_job_that_needs_a_missing_class_is_refused_in_one_sentence() -> None:
    with pytest.raises(ConfigurationError) as raised, typed_failures():
        absent()
    text = str(raised.value)
    assert "PySpark 3.5 to 4.3" in text
    assert PAGE in text
    assert "\n" not in text


PARSED: Any = SimpleNamespace(_jsparkSession=None)
COLUMN: Any = SimpleNamespace(_jc=Java())


@pytest.mark.parametrize(
    ("missing", "call"),
    [
        ("parsePlan", lambda: catalyst.query(PARSED, "SELECT 1", parsed_sql.DEFAULT_TERMS)),
        ("ofRows", lambda: catalyst.dataset_of(PARSED, COLUMN)),
        ("Cast", lambda: catalyst.cast_in_utc(PARSED, COLUMN, IntegerType())),
        ("TRY", lambda: catalyst.tried_cast(PARSED, COLUMN, IntegerType())),
        ("KnownNullable", lambda: catalyst.opaque(PARSED, COLUMN)),
    ],
)
def test_a_job_is_refused_without_the_calls_that_give_expressions_their_meaning(
    missing: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalyst, "jvm_of", lambda _: Java(missing))
    with pytest.raises(ConfigurationError, match="this Spark lacks a class"), typed_failures():
        call()


def test_a_job_does_not_wait_for_executors_that_spark_does_not_list() -> None:
    context = SimpleNamespace(
        master="yarn",
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=absent)),
    )
    session: Any = SimpleNamespace(sparkContext=context)
    await_executor(session, timeout_s=0.0)


def test_a_session_opens_without_hives_functions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = SimpleNamespace(
        gateway_property=SimpleNamespace(pool=None), converters=None, is_connected=True
    )
    builder = JavaClass("org.HiveUDFExpressionBuilder", client)
    module = SimpleNamespace(**{"MODULE$": None})
    hive = SimpleNamespace(
        HiveUDFExpressionBuilder=builder, **{"HiveUDFExpressionBuilder$": module}
    )
    catalyst = SimpleNamespace(catalog=SimpleNamespace(SessionCatalog=absent))
    sql = SimpleNamespace(hive=hive, catalyst=catalyst)
    jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=sql))),
        scala=SimpleNamespace(**{"None$": module}),
        PythonUtils=SimpleNamespace(toSeq=list),
    )
    state = SimpleNamespace(functionRegistry=object, tableFunctionRegistry=object)
    session: Any = SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=lambda: state))
    monkeypatch.setattr(session_module, "jvm_of", lambda _: jvm)
    session_module._give_hive_functions(session)
    assert "statements that call Hive's own functions, such as add_months, will fail" in caplog.text


def test_a_job_logs_no_progress_if_spark_lists_no_stages(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_POLL_S", 0.0)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=Java("statusStore")))
    with caplog.at_level(logging.DEBUG, logger="hiveacid"):
        progress._report(session, "merge", threading.Event())
    assert "cannot read the progress of stages: Method anything" in caplog.text


def test_a_jvm_that_does_not_answer_counts_as_stopped() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=Java("isStopped")))
    assert is_stopped(session)


def test_rows_are_collected_through_the_public_method() -> None:
    table = SimpleNamespace(to_batches=lambda: ["batch"])
    frame: Any = SimpleNamespace(toArrow=lambda: table)
    assert collected(frame) == ["batch"]
    private: Any = SimpleNamespace(_collect_as_arrow=lambda: ["own"])
    assert collected(private) == ["own"]


def test_a_condition_without_recognised_comparisons_gives_no_ranges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds_module.catalyst, "comparisons", absent)
    unused: Any = None
    assert bounds_module.bounds(table_of("id int"), unused, "id = 1", unused) == {}


class Written:
    """A frame that is written through Spark's public methods."""

    def __init__(self) -> None:
        self.steps: list[object] = []
        self.sparkSession = SimpleNamespace(_jsparkSession=None)
        self._jdf = SimpleNamespace(logicalPlan=lambda: "plan")
        self.write = self

    def __getattr__(self, name: str) -> Callable[..., Written]:
        def step(*arguments: object, **options: object) -> Written:
            self.steps.append((name, arguments or options))
            return self

        return step


@pytest.mark.parametrize("missing", ["DataSource", "logicalPlan", "planForWriting", "ofRows"])
def test_spark_writes_no_rows_if_it_plans_no_write(
    missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (flat_files, catalyst):
        monkeypatch.setattr(module, "jvm_of", lambda _: Java(missing))
    rows: Any = Written()
    rows._jdf = Java(missing)
    with caplog.at_level(logging.WARNING):
        assert flat_files.write_orc(rows, "file:/d", {"a": "b"}, ["day"]) is None
    assert rows.steps == []
    assert "does not say how many rows it writes" in caplog.text


@pytest.mark.parametrize("missing", ["queryExecution", "commandExecuted", "metrics"])
def test_rows_that_spark_has_written_have_no_count_if_it_shows_none(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = Java(missing, getSimpleName=lambda: "DataWritingCommandExec")
    for module in (flat_files, catalyst):
        monkeypatch.setattr(module, "jvm_of", lambda _: jvm)
    rows: Any = Written()
    assert flat_files.write_orc(rows, "file:/d", {}, []) is None
    assert rows.steps == []


@pytest.mark.parametrize(
    ("missing", "options"),
    [
        (None, {"orc.kryo.sarg": "text", "orc.sarg.column.names": "text"}),
        ("GreaterThanOrEqual", {}),
        ("fromJson", {}),
        ("createFilter", {}),
        ("setSearchArgument", {}),
    ],
)
def test_orc_reads_all_rows_if_spark_makes_no_filter(
    missing: str | None, options: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = () if missing is None else (missing,)
    # `get` is that of the filter, too.
    jvm = Java(*names, isEmpty=lambda: False, get=lambda *_: "text")
    monkeypatch.setattr(engine, "jvm_of", lambda _: jvm)
    columns, unused = [Column(name="id", type="int")], Any
    found = file_relation.search_argument(unused, columns, {"id": KeyRange(low=1)})  # type: ignore[arg-type]
    assert found == options


def frame_of(**java: object) -> Any:  # noqa: ANN401
    """A frame whose rows Spark may rebalance, and which records how they are repartitioned."""
    conf = SimpleNamespace(get=lambda _: "true")
    return SimpleNamespace(
        sparkSession=SimpleNamespace(conf=conf),
        repartition=lambda *asked: asked,
        _jseq=lambda _: Java(),
        _jdf=Java(**java),
    )


@pytest.mark.parametrize(("tasks", "asked"), [(None, ("c",)), (3, (3, "c"))])
def test_rows_are_repartitioned_if_spark_takes_no_hint(
    tasks: int | None, asked: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalyst, "jvm_of", lambda _: Java())
    monkeypatch.setattr(catalyst.F, "col", lambda _: COLUMN)
    assert catalyst.rebalanced(frame_of(hint=absent), "c", tasks) == asked


@pytest.mark.parametrize("missing", ["queryExecution", "optimizedPlan", "stats", "sizeInBytes"])
def test_rows_of_which_spark_estimates_no_size_may_have_any(missing: str) -> None:
    assert catalyst.expected_bytes(frame_of(**{missing: absent})) == sys.maxsize


@pytest.mark.parametrize("missing", ["queryExecution", "analyzed", "subqueriesAll", "children"])
def test_rows_of_which_spark_shows_no_plan_are_not_repeatable(missing: str) -> None:
    plan = {"getSimpleName": lambda: "Project", "size": lambda: 0}
    assert catalyst.is_repeatable(frame_of(**plan))
    assert not catalyst.is_repeatable(frame_of(**{**plan, missing: absent}))


TABLE = table_of("")


def test_python_reads_all_files_of_an_acid_table_if_spark_takes_no_list_of_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file, unused = SimpleNamespace(partition=0), Any
    files: Any = LiveFiles(
        spark=unused,
        table=TABLE,
        partitions=[],
        ranges={},
        files=[file, file],  # type: ignore[list-item]
        doubts=[],
        write_ids=unused,
    )
    monkeypatch.setattr(LiveFiles, "request", lambda *_: None)
    monkeypatch.setattr(LiveFiles, "_judged", lambda *_, **__: [(file, None)] * 2)
    _read_in_python(LiveFiles, files, monkeypatch, caplog)


def test_python_reads_all_files_of_a_flat_table_if_spark_takes_no_list_of_files(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unused = Any
    verdict = SimpleNamespace(rows=1, is_outside=False, why_not=None, manner="orc")
    files: Any = PlainRows(
        spark=unused,
        table=TABLE,
        partitions=[],
        ranges={},
        files=[(0, unused), (1, unused)],  # type: ignore[list-item]
    )
    monkeypatch.setattr(PlainRows, "request", lambda *_: None)
    monkeypatch.setattr(PlainRows, "_judged", lambda *_: [verdict] * 2)
    monkeypatch.setattr(PlainRows, "numbered", lambda *_: None)
    _read_in_python(PlainRows, files, monkeypatch, caplog)


def _read_in_python(
    kind: type,
    files: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(kind, "_native", absent)
    monkeypatch.setattr(kind, "with_arrow", lambda _, *asked: asked)
    with caplog.at_level(logging.INFO, logger="hiveacid"):
        assert files.rows({"id"}, "position") == ({"id"}, "position")
    assert (
        "files=2 of 2, because Method anything([class java.lang.String]) does not exist"
        in caplog.text
    )
