"""`airflow backfill create` with the example DAGs: what it refuses, creates, clears and starts."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from airflow.exceptions import DagRunTypeNotAllowed
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.backfill import (
    AlreadyRunningBackfill,
    Backfill,
    BackfillDagRun,
    DagNonPeriodicScheduleException,
    InvalidBackfillDirection,
    InvalidReprocessBehavior,
)
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy import delete, select, update

# Airflow's command for DAGs wants this library only to draw them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Could not import graphviz:UserWarning"),
    pytest.mark.usefixtures("no_runs"),
]

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "dags"
SIBLING: Final = "sum_days"
BY_KEY: Final = "by_key"
DAYS: Final = ("2026-01-01", "2026-01-02", "2026-01-03")
_BY_KEY_SOURCE: Final = f"""
from datetime import UTC, datetime
from airflow.sdk import DAG, CronPartitionTimetable
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG(
    "{BY_KEY}",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
):
    EmptyOperator(task_id="one")
"""


def airflow(*argv: str) -> None:
    """Run a command of Airflow, with Airflow's own parser."""
    from airflow.cli.cli_parser import get_parser  # noqa: PLC0415 - reads the environment of conftest

    options = get_parser().parse_args(argv)
    options.func(options)


def create(dag_id: str, *more: str) -> None:
    dates = ["--from-date", DAYS[0], "--to-date", DAYS[-1]]
    airflow("backfill", "create", "--dag-id", dag_id, *dates, *more)


@pytest.fixture(scope="module")
def known(airflow_home: Path) -> None:
    """Airflow knows the example DAGs; other tests need not read their files."""
    files = [Path(shutil.copy(one, airflow_home / "dags")) for one in EXAMPLES.glob("*.py")]
    files.append(airflow_home / "dags" / f"{BY_KEY}.py")
    files[-1].write_text(_BY_KEY_SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        # Airflow leaves out a file that it cannot read within half a minute.
        patch.setenv("AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT", "0")
        airflow("dags", "reserialize")
    for file in files:
        file.unlink()


@pytest.fixture
def no_runs(known: None) -> Iterator[None]:  # noqa: ARG001 - its DAGs
    """There is no backfill, and the sibling is as its file says, but not paused."""
    before = signal.getsignal(signal.SIGTERM)
    with create_session() as session:
        session.execute(delete(BackfillDagRun))
        session.execute(delete(DagRun).where(DagRun.backfill_id.is_not(None)))
        session.execute(delete(Backfill))
    _set_sibling(is_paused=False, max_active_runs=16)
    yield
    # The command sets a handler of its own.
    signal.signal(signal.SIGTERM, before)


def _set_sibling(**values: object) -> None:
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == SIBLING).values(**values))


def runs(dag_id: str) -> list[DagRun]:
    """The DAG's runs in the order in which Airflow created them."""
    with create_session() as session:
        found = list(
            session.scalars(select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id))
        )
        session.expunge_all()
    return found


def states() -> dict[str, str]:
    return {_day(run): str(run.state) for run in runs(SIBLING)}


def planned() -> list[tuple[str, str | None]]:
    """The days of the newest backfill in its order, with the reason if it does not run a day."""
    with create_session() as session:
        newest = session.scalars(select(Backfill.id).order_by(Backfill.id.desc())).first()
        rows = session.scalars(
            select(BackfillDagRun)
            .where(BackfillDagRun.backfill_id == newest)
            .order_by(BackfillDagRun.sort_ordinal)
        )
        return [(row.logical_date.date().isoformat(), row.exception_reason) for row in rows]


def end(*ended: DagRunState) -> None:
    """End the first backfill's runs with these states, and the backfill, as the scheduler does."""
    with create_session() as session:
        found = session.scalars(
            select(DagRun)
            .where(DagRun.backfill_id.is_not(None))
            .order_by(DagRun.logical_date, DagRun.partition_key)
        )
        for run, state in zip(found, ended, strict=True):
            run.state = state
        session.execute(update(Backfill).values(completed_at=Backfill.created_at))


def _day(run: DagRun) -> str:
    assert run.logical_date is not None
    return str(run.logical_date.date().isoformat())


@pytest.mark.parametrize(
    ("dag_id", "error"),
    [
        ("compact_customers", DagNonPeriodicScheduleException),
        ("compact_changed_partitions", DagNonPeriodicScheduleException),
        ("sum_changed_days", DagNonPeriodicScheduleException),
        ("merge_orders", DagNonPeriodicScheduleException),
        ("maintain_orders", DagRunTypeNotAllowed),
        ("flights_compaction", DagRunTypeNotAllowed),
    ],
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["create", "dry_run"])
def test_a_backfill_of_a_dag_whose_runs_process_no_dates_is_refused(
    dag_id: str, error: type[Exception], more: list[str]
) -> None:
    with pytest.raises(error, match=dag_id):
        create(dag_id, *more)
    assert runs(dag_id) == []


def test_a_backfill_of_a_daily_dag_creates_one_run_for_each_day() -> None:
    create(SIBLING)
    assert {run.run_type for run in runs(SIBLING)} == {DagRunType.BACKFILL_JOB}
    assert states() == dict.fromkeys(DAYS, "queued")
    assert planned() == [(day, None) for day in DAYS]
    with create_session() as session:
        assert session.scalars(select(Backfill.max_active_runs)).all() == [10]
    for run in runs(SIBLING):
        # The task reads the day from the interval.
        assert run.data_interval_start == run.logical_date


def test_a_backfill_accepts_dates_before_the_start_date_of_the_dag() -> None:
    dates = ["--from-date", "2025-12-30", "--to-date", "2025-12-31"]
    airflow("backfill", "create", "--dag-id", SIBLING, *dates)
    assert list(states()) == ["2025-12-30", "2025-12-31"]


@pytest.mark.parametrize(
    ("behaviour", "not_run"),
    [
        ("none", ["already exists", "already exists", "already exists"]),
        ("failed", ["already exists", None, "already exists"]),
        ("completed", [None, None, None]),
    ],
)
def test_the_reprocess_behaviour_decides_which_ended_runs_are_cleared(
    behaviour: str, not_run: list[str | None], capsys: pytest.CaptureFixture[str]
) -> None:
    create(SIBLING)
    first = {run.run_id for run in runs(SIBLING)}
    ended = (DagRunState.SUCCESS, DagRunState.FAILED, DagRunState.SUCCESS)
    end(*ended)
    capsys.readouterr()
    create(SIBLING, "--dry-run", "--reprocess-behavior", behaviour)
    shown = capsys.readouterr().out
    create(SIBLING, "--reprocess-behavior", behaviour)

    assert planned() == list(zip(DAYS, not_run, strict=True))
    cleared = dict(zip(DAYS, (reason is None for reason in not_run), strict=True))
    assert states() == {
        day: "queued" if cleared[day] else str(state)
        for day, state in zip(DAYS, ended, strict=True)
    }
    assert {day: f"{day} 00:00" in shown.partition("Runs to be attempted")[2] for day in DAYS} == (
        cleared
    )
    # The ID of a cleared run stays, so its tasks are the same jobs: `on_rerun` decides.
    assert {run.run_id for run in runs(SIBLING)} == first


@pytest.mark.parametrize("behaviour", ["none", "failed", "completed"])
def test_no_reprocess_behaviour_clears_a_run_that_has_not_ended(behaviour: str) -> None:
    create(SIBLING)
    end(DagRunState.RUNNING, DagRunState.QUEUED, DagRunState.RUNNING)
    create(SIBLING, "--reprocess-behavior", behaviour)
    assert planned() == [(day, "in flight") for day in DAYS]
    assert list(states().values()) == ["running", "queued", "running"]


@pytest.mark.parametrize(("behaviour", "count"), [("none", 3), ("failed", 4), ("completed", 6)])
def test_with_a_partition_timetable_a_reprocessed_day_gets_a_new_run(
    behaviour: str, count: int
) -> None:
    create(BY_KEY)
    end(DagRunState.SUCCESS, DagRunState.FAILED, DagRunState.SUCCESS)
    create(BY_KEY, "--reprocess-behavior", behaviour)
    assert len({run.run_id for run in runs(BY_KEY)}) == count
    assert len({run.partition_key for run in runs(BY_KEY)}) == 3


def test_a_dag_has_one_backfill_at_a_time() -> None:
    create(SIBLING)
    with pytest.raises(AlreadyRunningBackfill, match=SIBLING):
        create(SIBLING)


def test_a_merge_that_depends_on_the_past_is_backfilled_forwards_only() -> None:
    dates = ["--from-date", "2013-01-01", "--to-date", "2013-01-03"]
    command = ["backfill", "create", "--dag-id", "flights_merge", *dates]
    with pytest.raises(InvalidBackfillDirection):
        airflow(*command, "--reprocess-behavior", "failed", "--run-backwards")
    with pytest.raises(InvalidReprocessBehavior):
        airflow(*command)
    airflow(*command, "--reprocess-behavior", "failed")
    assert [_day(run) for run in runs("flights_merge")] == [
        "2013-01-01",
        "2013-01-02",
        "2013-01-03",
    ]


@pytest.fixture
def scheduler(no_runs: None) -> SchedulerJobRunner:  # noqa: ARG001 - what it finds
    from airflow.executors.local_executor import LocalExecutor  # noqa: PLC0415 - as above
    from airflow.jobs.job import Job  # noqa: PLC0415 - as above
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner  # noqa: PLC0415 - as above

    return SchedulerJobRunner(job=Job(), executors=[LocalExecutor()])


@pytest.fixture
def started(scheduler: SchedulerJobRunner) -> Callable[[], list[str]]:
    """Let Airflow's scheduler start what it may, end these runs, and return their days."""

    def start() -> list[str]:
        with create_session() as session:
            scheduler._start_queued_dagruns(session)
        running = [_day(run) for run in runs(SIBLING) if run.state == DagRunState.RUNNING]
        with create_session() as session:
            session.execute(
                update(DagRun)
                .where(DagRun.dag_id == SIBLING, DagRun.state == DagRunState.RUNNING)
                .values(state=DagRunState.SUCCESS)
            )
        return running

    return start


@pytest.mark.parametrize(
    ("more", "order"),
    [
        (["--max-active-runs", "1"], [["2026-01-01"], ["2026-01-02"], ["2026-01-03"]]),
        (
            ["--max-active-runs", "1", "--run-backwards"],
            [["2026-01-03"], ["2026-01-02"], ["2026-01-01"]],
        ),
        (["--max-active-runs", "2"], [["2026-01-01", "2026-01-02"], ["2026-01-03"]]),
        ([], [["2026-01-01", "2026-01-02", "2026-01-03"]]),
    ],
    ids=["one", "backwards", "two", "default"],
)
def test_the_scheduler_starts_backfill_runs_in_order_up_to_the_backfills_limit(
    started: Callable[[], list[str]], more: list[str], order: list[list[str]]
) -> None:
    create(SIBLING, *more)
    assert [started() for _ in order] == order
    assert started() == []


def test_max_active_runs_of_the_backfill_overrides_that_of_the_dag(
    started: Callable[[], list[str]],
) -> None:
    _set_sibling(max_active_runs=1)
    create(SIBLING, "--max-active-runs", "3")
    assert started() == list(DAYS)


def test_backfill_runs_of_a_paused_dag_wait_until_it_is_unpaused(
    started: Callable[[], list[str]],
) -> None:
    create(SIBLING)
    _set_sibling(is_paused=True)
    assert started() == []
    _set_sibling(is_paused=False)
    assert started() == list(DAYS)
