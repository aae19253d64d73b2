"""What a task does about an earlier try's driver on YARN while the metastore does a statement.

The metastore's part is left out: test_sql_definitions.py has it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.metastore.definitions import DefinitionOutcome
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission.cluster_run import Bounds, tag_of
from airflow_hiveacid.operators.submission.resumption import ATTEMPT_KEY
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, killed_once
from tests.support.pretended_yarn import FAILED, RUNNING, SUCCEEDED, ResourceManager as Pretended

pytestmark = pytest.mark.usefixtures("on_yarn")

_QUESTION, _DEFINITION = "SHOW LOCKS", "DROP TABLE demo.old"


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens while the metastore does a statement."""
    happens: list[Callable[[], None]] = []

    def run(*_: object, **__: object) -> DefinitionOutcome:
        for one in happens:
            one()
        return DefinitionOutcome(has_changed=True)

    monkeypatch.setattr(HiveAcidHook, "run", run)
    return happens


def _script(first: str) -> HiveAcidSqlOperator:
    sql = f"{first}; DELETE FROM demo.flights WHERE id = 1"
    return HiveAcidSqlOperator(task_id="task", sql=sql)


def _left(first: str, spark: FakeSpark, yarn: Pretended, *, noted: bool = True) -> StateStore:
    """What a worker leaves that was lost while the driver of the second statement ran.

    That the first was done is forgotten: else a definition would be passed over.
    """
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    with pytest.raises(errors.JobFailedError):
        run_task(_script(first), context_of(task_state_store=store))
    store.delete("hiveacid_statement_1")
    if not noted:
        store.delete("spark_job_id")
    (spark.directory / "calls.jsonl").unlink()
    spark.tell(answers=True)
    yarn.requests.clear()
    yarn.tagged, yarn.app = {APP: tag_of(store[ATTEMPT_KEY])}, dict(RUNNING)
    return store


@pytest.mark.promise("A16")
@pytest.mark.parametrize("noted", [True, False])
def test_a_kill_during_a_metastore_query_kills_the_driver_of_an_earlier_try(
    spark: FakeSpark,
    yarn: Pretended,
    meanwhile: list[Callable[[], None]],
    aborted: list[str],
    noted: bool,
) -> None:
    store = _left(_QUESTION, spark, yarn, noted=noted)
    task = _script(_QUESTION)
    killed_before: list[list[str]] = []
    meanwhile += [lambda: killed_before.append(list(yarn.killed)), task.on_kill]
    with pytest.raises(errors.JobFailedError, match="the task was killed"):
        run_task(task, context_of(try_number=2, task_state_store=store))
    assert killed_before == [[]]
    assert yarn.killed == [APP]
    assert len(aborted) == 1  # what would hold the locks for it
    assert spark.calls == []


def test_a_metastore_query_does_not_kill_the_driver_of_an_earlier_try(
    spark: FakeSpark, yarn: Pretended, meanwhile: list[Callable[[], None]]
) -> None:
    store = _left(_QUESTION, spark, yarn)
    yarn.states = [dict(RUNNING)]
    meanwhile.append(lambda: setattr(yarn, "app", dict(FAILED)))
    with pytest.raises(errors.JobFailedError):  # which is found again, and fails
        run_task(_script(_QUESTION), context_of(try_number=2, task_state_store=store))
    assert yarn.killed == []
    assert set(yarn.asked) == {APP}
    assert spark.calls == []


@pytest.mark.parametrize("noted", [True, False])
def test_a_definition_runs_only_after_the_driver_of_an_earlier_try_was_killed(
    spark: FakeSpark, yarn: Pretended, meanwhile: list[Callable[[], None]], noted: bool
) -> None:
    store = _left(_DEFINITION, spark, yarn, noted=noted)
    stood: list[object] = []

    def stands() -> None:
        stood.append((list(yarn.killed), yarn.app))
        yarn.app = dict(SUCCEEDED)

    meanwhile.append(stands)
    context = context_of(try_number=2, task_state_store=store)
    done = run_task(_script(_DEFINITION), context)
    assert stood == [([APP], {"state": "KILLED", "finalStatus": "KILLED"})]
    assert [one["status"] for one in done["statements"]] == ["committed", "committed"]
    assert len(spark.calls) == 1


@pytest.mark.promise("A16")
@pytest.mark.usefixtures("aborted")
def test_a_kill_before_a_definition_kills_the_driver_of_an_earlier_try(
    spark: FakeSpark, yarn: Pretended, meanwhile: list[Callable[[], None]]
) -> None:
    store = _left(_DEFINITION, spark, yarn)
    yarn.ends = False  # as when nobody heard the first order
    done: list[int] = []
    meanwhile.append(lambda: done.append(1))
    context = context_of(try_number=2, task_state_store=store)
    killed_once(_script(_DEFINITION), context, lambda: bool(yarn.killed))
    assert len(yarn.killed) > 1
    assert set(yarn.killed) == {APP}
    assert done == []
    assert store[ATTEMPT_KEY]


@pytest.mark.parametrize(
    ("page", "error"), [(503, errors.ClusterUnavailableError), (403, errors.ClusterRefusedError)]
)
def test_no_definition_runs_while_the_driver_of_an_earlier_try_may_run(
    spark: FakeSpark,
    yarn: Pretended,
    meanwhile: list[Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
    page: int,
    error: type[Exception],
) -> None:
    store = _left(_DEFINITION, spark, yarn)
    before = dict(store)
    done: list[int] = []
    meanwhile.append(lambda: done.append(1))
    yarn.page = (page, "")
    monkeypatch.setattr(HiveAcidSqlOperator, "_bounds", lambda _: Bounds(silence_s=0, refusal_s=0))
    with pytest.raises(error):
        run_task(_script(_DEFINITION), context_of(try_number=2, task_state_store=store))
    assert done == []
    assert dict(store) == before


@pytest.mark.usefixtures("meanwhile")
def test_a_script_of_definitions_needs_no_spark_connection(connections: Connections) -> None:
    connections.remove("spark_default")
    task = HiveAcidSqlOperator(task_id="task", sql=_DEFINITION)
    done = run_task(task, context_of(task_state_store=StateStore()))
    assert done["status"] == "committed"
