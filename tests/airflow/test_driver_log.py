"""The last lines of a driver in a cluster, in the log of its failed task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from airflow.sdk.module_loading import import_string
from requests.auth import HTTPBasicAuth

from airflow_hiveacid.airflow_names import TaskDeferred
from airflow_hiveacid.format.errors import (
    ApplicationForgottenError,
    ContractVersionError,
    JobFailedError,
    LockNotAcquiredError,
)
from airflow_hiveacid.format.known_secrets import forget_secrets, keep_secret
from airflow_hiveacid.metastore.auth.krb5 import GssContext as Context
from airflow_hiveacid.operators.submission import (
    log_tail,
    trigger as trigger_module,
    yarn as yarn_client,
)
from airflow_hiveacid.operators.submission.http import Negotiate
from airflow_hiveacid.operators.submission.kubernetes import LABEL
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
    SPACE,
    SUCCEEDED,
    connect_yarn,
    deletion,
    ended,
    fired,
    killed_once,
    resumed,
)
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import (
    FAILED,
    KILLED,
    RUNNING,
    SUCCEEDED as YARN_SUCCEEDED,
    ResourceManager as Pretended,
)
from tests.support.slow_server import dripping

pytestmark = pytest.mark.usefixtures("spark")

_CANARY: Final = "canary-of-a-secret"
_YARN_COMMAND: Final = f"To read it, run: yarn logs -applicationId {APP}"
_ENDED: Final = "ended as FINISHED, FAILED"


@pytest.fixture
def secret() -> Iterator[str]:
    yield keep_secret(_CANARY)
    forget_secrets()


def _fails(task: Any, error: type[Exception] = JobFailedError) -> str:  # noqa: ANN401 - any operator
    with pytest.raises(error) as caught:
        run_task(task, context_of(task_state_store=StateStore()))
    return str(caught.value)


def _groups(log: TaskLog) -> dict[str, list[str]]:
    """Return the lines of each group about a driver, by the group's title."""
    found: dict[str, list[str]] = {}
    lines = iter(log.lines)
    for line in lines:
        if line.startswith("::group::Spark driver's last lines"):
            found[line.removeprefix("::group::")] = list(iter(lambda: next(lines), "::endgroup::"))
    return found


def _commands(log: TaskLog) -> list[str]:
    return [line for line in log.lines if "cannot show the driver's log" in line]


def _numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


# ---- YARN ----------------------------------------------------------------------------------------

_STDERR: Final = "Spark driver's last lines (stderr)"
_STDOUT: Final = "Spark driver's last lines (stdout)"


@pytest.fixture
def failed(on_yarn: Connections, yarn: Pretended, spark: FakeSpark) -> Pretended:
    """A driver that has failed without a result, and its log."""
    del on_yarn
    yarn.app = {**FAILED, **yarn.log_page}
    yarn.files = {"stderr": b"from the JVM\n", "stdout": b"from Python\nValueError: no\n"}
    spark.tell(answers=False)
    return yarn


def test_the_log_shows_the_last_lines_of_both_files_of_a_failed_driver(
    failed: Pretended, log: TaskLog
) -> None:
    assert _ENDED in _fails(deletion())
    assert log.lines[-7:] == [
        f"::group::{_STDERR}",
        "from the JVM",
        "::endgroup::",
        f"::group::{_STDOUT}",
        "from Python",
        "ValueError: no",
        "::endgroup::",
    ]
    assert failed.read == ["stdout", "stderr"]
    assert "user.name=" in failed.requests[-1]
    assert "size=-65536" in failed.requests[-1]


def test_the_log_shows_as_many_lines_as_of_a_driver_on_the_worker(
    failed: Pretended, log: TaskLog
) -> None:
    failed.files = {"stderr": b"", "stdout": _numbered(100)}
    _fails(deletion())
    assert _groups(log) == {_STDOUT: [f"line {number}" for number in range(80, 100)]}


def test_the_log_shows_the_lines_of_a_driver_that_reported_an_error(
    spark: FakeSpark, failed: Pretended, log: TaskLog
) -> None:
    del failed
    spark.tell(answers=True, error={"type": "LockNotAcquiredError", "message": "locked"})
    _fails(deletion(), LockNotAcquiredError)
    assert _groups(log)[_STDOUT] == ["from Python", "ValueError: no"]


def test_the_log_shows_the_lines_of_a_driver_whose_result_cannot_be_read(
    spark: FakeSpark, failed: Pretended, log: TaskLog
) -> None:
    del failed
    spark.tell(answers=True, version=0)
    _fails(deletion(), ContractVersionError)
    assert _STDOUT in _groups(log)


def test_the_log_shows_the_lines_of_a_driver_that_succeeded_without_a_result(
    failed: Pretended, log: TaskLog
) -> None:
    failed.app = {**YARN_SUCCEEDED, **failed.log_page}
    assert "left no result" in _fails(deletion())
    assert _STDOUT in _groups(log)


@pytest.mark.parametrize("app", [YARN_SUCCEEDED, FAILED])
def test_the_log_of_a_driver_that_left_a_result_is_not_read(
    spark: FakeSpark, failed: Pretended, log: TaskLog, app: dict[str, str]
) -> None:
    failed.app = {**app, **failed.log_page}
    spark.tell(answers=True)
    done = run_task(deletion(), context_of(task_state_store=StateStore()))
    assert done["status"] == "committed"
    assert (failed.read, _groups(log), _commands(log)) == ([], {}, [])


def test_secrets_in_a_drivers_lines_are_hidden(
    failed: Pretended, log: TaskLog, secret: str
) -> None:
    failed.files["stdout"] = (
        f"with {secret}\nuri?password=hunter2 more\nfs.secret 'a b' c\n".encode()
    )
    _fails(deletion())
    assert _groups(log)[_STDOUT] == ["with ***", "uri?password=****** more", "fs.secret '******' c"]


def test_a_cut_line_is_not_shown_because_it_may_contain_the_end_of_a_secret(
    failed: Pretended, log: TaskLog, secret: str
) -> None:
    after = b"x" * (log_tail.LOG_BYTES - len(secret) + 3 - len("\nlast\n")) + b"\nlast\n"
    failed.files["stdout"] = b"y" * 10_000_000 + secret.encode() + after
    _fails(deletion())
    assert _groups(log)[_STDOUT] == ["last"]
    assert secret[3:] not in "".join(log.lines)


def test_bytes_that_are_not_utf_8_are_replaced(failed: Pretended, log: TaskLog) -> None:
    failed.files["stdout"] = b"caf\xe9\n\xff\xfe\nend"
    _fails(deletion())
    assert _groups(log)[_STDOUT] == ["caf\ufffd", "\ufffd\ufffd", "end"]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((404, "text/plain", b"Unknown container"), "HTTP 404"),
        ((403, "text/html", b"not yours"), "HTTP 403"),
        ((500, "text/plain", b""), "HTTP 500"),
        ((200, "text/html", b"<pre>log in here</pre>"), "not plain text"),
        ((200, "text/plain", b"a log without a frame"), "unknown form"),
        ((200, "text/plain", b"LogContents:\n" + b"x" * 10_000_000), "unknown form"),
        ((200, "text/plain", b"End of LogType:stdoutEnd of LogType:stderr"), "is empty"),
    ],
)
def test_if_a_node_does_not_return_the_log_one_line_names_the_command_that_does(
    failed: Pretended, log: TaskLog, page: tuple[int, str, bytes], words: str
) -> None:
    failed.node_page = page
    assert _ENDED in _fails(deletion())
    (line,) = _commands(log)
    assert words in line
    assert line.endswith(_YARN_COMMAND)
    assert _groups(log) == {}
    assert failed.read.count("stdout") == 1


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("", "reports no node"),
        ("http://knox/gateway/yarn/logs", "reports no node"),
        ("http://etl:hunter2@node:1/node/containerlogs/container_1_1_1_1/etl", "reports no node"),
        ("http://[::1/node/containerlogs/container_1_1_1_1/etl", "IPv6"),
        ("http://127.0.0.1:1/node/containerlogs/container_1_1_1_1/etl", "Connection refused"),
    ],
)
def test_if_the_node_is_out_of_reach_one_line_names_the_command(
    failed: Pretended, log: TaskLog, page: str, words: str
) -> None:
    failed.app = {**FAILED, "amContainerLogs": page}
    assert _ENDED in _fails(deletion())
    (line,) = _commands(log)
    assert words in line
    assert line.endswith(_YARN_COMMAND)
    assert "hunter2" not in line


def test_a_slow_node_delays_a_failed_task_only_for_a_moment(
    failed: Pretended, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_tail.LOG_S <= 5
    monkeypatch.setattr(log_tail, "LOG_S", 0.5)
    with dripping() as address:
        page = f"{address}/node/containerlogs/container_1_1_1_1/etl"
        failed.app = {**FAILED, "amContainerLogs": page}
        assert _ENDED in _fails(deletion())
    (line,) = _commands(log)
    assert "no answer within 0.5 s" in line


def test_the_second_file_gets_only_the_time_that_the_first_has_left(
    failed: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = yarn_client.ResourceManager(addresses=(failed.web,))
    limits: list[float] = []

    def slow(_: object, __: str, name: str, timeout_s: float) -> bytes:
        limits.append(timeout_s)
        if name == "stderr":
            raise TimeoutError
        time.sleep(0.2)
        return b"LogLength:5\nLogContents:\nlinesEnd of LogType:stdout"

    monkeypatch.setattr(yarn_client.ResourceManager, "_log_file", slow)
    found = manager.report(APP)
    assert found is not None
    assert manager.last_words(found, is_copied=False) == {"stdout": b"lines"}
    assert limits[0] == log_tail.LOG_S
    assert limits[1] <= log_tail.LOG_S - 0.2


@pytest.mark.usefixtures("aborted")
def test_a_killed_task_does_not_show_its_drivers_last_lines(
    failed: Pretended, log: TaskLog
) -> None:
    failed.app = {**RUNNING, **failed.log_page}
    running = lambda: APP in failed.asked  # noqa: E731 - one expression
    killed_once(deletion(), context_of(task_state_store=StateStore()), running)
    assert failed.app == KILLED
    assert (_groups(log), _commands(log)) == ({}, [])


def test_a_deferred_task_reads_the_log_on_the_worker(
    failed: Pretended, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_module, "FIRST_POLL_S", 0.0)
    store = StateStore()
    with pytest.raises(TaskDeferred) as caught:
        run_task(deletion(deferrable=True), context_of(task_state_store=store))
    path, arguments = caught.value.trigger.serialize()
    event = fired(import_string(path)(**arguments))
    assert (failed.read, _groups(log)) == ([], {})
    with pytest.raises(JobFailedError, match=_ENDED):
        resumed(deletion(deferrable=True), store, event)
    assert set(_groups(log)) == {_STDERR, _STDOUT}


def test_a_retry_does_not_show_the_lines_of_the_last_tries_driver(
    spark: FakeSpark, failed: Pretended, log: TaskLog
) -> None:
    store = StateStore()
    with pytest.raises(JobFailedError):
        run_task(deletion(), context_of(task_state_store=store))
    failed.requests.clear()
    log.lines.clear()
    failed.states = [dict(FAILED)]  # when the retry asks for the last try's driver
    failed.app = {**YARN_SUCCEEDED, **failed.log_page}
    spark.tell(answers=True)
    done = run_task(deletion(), context_of(try_number=2, task_state_store=store))
    assert done["status"] == "committed"
    assert (failed.read, _groups(log)) == ([], {})


def test_the_log_of_a_forgotten_application_can_be_read_by_its_id(
    failed: Pretended, log: TaskLog
) -> None:
    failed.app = None
    _fails(deletion(), ApplicationForgottenError)
    (line,) = _commands(log)
    assert "has forgotten" in line
    assert line.endswith(_YARN_COMMAND)


def test_without_a_resource_managers_address_the_log_can_be_read_by_its_id(
    spark: FakeSpark, on_yarn: Connections, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    on_yarn.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    spark.tell(answers=False, exit_code=1)
    _fails(deletion())
    assert list(_groups(log)) == ["Spark driver's last lines"]  # of `spark-submit`
    (line,) = _commands(log)
    assert line.endswith(_YARN_COMMAND)


# ---- YARN: with which login ----------------------------------------------------------------------


def test_a_users_own_login_is_sent_to_no_node(failed: Pretended, log: TaskLog) -> None:
    with Pretended.started() as node:
        node.files = failed.files
        failed.app = {**FAILED, **node.log_page}
        _fails(deletion(yarn_rm_auth=HTTPBasicAuth("etl", "hunter2")))
        assert node.logins == [None, None]
        assert "user.name" not in "".join(node.requests)
    assert any(failed.logins)
    assert _STDOUT in _groups(log)


def test_a_users_own_login_is_sent_to_a_node_at_the_resource_managers_own_address(
    failed: Pretended,
) -> None:
    """As with a gateway in front of all servers."""
    _fails(deletion(yarn_rm_auth=HTTPBasicAuth("etl", "hunter2")))
    assert failed.read == ["stdout", "stderr"]
    assert all(failed.logins)


def test_a_redirect_does_not_take_a_users_own_login_to_a_log_server(
    failed: Pretended, log: TaskLog
) -> None:
    with Pretended.started() as log_server:
        failed.log_server = log_server.web
        _fails(deletion(yarn_rm_auth=HTTPBasicAuth("etl", "hunter2")))
        assert log_server.requests == []
    (line,) = _commands(log)
    assert "HTTP 307" in line


def test_a_password_in_the_resource_managers_address_is_sent_to_no_node(
    failed: Pretended, on_yarn: Connections
) -> None:
    address = failed.web.replace("//", "//etl:hunter2@")
    connect_yarn(on_yarn, failed, "cluster", yarn_resourcemanager_webapp_address=address)
    with Pretended.started() as node:
        node.files = failed.files
        failed.app = {**FAILED, **node.log_page}
        _fails(deletion())
        assert node.logins == [None, None]


class _Ticket:
    """A Kerberos context whose ticket is readable."""

    def __init__(self, service: str) -> None:
        self.service, self.is_complete = service, False

    def step(self, token: bytes | None) -> bytes:
        self.is_complete = token == b"proof"
        return f"for {self.service}".encode()


def _context(service: str) -> Context:
    return _Ticket(service)  # type: ignore[return-value]  # HTTP needs no more of it


def test_a_node_and_a_log_server_get_tickets_for_themselves(yarn: Pretended) -> None:
    auth = Negotiate(make_context=_context, realm="R")
    manager = _kerberized(yarn, auth)
    with Pretended.started() as node, Pretended.started() as log_server:
        for server in (node, log_server):
            server.proof = lambda _: b"proof"
        node.log_server = log_server.web.replace("127.0.0.1", "localhost")
        log_server.files = {"stdout": b"a", "stderr": b"b"}
        found = _report(manager, yarn, node)
        assert manager.last_words(found, is_copied=False) == {"stderr": b"b", "stdout": b"a"}
        assert Pretended.decoded(node.logins) == [None, "for HTTP/127.0.0.1@R"] * 2
        assert {one for one in Pretended.decoded(log_server.logins) if one} == {
            "for HTTP/localhost@R"
        }


def test_a_node_that_does_not_prove_its_identity_is_not_believed(yarn: Pretended) -> None:
    manager = _kerberized(yarn, Negotiate(make_context=_context))
    with Pretended.started() as node:
        node.files, node.proof = {"stdout": b"a", "stderr": b"b"}, lambda _: b"forged"
        with pytest.raises(OSError, match="did not prove"):
            manager.last_words(_report(manager, yarn, node), is_copied=False)


def _kerberized(server: Pretended, auth: Negotiate) -> yarn_client.ResourceManager:
    return yarn_client.ResourceManager(addresses=(server.web,), auth=auth)


def _report(
    manager: yarn_client.ResourceManager, server: Pretended, node: Pretended
) -> yarn_client.YarnApplication:
    server.app = {**FAILED, **node.log_page}
    found = manager.report(APP)
    assert found is not None
    return found


# ---- Kubernetes ----------------------------------------------------------------------------------

_TITLE: Final = "Spark driver's last lines"


@pytest.fixture
def pod(
    on_kubernetes: Connections, api: KubernetesServer, submits: dict[str, Any], spark: FakeSpark
) -> KubernetesServer:
    """A pod whose driver has failed without a result, and its log."""
    del on_kubernetes
    submits |= ended("Error", 1)
    api.logs = lambda *_: "first\nlast"
    spark.tell(answers=False)
    return api


def _reads(api: KubernetesServer) -> list[str]:
    return [path for _, path, _ in api.requests if path.partition("?")[0].endswith("/log")]


def test_the_log_shows_the_last_lines_of_a_failed_pod(
    pod: KubernetesServer, log: TaskLog, secret: str
) -> None:
    pod.logs = lambda *_: "".join(f"{n} {secret} password=hunter2\n" for n in range(100))
    assert "exit code 1" in _fails(deletion())
    lines = [f"{number} *** password=******" for number in range(80, 100)]
    assert log.lines[-22:] == [f"::group::{_TITLE}", *lines, "::endgroup::"]
    (path,) = _reads(pod)
    for term in ("container=spark-kubernetes-driver", "tailLines=20", "limitBytes=65536"):
        assert term in path


def test_the_log_shows_the_lines_of_a_pod_that_succeeded_without_a_result(
    pod: KubernetesServer, submits: dict[str, Any], log: TaskLog
) -> None:
    del pod
    submits.clear()
    submits |= SUCCEEDED
    assert "left no result" in _fails(deletion())
    assert _groups(log) == {_TITLE: ["first", "last"]}


def test_the_log_shows_the_lines_of_a_pod_that_reported_an_error(
    spark: FakeSpark, pod: KubernetesServer, log: TaskLog
) -> None:
    del pod
    spark.tell(answers=True, error={"type": "LockNotAcquiredError", "message": "locked"})
    _fails(deletion(), LockNotAcquiredError)
    assert _groups(log) == {_TITLE: ["first", "last"]}


def test_the_log_of_a_pod_that_left_a_result_is_not_read(
    spark: FakeSpark, pod: KubernetesServer, submits: dict[str, Any], log: TaskLog
) -> None:
    submits.clear()
    submits |= SUCCEEDED
    spark.tell(answers=True)
    run_task(deletion(), context_of(task_state_store=StateStore()))
    assert (_reads(pod), _groups(log)) == ([], {})


def test_a_pods_log_is_cut_after_a_whole_line(
    pod: KubernetesServer, log: TaskLog, secret: str
) -> None:
    before = "a\n" + "x" * (log_tail.LOG_BYTES - 8) + "\n"
    pod.logs = lambda *_: f"{before}{secret}\nend\n"
    _fails(deletion())
    assert _groups(log)[_TITLE] == before.splitlines()
    assert secret[:5] not in "".join(log.lines)


def test_a_pods_bytes_that_are_not_utf_8_are_replaced(pod: KubernetesServer, log: TaskLog) -> None:
    pod.logs = lambda *_: b"caf\xe9\n"
    _fails(deletion())
    assert _groups(log)[_TITLE] == ["caf\ufffd"]


@pytest.mark.parametrize(("text", "words"), [(None, "HTTP 403"), ("", "is empty")])
def test_if_a_pods_log_cannot_be_read_one_line_names_the_command(
    pod: KubernetesServer, log: TaskLog, text: str | None, words: str
) -> None:
    pod.refuses_logs = text is None
    pod.logs = lambda *_: text or ""
    assert "exit code 1" in _fails(deletion())
    (line,) = _commands(log)
    (found,) = pod.objects.list("pods", SPACE)
    name = f"{found['metadata']['labels'][LABEL]}-driver"
    assert words in line
    assert line.endswith(
        f"To read it, run: kubectl logs --namespace etl {name} --container spark-kubernetes-driver"
    )


def test_a_slow_api_server_delays_a_failed_task_only_for_a_moment(
    pod: KubernetesServer, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "LOG_S", 0.5)
    pod.logs = lambda *_: time.sleep(2) or "late"  # type: ignore[func-returns-value]
    assert "exit code 1" in _fails(deletion())
    (line,) = _commands(log)
    assert "no answer within 0.5 s" in line


@pytest.mark.usefixtures("aborted")
def test_a_killed_task_does_not_show_its_pods_last_lines(
    pod: KubernetesServer, submits: dict[str, Any], log: TaskLog
) -> None:
    submits.clear()
    submits |= {"phase": "Running"}

    def runs() -> bool:
        return any(verb == "GET" and path.endswith("-driver") for verb, path, _ in pod.requests)

    killed_once(deletion(), context_of(task_state_store=StateStore()), runs)
    assert len(pod.deleted) == 1
    assert (_groups(log), _commands(log)) == ({}, [])
