from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import DAG

from airflow_hiveacid import errors as public
from airflow_hiveacid.airflow_names import AirflowFailException, ExceptionRetryPolicy, RetryAction
from airflow_hiveacid.cli.exit_codes import ExitCode, exit_code
from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.job import ExitCode as JobExitCode, exit_code as exit_code_of_job
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, hive_acid_retry_policy
from airflow_hiveacid.sensors.hive_acid import HiveAcidDeltaCountSensor
from airflow_hiveacid.watch import Outage
from tests.support.airflow_minors import IS_3_3, DagSerialization


def _decide(name: str) -> tuple[RetryAction, timedelta | None]:
    error = errors.rebuild(name, "text")
    decision = hive_acid_retry_policy(
        lock_delay=timedelta(seconds=1),
        conflict_delay=timedelta(seconds=2),
        server_delay=timedelta(seconds=3),
    ).evaluate(error, try_number=1, max_tries=3)
    return decision.action, decision.retry_delay


@pytest.mark.parametrize(
    ("name", "delay_s"),
    [
        ("LockNotAcquiredError", 1),
        ("WriteConflictError", 2),
        ("TransactionAbortedError", 2),
        ("LocationNotFoundError", 2),
        ("MetastoreUnavailableError", 3),
        ("CommitStateUnknownError", 3),
    ],
)
def test_each_kind_of_retryable_error_is_retried_after_its_own_delay(
    name: str, delay_s: int
) -> None:
    assert _decide(name) == (RetryAction.RETRY, timedelta(seconds=delay_s))


@pytest.mark.parametrize(
    "name",
    [
        "TableNotFoundError",
        "MergeCardinalityError",
        "ConfigurationError",
        "FencedError",
        "MetastoreLoginError",
        "MetastoreVersionError",
        "CorruptFileError",
        "LocationPermissionError",
    ],
)
def test_an_error_that_a_retry_cannot_fix_fails_at_once(name: str) -> None:
    assert _decide(name)[0] is RetryAction.FAIL


@pytest.mark.parametrize("name", sorted(public.__all__))
def test_the_policy_polls_and_exit_codes_agree_whether_a_retry_may_help(name: str) -> None:
    cls = getattr(errors, name)
    error = errors.rebuild(name, "text")
    is_temporary = issubclass(cls, errors.RetryableError) or name == "CommitStateUnknownError"
    useful = RetryAction.RETRY if is_temporary else RetryAction.DEFAULT
    assert _decide(name)[0] is (useful if cls.retryable else RetryAction.FAIL)
    if cls.retryable:
        assert Outage(max_s=9.0).after(error, now_s=1.0).since_s == 1.0
    else:
        with pytest.raises(cls, match="text"):
            Outage(max_s=9.0).after(error, now_s=1.0)
    if exit_code(error) not in (ExitCode.USAGE, ExitCode.NOT_FOUND):
        assert (exit_code(error) is ExitCode.UNAVAILABLE) is cls.retryable
    if not issubclass(cls, errors.InputError) and name != "CommitStateUnknownError":
        assert (exit_code_of_job(error) is JobExitCode.RETRYABLE) is cls.retryable


def test_an_unexplained_failure_follows_the_retry_settings_of_the_task() -> None:
    assert _decide("JobFailedError")[0] is RetryAction.DEFAULT


def test_operators_and_sensors_have_the_default_retry_policy_with_the_tasks_own_delay() -> None:
    error = errors.rebuild("LockNotAcquiredError", "text")
    for task in (
        HiveAcidDeleteOperator(task_id="t", table="db.t"),
        HiveAcidDeltaCountSensor(task_id="s", table="db.t"),
    ):
        assert task.retry_policy is DEFAULT_RETRY_POLICY
        decision = task.retry_policy.evaluate(error, 1, 3)
        assert (decision.action, decision.retry_delay) == (RetryAction.RETRY, None)


def test_a_mapped_task_has_the_retry_policy_and_default_args_may_replace_it() -> None:
    own = ExceptionRetryPolicy(rules=[])
    with DAG("d", schedule=None):
        mapped = HiveAcidDeleteOperator.partial(task_id="m", table="db.t").expand(where=["a = 1"])
    with DAG("e", schedule=None, default_args={"retry_policy": own}):
        task = HiveAcidDeleteOperator(task_id="t", table="db.t")
        sensor = HiveAcidDeltaCountSensor(task_id="s", table="db.t")
        again = HiveAcidDeleteOperator.partial(task_id="m", table="db.t").expand(where=["a = 1"])
    if IS_3_3:
        assert mapped.retry_policy is DEFAULT_RETRY_POLICY
    assert mapped.unmap({"where": "a = 1"}).retry_policy is DEFAULT_RETRY_POLICY
    assert again.unmap({"where": "a = 1"}).retry_policy is own
    assert task.retry_policy is own
    assert sensor.retry_policy is own


def test_the_retry_policy_can_be_serialised_and_read_back() -> None:
    policy = hive_acid_retry_policy()
    with DAG("d", schedule=None) as dag:
        HiveAcidDeleteOperator(task_id="t", table="db.t", retries=3, retry_policy=policy)
    DagSerialization.from_dict(DagSerialization.to_dict(dag))
    if not IS_3_3:
        return  # Airflow stores no policy
    again = ExceptionRetryPolicy.deserialize(policy.serialize())
    error = errors.rebuild("WriteConflictError", "text")
    assert again.evaluate(error, 1, 3) == policy.evaluate(error, 1, 3)


def test_below_airflow_3_3_an_error_that_no_retry_helps_keeps_its_notes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = HiveAcidDeleteOperator(task_id="d", table="db.t", where="id = 1")
    error = errors.rebuild("TableNotFoundError", "table db.t does not exist")
    error.add_note("in statements[2]")
    monkeypatch.setattr(task, "_is_policy_applied", False)
    with pytest.raises(AirflowFailException, match="does not exist\nin statements") as caught:  # noqa: SIM117
        with task.applied_policy():
            raise error
    assert caught.value.__cause__ is error
