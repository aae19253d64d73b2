"""The log of a running driver in a cluster, copied to its task's log."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from airflow.sdk.module_loading import import_string
from airflow.triggers.base import BaseTrigger

from airflow_hiveacid.airflow_names import TaskDeferred
from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.format.known_secrets import forget_secrets, keep_secret
from airflow_hiveacid.operators.submission import (
    cluster_run,
    kubernetes as kubernetes_client,
    log_tail,
    trigger as trigger_module,
    yarn as yarn_client,
)
from airflow_hiveacid.operators.submission.cluster_run import Bounds, Cluster, ClusterRun
from airflow_hiveacid.operators.submission.driver_log import DriverLog
from tests.support.airflow_support import (
    Connections,
    FakeSpark,
    StateStore,
    TaskLog,
    context_of,
    run_task,
)
from tests.support.cluster_tasks import (
    APP,
    POD,
    SPACE,
    TAG,
    api_server,
    deletion,
    ended,
    fired,
    killed_once,
    put_pod,
    resumed,
)
from tests.support.event_loop import in_event_loop
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import (
    ACCEPTED,
    FAILED,
    RUNNING,
    SUCCEEDED,
    ResourceManager as Pretended,
)
from tests.support.slow_server import dripping

_BEGAN: Final = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
_SECRET: Final = "BEGIN KEY\nfirst-half\nsecond-half\nEND KEY"


class _Driver:
    """A driver in a cluster, its log, and a wait for its end that polls on demand.

    `is_killed` is that of the task. Use `write` to add to the log, and `new` for what a poll shows.
    """

    command: str

    def __init__(self, server: Any, client: Cluster[Any], name: str, log: TaskLog) -> None:  # noqa: ANN401 - one of two
        self.server, self.client, self.log, self.is_killed = server, client, log, False
        self.shown = DriverLog()
        self._steps = ClusterRun(
            client,
            TAG,
            Bounds(),
            is_killed=lambda: self.is_killed,
            show_log=self.shown.show_new,
        ).following(name)

    def new(self) -> list[str]:
        """Poll once, and return the lines that the task's log got."""
        self.log.lines.clear()
        next(self._steps, None)
        return list(self.log.lines)

    def last(self) -> list[str]:
        """Return the lines that the task's log gets because the job has failed."""
        self.log.lines.clear()
        found = self.client.report(APP if isinstance(self, _OnYarn) else POD)
        self.shown.show_last(self.client, found)
        return list(self.log.lines)

    def write(self, text: str | bytes) -> None:
        raise NotImplementedError

    def begin_again(self) -> None:
        """Begin the log again, without its lines so far."""
        raise NotImplementedError

    def breaks(self, *, is_broken: bool) -> None:
        """Let the log be unreadable from now on, or readable."""
        raise NotImplementedError

    def reads(self) -> int:
        """Return how often the log was read."""
        raise NotImplementedError

    def is_now(self, status: str) -> None:
        """Let the driver be `waiting`, `running` or `failed`."""
        raise NotImplementedError


class _OnYarn(_Driver):
    command = f"yarn logs -applicationId {APP}"

    def __init__(self, server: Pretended, log: TaskLog) -> None:
        super().__init__(server, yarn_client.ResourceManager(addresses=(server.web,)), APP, log)
        server.files = {"stdout": b"", "stderr": b"from the JVM\n"}
        self.is_now("running")

    def write(self, text: str | bytes) -> None:
        self.server.files["stdout"] += text if isinstance(text, bytes) else text.encode()

    def begin_again(self) -> None:
        self.server.files["stdout"] = b""

    def breaks(self, *, is_broken: bool) -> None:
        self.server.node_page = (500, "text/plain", b"") if is_broken else None

    def reads(self) -> int:
        return len(self.server.read)

    def is_now(self, status: str) -> None:
        states = {"waiting": ACCEPTED, "running": RUNNING, "failed": FAILED}
        self.server.app = {**states[status], **self.server.log_page}


class _OnKubernetes(_Driver):
    command = f"kubectl logs --namespace {SPACE} {TAG}-driver --container spark-kubernetes-driver"

    def __init__(self, server: KubernetesServer, log: TaskLog) -> None:
        super().__init__(server, api_server(server), POD, log)
        self.stored, self.time = b"", _BEGAN
        server.logs = lambda *_: self.stored
        self.is_now("running")

    def write(self, text: str | bytes, time: datetime | None = None) -> None:
        """Add to the log, at a time; half a second later each time by default."""
        self.time = time or self.time + timedelta(seconds=0.5)
        for line in (text if isinstance(text, bytes) else text.encode()).splitlines(keepends=True):
            is_begun = self.stored and not self.stored.endswith(b"\n")
            self.stored += line if is_begun else f"{self.time.isoformat()} ".encode() + line

    def begin_again(self) -> None:
        self.stored = b""

    def breaks(self, *, is_broken: bool) -> None:
        self.server.refuses_logs = is_broken

    def reads(self) -> int:
        return sum("/log?" in path for _, path, _ in self.server.requests)

    def is_now(self, status: str) -> None:
        states = {"waiting": "Pending", "running": "Running"}
        put_pod(
            self.server, **(ended("Error", 1) if status == "failed" else {"phase": states[status]})
        )


@pytest.fixture(params=[Pretended, KubernetesServer], ids=["YARN", "Kubernetes"])
def driver(request: pytest.FixtureRequest, log: TaskLog) -> Iterator[_Driver]:
    with request.param.started() as server:
        yield (_OnYarn if request.param is Pretended else _OnKubernetes)(server, log)


@pytest.fixture
def on_pod(log: TaskLog, api: KubernetesServer) -> _OnKubernetes:
    return _OnKubernetes(api, log)


@pytest.fixture
def on_node(log: TaskLog, yarn: Pretended) -> _OnYarn:
    return _OnYarn(yarn, log)


@pytest.fixture
def secret() -> Iterator[str]:
    yield keep_secret(_SECRET)
    forget_secrets()


# ---- the lines -----------------------------------------------------------------------------------


def test_each_poll_shows_the_lines_that_are_new(driver: _Driver) -> None:
    assert driver.new() == []
    driver.write("one\ntwo\n")
    assert driver.new() == ["one", "two"]
    assert driver.new() == []
    for number in range(5):
        driver.write(f"three {number}\n")
        assert driver.new() == [f"three {number}"]
    assert driver.new() == []


def test_an_unfinished_line_is_shown_when_it_is_finished(driver: _Driver) -> None:
    driver.write("one\ntw")
    assert driver.new() == ["one"]
    assert driver.new() == []
    driver.write("o\nthr")
    assert driver.new() == ["two"]
    driver.write("ee\n")
    assert driver.new() == ["three"]


def test_the_last_line_of_an_ended_driver_is_shown_even_if_it_is_unfinished(
    driver: _Driver,
) -> None:
    driver.write("one\n")
    driver.new()
    driver.write("two\nthr")
    driver.is_now("failed")
    assert driver.new() == ["two", "thr"]


def test_the_lines_of_a_driver_keep_their_level_and_have_no_second_time(
    driver: _Driver, log: TaskLog
) -> None:
    driver.write(
        "12:00:00 INFO opened\n12:00:01 WARN late: no heartbeat\n"
        "26/11/27 12:00:02 ERROR lost: it\nplain 12:00:00 ERROR\n"
    )
    assert driver.new() == ["opened", "late: no heartbeat", "lost: it", "plain 12:00:00 ERROR"]
    assert (log.warnings, log.errors) == (["late: no heartbeat"], ["lost: it"])


def test_bytes_that_are_not_utf_8_are_replaced(driver: _Driver) -> None:
    driver.write(b"caf\xe9\n\xc3")
    assert driver.new() == ["caf\ufffd"]
    driver.write(b"\xa9\n")
    assert driver.new() == ["\u00e9"]


def test_names_of_other_clients_in_a_line_are_escaped(driver: _Driver) -> None:
    driver.write("read t/\x1b[2J\u202ex\tend\n".encode())
    assert driver.new() == ["read t/\\x1b[2J\\u202ex\tend"]


def test_a_log_that_begins_again_is_shown_from_its_beginning(driver: _Driver) -> None:
    driver.write("one\ntwo\nthree\n")
    driver.new()
    driver.begin_again()
    assert driver.new() == []
    driver.write("1\n2\n")
    assert driver.new() == ["1", "2"]
    driver.write("3\n")
    assert driver.new() == ["3"]


def test_if_a_driver_writes_too_much_the_newest_lines_are_shown(driver: _Driver) -> None:
    driver.write("one\n")
    driver.new()
    lines = [f"{number:099}" for number in range(2000)]
    driver.write("".join(f"{line}\n" for line in lines))
    notice, *shown = driver.new()
    assert shown == lines[-len(shown) :]
    assert log_tail.LOG_BYTES - 200 < len(shown) * 100 <= log_tail.LOG_BYTES
    left_out = 200_000 - len(shown) * 100
    assert notice == (
        f"left out at least {left_out} bytes of the driver's log. To read it, run: {driver.command}"
    )
    driver.write("last\n")
    assert driver.new() == ["last"]


def test_a_line_that_is_longer_than_the_limit_is_left_out_whole(
    driver: _Driver, secret: str
) -> None:
    """Its end may contain a part of a secret."""
    del secret
    size = log_tail.LOG_BYTES
    driver.write("one\n")
    assert driver.new() == ["one"]
    for _ in range(3):
        driver.write("x" * size)
        assert driver.new() == []
    driver.write("end of a secret\ntwo\n")
    notice, *shown = driver.new()
    assert f"left out at least {3 * size + len('end of a secret') + 1} bytes" in notice
    assert shown == ["two"]


# ---- secrets -------------------------------------------------------------------------------------


def test_secrets_are_hidden(driver: _Driver, secret: str) -> None:
    driver.write(f"a {secret} b\nuri?password=hunter2 c\nfs.secret 'a b' d\n")
    assert driver.new() == ["a *** b", "uri?password=****** c", "fs.secret '******' d"]


def test_a_secret_over_several_polls_is_hidden(driver: _Driver, secret: str) -> None:
    shown = []
    for part in (f"a\n{line}" for line in secret.splitlines(keepends=True)):
        driver.write(part.removeprefix("a\n") if shown else part)
        shown.append(driver.new())
    driver.write("\nb\n")
    assert [*shown, driver.new()] == [["a"], [], [], [], ["***", "b"]]


def test_a_secret_that_ends_like_it_begins_is_hidden(driver: _Driver, secret: str) -> None:
    del secret
    driver.write(keep_secret("a-line\nanother\na-line") + "\n")
    assert driver.new() == ["***"]


def test_lines_like_the_beginning_of_a_secret_are_shown_with_the_next_line(
    driver: _Driver, secret: str
) -> None:
    begin = "".join(secret.splitlines(keepends=True)[:2])
    driver.write(f"a\n{begin}")
    assert driver.new() == ["a"]
    assert driver.new() == []
    driver.write("different\n")
    assert driver.new() == [*begin.splitlines(), "different"]


def test_the_beginning_of_a_secret_at_the_end_of_a_log_is_not_shown(
    driver: _Driver, secret: str
) -> None:
    driver.new()
    driver.write(f"a\n{secret[: secret.index('second')]}")
    driver.is_now("failed")
    assert driver.new() == ["a"]


@pytest.mark.parametrize("is_known", [False, True], ids=["in one poll", "in two polls"])
def test_the_rest_of_a_secret_after_a_gap_is_not_shown(
    driver: _Driver, secret: str, *, is_known: bool
) -> None:
    """Neither its beginning, which an earlier poll has kept back."""
    driver.new()
    first, rest = secret.split("second", 1)
    if is_known:
        driver.write(first)
        assert driver.new() == []
        first = ""
    line = "x" * 99
    lines = f"{line}\n" * ((log_tail.LOG_BYTES - len(f"second{rest}\n")) // 100)
    written = f"{first}{'y' * 50_000}\nsecond{rest}\n{lines}"
    driver.write(written)
    notice, *shown = driver.new()
    assert set(shown) == {line}
    left_out = len(secret.split("second", 1)[0] + "y" * 50_000 + "\n")
    assert f"left out at least {left_out} bytes" in notice


# ---- which drivers -------------------------------------------------------------------------------


def test_the_log_of_a_driver_that_waits_for_its_container_is_not_read(driver: _Driver) -> None:
    driver.is_now("waiting")
    driver.write("one\n")
    driver.new()
    assert driver.reads() == 0
    driver.is_now("failed")  # between two polls
    assert driver.new() == ["one"]


def test_the_log_of_a_driver_that_ended_before_the_first_poll_is_not_read(driver: _Driver) -> None:
    """A trigger has shown it; the worker only reads the result."""
    driver.write("one\n")
    driver.is_now("failed")
    assert (driver.new(), driver.reads()) == ([], 0)
    assert "one" in driver.last()


def test_a_killed_task_does_not_read_the_log(driver: _Driver) -> None:
    driver.new()
    before = driver.reads()
    driver.write("one\n")
    driver.is_killed = True
    driver.new()
    assert (driver.reads(), driver.log.lines.count("one")) == (before, 0)


# ---- logs that cannot be read --------------------------------------------------------------------


def test_a_log_that_cannot_be_read_is_tried_three_times_in_a_row(driver: _Driver) -> None:
    driver.breaks(is_broken=True)
    assert [driver.new(), driver.new()] == [[], []]
    (line,) = driver.new()
    assert line.startswith("cannot show new lines of the driver's log: HTTP ")
    assert line.endswith(f"To read it, run: {driver.command}")
    driver.breaks(is_broken=False)
    driver.write("one\n")
    assert [driver.new(), driver.new()] == [[], []]
    assert driver.reads() == 3


def test_no_line_is_lost_if_a_log_cannot_be_read_for_a_moment(driver: _Driver) -> None:
    for number in range(3):
        driver.breaks(is_broken=True)
        driver.write(f"one {number}\n")
        assert [driver.new(), driver.new()] == [[], []]
        driver.breaks(is_broken=False)
        driver.write(f"two {number}\n")
        assert driver.new() == [f"one {number}", f"two {number}"]


def test_one_line_says_that_the_end_of_an_ended_drivers_log_cannot_be_read(driver: _Driver) -> None:
    driver.new()
    driver.breaks(is_broken=True)
    driver.is_now("failed")
    (line,) = driver.new()
    assert line.startswith("cannot show new lines of the driver's log: HTTP ")


def test_a_slow_server_delays_a_poll_only_for_a_moment(
    driver: _Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "LOG_S", 0.5)
    are_read = threading.Event()
    with dripping() as address:
        if isinstance(driver, _OnYarn):
            page = f"{address}/node/containerlogs/container_1_1_1_1/etl"
            driver.server.app = {**RUNNING, "amContainerLogs": page}
        else:
            driver.server.logs = lambda *_: b"" if are_read.wait(60) else b"late\n"
        lines = [driver.new() for _ in range(4)]
        are_read.set()
    assert [len(one) for one in lines] == [0, 0, 1, 0]
    assert "no answer within 0.5 s" in lines[2][0]


# ---- the end -------------------------------------------------------------------------------------


def test_the_last_lines_of_a_failed_driver_are_not_repeated(driver: _Driver) -> None:
    driver.write("one\n")
    assert driver.new() == ["one"]
    driver.write("two\n")
    driver.is_now("failed")
    assert driver.new() == ["two"]
    before = driver.reads()
    jvm = ["::group::Spark driver's last lines (stderr)", "from the JVM", "::endgroup::"]
    assert driver.last() == (jvm if isinstance(driver, _OnYarn) else [])
    assert driver.reads() - before == int(isinstance(driver, _OnYarn))


def test_the_last_lines_are_shown_if_the_end_of_the_log_was_not(driver: _Driver) -> None:
    driver.write("one\n")
    assert driver.new() == ["one"]
    driver.is_now("failed")
    driver.breaks(is_broken=True)
    driver.new()
    driver.breaks(is_broken=False)
    assert "one" in driver.last()


# ---- YARN ----------------------------------------------------------------------------------------


def test_a_line_like_the_footer_of_yarn_is_a_line(on_node: _OnYarn) -> None:
    on_node.write("one\nEnd of LogType:stdout.\n")
    assert on_node.new() == ["one", "End of LogType:stdout."]
    on_node.write("two\n")
    assert on_node.new() == ["two"]


@pytest.mark.parametrize(
    "body",
    [
        b"LogLength:9\nLogContents:\nshortEnd of LogType:stdout.\n",
        b"LogContents:\nwithout a lengthEnd of LogType:stdout.\n",
        b"LogLength:4\nLogContents:\none\n",
    ],
)
def test_an_answer_of_yarn_with_an_unknown_form_is_not_shown(on_node: _OnYarn, body: bytes) -> None:
    on_node.server.node_page = (200, "text/plain", body)
    assert [on_node.new(), on_node.new()] == [[], []]
    (line,) = on_node.new()
    assert "unknown form" in line


# ---- Kubernetes ----------------------------------------------------------------------------------


def test_lines_with_equal_times_and_times_out_of_order_are_shown_once(
    on_pod: _OnKubernetes,
) -> None:
    at = _BEGAN
    for text, offset_s in (
        ("a", 0),
        ("b", 0),
        ("a", 0),
        ("c", -0.1),
        ("d", 1),
        ("e", -0.1),
        ("f", 0.9),
    ):
        on_pod.write(f"{text}\n", at + timedelta(seconds=offset_s))
        assert on_pod.new() == [text]
    assert on_pod.new() == []


def test_a_line_from_before_the_last_two_seconds_is_not_repeated(on_pod: _OnKubernetes) -> None:
    """A line whose time is out of order must not make the next request begin earlier."""
    for text, offset_s in (("a", -1), ("b", 0), ("c", 0.501), ("d", 0.499), ("e", 5)):
        on_pod.write(f"{text}\n", _BEGAN + timedelta(seconds=offset_s))
        assert on_pod.new() == [text]


def test_the_rest_of_a_long_line_has_no_time_and_is_not_repeated(
    on_pod: _OnKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress bar's line may take minutes; Kubernetes leaves out its parts of long ago."""
    on_pod.write("a\n", _BEGAN)
    assert on_pod.new() == ["a"]
    monkeypatch.setattr(
        kubernetes_client.ApiServer, "_log_of", lambda *_, **__: b"100 %\n" + on_pod.stored
    )
    on_pod.write("b\n")
    assert on_pod.new() == ["b"]
    assert on_pod.new() == []
    on_pod.write("c\n")
    assert on_pod.new() == ["c"]


def test_only_the_lines_of_the_last_two_seconds_are_read_again(on_pod: _OnKubernetes) -> None:
    on_pod.write("a\n", _BEGAN)
    on_pod.new()
    on_pod.new()
    first, second = [path for _, path, _ in on_pod.server.requests if "/log?" in path]
    assert "sinceTime" not in first
    assert "sinceTime=2026-01-01T11%3A59%3A59%2B00%3A00" in second


def test_times_may_have_any_offset(on_pod: _OnKubernetes) -> None:
    on_pod.stored = b"2026-01-01T14:00:00.9+02:00 a\n2026-01-01T12:00:01.000000001Z b\n"
    assert on_pod.new() == ["a", "b"]
    on_pod.stored += b"2026-01-01T14:00:01.1+02:00 c\n2026-01-01T13:00:02+01:00 d\n"
    assert on_pod.new() == ["c", "d"]
    on_pod.stored += b"2026-01-01T12:00:02.2Z e\n"
    assert on_pod.new() == ["e"]


def test_a_second_with_more_lines_than_an_answer_does_not_stop_the_log(
    on_pod: _OnKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "READ_BYTES", 1000)
    monkeypatch.setattr(log_tail, "LOG_BYTES", 100)
    on_pod.write("a line\n" * 100, _BEGAN)
    notice, *shown = on_pod.new()
    assert "left out at least" in notice
    assert set(shown) == {"a line"}
    assert on_pod.new() == []
    on_pod.write("next\n", _BEGAN + timedelta(seconds=1))
    assert on_pod.new() == ["next"]
    on_pod.write("a line\n" * 100, _BEGAN + timedelta(seconds=2))
    on_pod.is_now("failed")
    on_pod.new()
    assert "::group::Spark driver's last lines" in on_pod.last()


def test_the_rest_of_a_secret_after_lines_that_were_not_read_is_not_shown(
    on_pod: _OnKubernetes, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setattr(log_tail, "READ_BYTES", 1000)
    first, rest = secret.split("second", 1)
    on_pod.write("a line\n" * 100 + first, _BEGAN)
    on_pod.new()
    on_pod.write(f"second{rest}\nb\n", _BEGAN + timedelta(seconds=1))
    assert [line for line in on_pod.new() if line] == ["b"]


def test_a_line_longer_than_an_answer_stops_the_log(
    on_pod: _OnKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "READ_BYTES", 1000)
    on_pod.write("x" * 2000)
    assert [on_pod.new(), on_pod.new()] == [[], []]
    (line,) = on_pod.new()
    assert "a line has more than 1000 bytes" in line


def test_an_answer_without_times_is_not_shown(
    on_pod: _OnKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a node's message that the log is missing."""
    monkeypatch.setattr(
        kubernetes_client.ApiServer, "_log_of", lambda *_, **__: b"unable to retrieve logs\n"
    )
    assert [on_pod.new(), on_pod.new()] == [[], []]
    (line,) = on_pod.new()
    assert "unknown form" in line


def test_the_log_of_a_pod_that_is_being_deleted_is_not_read(on_pod: _OnKubernetes) -> None:
    """A retry waits for the end of the last try's driver."""
    pod = on_pod.server.objects.get("pods", SPACE, f"{TAG}-driver")
    pod["metadata"]["deletionTimestamp"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    on_pod.server.objects.put("pods", SPACE, pod)
    on_pod.write("one\n")
    on_pod.new()
    assert on_pod.reads() == 0


# ---- tasks ---------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls without long pauses."""
    monkeypatch.setattr(cluster_run, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(trigger_module, "FIRST_POLL_S", 0.0)


def _running_then(yarn: Pretended, end: dict[str, str]) -> None:
    """Let a driver run for a poll, and then end; it has written two lines."""
    yarn.files = {"stdout": b"one\ntwo\n", "stderr": b"from the JVM\n"}
    yarn.states = [{**RUNNING, **yarn.log_page}]
    yarn.app = {**end, **yarn.log_page}


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_a_worker_copies_its_drivers_log(yarn: Pretended, log: TaskLog) -> None:
    _running_then(yarn, SUCCEEDED)
    done = run_task(deletion(), context_of(task_state_store=StateStore()))
    assert done["status"] == "committed"
    assert [line for line in log.lines if line in ("one", "two")] == ["one", "two"]
    assert "from the JVM" not in log.lines


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_a_failed_task_shows_each_line_once(
    spark: FakeSpark, yarn: Pretended, log: TaskLog
) -> None:
    _running_then(yarn, FAILED)
    spark.tell(answers=False)
    with pytest.raises(JobFailedError):
        run_task(deletion(), context_of(task_state_store=StateStore()))
    assert [log.lines.count(line) for line in ("one", "two", "from the JVM")] == [1, 1, 1]


@pytest.mark.usefixtures("on_yarn", "at_once", "aborted")
def test_a_killed_task_reads_no_more_of_its_drivers_log(yarn: Pretended, log: TaskLog) -> None:
    _running_then(yarn, RUNNING)
    took_s = killed_once(
        deletion(), context_of(task_state_store=StateStore()), lambda: "two" in log.lines
    )
    assert took_s < 2
    killed = next(n for n, one in enumerate(yarn.requests) if one.startswith("PUT"))
    assert [one for one in yarn.requests[killed:] if "/containerlogs/" in one] == []


def _deferred(task: Any, store: StateStore) -> BaseTrigger:  # noqa: ANN401 - any operator
    with pytest.raises(TaskDeferred) as caught:
        run_task(task, context_of(task_state_store=store))
    path, arguments = caught.value.trigger.serialize()
    made: BaseTrigger = import_string(path)(**arguments)
    return made


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_a_trigger_copies_the_log_and_the_woken_worker_repeats_only_last_lines(
    spark: FakeSpark, yarn: Pretended, log: TaskLog
) -> None:
    spark.tell(answers=False)
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True), store)
    _running_then(yarn, FAILED)
    event = fired(trigger)
    assert [line for line in log.lines if line in ("one", "two")] == ["one", "two"]
    log.lines.clear()
    with pytest.raises(JobFailedError):
        resumed(deletion(deferrable=True), store, event)
    first = log.lines.index("::group::Spark driver's last lines (stdout)")
    assert log.lines[first + 1 : first + 4] == ["one", "two", "::endgroup::"]
    assert log.lines.count("one") == 1


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_a_new_triggerer_copies_the_log_from_its_beginning(yarn: Pretended, log: TaskLog) -> None:
    trigger = _deferred(deletion(deferrable=True), StateStore())
    for _ in range(2):
        log.lines.clear()
        _running_then(yarn, SUCCEEDED)
        fired(trigger)
        assert [line for line in log.lines if line in ("one", "two")] == ["one", "two"]


@pytest.mark.usefixtures("on_yarn", "at_once")
@pytest.mark.parametrize(
    "given",
    [
        {"conf": {"spark.hadoop.fs.s3a.secret.key": "s3cr3t"}},
        {"env_vars": {"TOKEN": "s3cr3t"}},
        {"repositories": "https://etl:s3cr3t@repository"},
    ],
)
def test_a_trigger_does_not_copy_the_log_if_only_the_worker_knows_the_tasks_secrets(
    yarn: Pretended, log: TaskLog, connections: Connections, given: dict[str, Any]
) -> None:
    del connections
    trigger = _deferred(deletion(deferrable=True, **given), StateStore())
    assert any("does not show the driver's log" in line for line in log.lines)
    _running_then(yarn, SUCCEEDED)
    assert fired(trigger)["end"] == "ended"
    assert yarn.read == []


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_a_secret_setting_with_several_lines_is_hidden(yarn: Pretended, log: TaskLog) -> None:
    _running_then(yarn, SUCCEEDED)
    yarn.files["stdout"] = f"one\n{_SECRET}\ntwo\n".encode()
    run_task(
        deletion(env_vars={"KEY_PASSWORD": _SECRET}),
        context_of(task_state_store=StateStore()),
    )
    first = log.lines.index("one")
    assert log.lines[first : first + 3] == ["one", "***", "two"]


@pytest.mark.usefixtures("at_once")
def test_a_trigger_hides_the_secret_of_the_metastore(
    yarn: Pretended, log: TaskLog, on_yarn: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger = _deferred(deletion(deferrable=True), StateStore())
    monkeypatch.setenv("METASTORE_SECRET", "open sesame")
    on_yarn.add(
        "hive_acid_default",
        "hive_acid_metastore",
        login="etl",
        extra={
            "uris": "thrift://metastore:9083",
            "authentication": "password",
            "secret_in_clear": True,
            "secret_from": "env:METASTORE_SECRET",
        },
    )
    _running_then(yarn, SUCCEEDED)
    yarn.files["stdout"] = b"I say open sesame\n"
    assert fired(trigger)["end"] == "ended"
    assert "I say ***" in log.lines


@pytest.mark.usefixtures("at_once")
def test_a_trigger_that_cannot_hide_the_secret_of_the_metastore_shows_no_log(
    yarn: Pretended, on_yarn: Connections
) -> None:
    trigger = _deferred(deletion(deferrable=True), StateStore())
    on_yarn.add("hive_acid_default", "hive_acid_metastore", extra={"authentication": "wrong"})
    _running_then(yarn, SUCCEEDED)
    assert fired(trigger)["end"] == "ended"
    assert yarn.read == []


@pytest.mark.usefixtures("on_yarn", "at_once")
@in_event_loop
async def test_nodes_out_of_reach_leave_threads_for_the_polls_of_other_drivers(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All drivers of a connection share four threads, so few of them may wait for a node."""
    trigger = _deferred(deletion(deferrable=True), StateStore())
    yarn.app = {**SUCCEEDED, **yarn.log_page}
    yarn.states = [{**RUNNING, **yarn.log_page}] * 40
    lock, reading, most = threading.Lock(), 0, 0

    def slow(*_: object) -> None:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
        time.sleep(0.1)
        with lock:
            reading -= 1

    monkeypatch.setattr(DriverLog, "show_new", slow)

    async def one() -> None:
        async for _ in trigger.run():
            return

    await asyncio.gather(*(one() for _ in range(40)))
    assert most == 2


@pytest.mark.usefixtures("on_yarn", "at_once")
def test_one_line_says_that_the_end_of_a_log_was_not_read_while_others_were(
    yarn: Pretended, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_module, "_LAST_READ_S", 0.01)
    monkeypatch.setattr(trigger_module, "_log_reads", threading.BoundedSemaphore(1))
    trigger = _deferred(deletion(deferrable=True), StateStore())
    _running_then(yarn, SUCCEEDED)
    with trigger_module._log_reads:
        assert fired(trigger)["end"] == "ended"
    assert yarn.read == []
    (line,) = [one for one in log.lines if "new lines of the driver's log" in one]
    assert "logs of other drivers" in line
    assert f"yarn logs -applicationId {APP}" in line
