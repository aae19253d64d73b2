"""Start, monitor and stop the demonstration's Airflow: its database and four components.

It does not use `airflow standalone`. The scheduler and triggerer of that command serve logs on all
network interfaces, and the components keep running after the command stops. Task logs are read from
disk instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.process import (
    Command,
    ProcessRecord,
    birth_of,
    free_port,
    kill,
    spawn,
    tail,
)
from airflow_hiveacid.local.site import HOST
from demo.airflow_api import USER, AirflowApi
from demo.environment import airflow_environment
from demo.errors import AirflowServerError
from demo.processes import descendants_of, end_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from airflow_hiveacid.local.process import Progress
    from demo.layout import DemoLayout

COMPONENTS: Final[Mapping[str, Sequence[str]]] = {
    "api-server": ("api-server",),
    "dag-processor": ("dag-processor",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_START_TIMEOUT_S: Final = 180.0
_COMMAND_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.5
_TASK_S: Final = 20.0
_ASK_S: Final = 10.0
_GRACE_S: Final = 5.0


class AirflowServer:
    """The Airflow installation of one demonstration. Mutable: it tracks processes."""

    def __init__(self, layout: DemoLayout, *, say: Progress) -> None:
        self._layout = layout
        self._say = say
        self._environment: dict[str, str] = {}

    @property
    def url(self) -> str | None:
        """The URL of the running server, which another program may have started."""
        records = self._records()
        return f"http://{HOST}:{records['api-server'].port}" if _is_whole(records) else None

    def api(self) -> AirflowApi:
        """Return the API of the running Airflow.

        Raises:
            AirflowServerError: Airflow does not run.
        """
        url = self.url
        if url is None:
            raise AirflowServerError("Airflow does not run")
        return AirflowApi(url, self._layout.passwords)

    def launch(
        self, *, metastore_uri: str, compaction_cron: str, settings: Mapping[str, str] = NO_SETTINGS
    ) -> None:
        """Start every component, or reuse the running components.

        This method does not wait for the components; `await_health` does.

        `settings` are environment variables that override those of the demonstration.
        """
        overrides = [f"{name}={value}" for name, value in sorted(settings.items())]
        facts = [metastore_uri, compaction_cron, str(self._layout.dags), *overrides]
        fingerprint = _digest(facts)
        records = self._records()
        is_here = _is_whole(records) and {r.fingerprint for r in records.values()} == {fingerprint}
        port = records["api-server"].port if is_here else free_port(HOST)
        demonstration = airflow_environment(
            self._layout, port=port, metastore_uri=metastore_uri, compaction_cron=compaction_cron
        )
        self._environment = {**demonstration, **settings}
        if is_here:
            self._say(f"Airflow already runs at {self.url}")
            return
        self.stop()
        self._write_password()
        self.command(["db", "migrate"])
        for name in COMPONENTS:
            self.log_of(name).unlink(missing_ok=True)
            self._spawn(name, port, fingerprint)

    def kill(self, name: str, *, with_children: bool) -> None:
        """Kill a component with SIGKILL, to simulate a crash, and start it again.

        With `with_children`, also kill all processes below it, as when its machine fails.

        Raises:
            AirflowServerError: the component does not run.
        """
        record = self._records().get(name)
        if record is None:
            raise AirflowServerError(f"Airflow's {name} does not run")
        children = descendants_of(record.pid, self._layout.home) if with_children else ()
        kill(record)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        self._spawn(name, record.port, record.fingerprint)

    def await_health(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until all components report that they are healthy.

        Raises:
            AirflowServerError: a component exited, or not all of them were healthy in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            health = self.api().health() if _is_whole(self._records()) else {}
            if health and set(health.values()) == {"healthy"}:
                return
            self._check_alive()
            if time.monotonic() >= deadline:
                raise AirflowServerError(
                    f"Airflow is not healthy after {timeout_s:g} s: {dict(health)};"
                    f" its logs are in {self._layout.logs}"
                )
            time.sleep(_POLL_S)

    def command(self, arguments: Sequence[str]) -> str:
        """Run `airflow ARGUMENTS` in the environment of the last `launch`; return its output.

        Raises:
            AirflowServerError: the command failed.
        """
        done = subprocess.run(
            [self._program, *arguments],
            env=self._environment,
            cwd=self._layout.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            command = " ".join(["airflow", *arguments])
            raise AirflowServerError(
                f"`{command}` ended with status {done.returncode}:\n{done.stdout[-2000:]}"
            )
        return done.stdout

    def stop(self) -> int:
        """Stop all processes of the demonstration's Airflow, and return their number."""
        count = end_all(self._layout.home, task_s=_TASK_S, ask_s=_ASK_S, grace_s=_GRACE_S)
        for name in COMPONENTS:
            self._record_file(name).unlink(missing_ok=True)
        return count

    def _record_file(self, name: str) -> Path:
        return self._layout.processes / f"{name}.json"

    def _records(self) -> Mapping[str, ProcessRecord]:
        found = {name: ProcessRecord.read_alive(self._record_file(name)) for name in COMPONENTS}
        return {name: record for name, record in found.items() if record is not None}

    def log_of(self, name: str) -> Path:
        """Return the file with a component's output since the launch."""
        return self._layout.logs / f"{name}.log"

    def _spawn(self, name: str, port: int, fingerprint: str) -> None:
        log = self.log_of(name)
        process = spawn(
            Command(
                arguments=[self._program, *COMPONENTS[name]],
                environment=self._environment,
                cwd=self._layout.home,
                log=log,
            )
        )
        ProcessRecord(
            pid=process.pid,
            birth=birth_of(process.pid) or "ended",
            port=port,
            label=f"Airflow's {name}",
            fingerprint=fingerprint,
        ).write(self._record_file(name))

    def _check_alive(self) -> None:
        records = self._records()
        for name in COMPONENTS:
            if name not in records:
                log = self.log_of(name)
                raise AirflowServerError(
                    f"Airflow's {name} ended; its output is in {log} and ends:\n{tail(log)}"
                )

    @property
    def _program(self) -> str:
        return str(self._layout.airflow_programs / "airflow")

    def _write_password(self) -> None:
        # Otherwise Airflow would generate a password and print it into its log.
        file = self._layout.passwords
        if file.exists():
            return
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            json.dump({USER: secrets.token_urlsafe(16)}, stream)


def _is_whole(records: Mapping[str, ProcessRecord]) -> bool:
    return set(records) == set(COMPONENTS)


def _digest(facts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
