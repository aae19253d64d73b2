"""One process of the campaign with its descendants: start, stop, continue, kill.

A driver is a separate session: Java, Python and Spark's Python workers, possibly each in its own
group. SIGKILL goes to the group, as when a cluster kills a driver; the workers live on until
they notice. SIGSTOP goes to all, as when a machine hangs. Reads /proc, so it needs Linux.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.processes.process import Command, spawn
from tests.proofs.campaign.box import Box

_PROC: Final = Path("/proc")
_SESSION: Final = 3  # in /proc/PID/stat, counted after the closing bracket of the name
_TAIL_BYTES: Final = 1 << 16


class CampaignProcess:
    """One process and its descendants. Mutable: it tracks their life."""

    def __init__(
        self, folder: Path, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True)
        self.box = Box(folder=folder)
        self._child = spawn(
            Command(
                arguments=[*arguments, "--box", str(folder)],
                environment=environment,
                cwd=folder,
                log=self.box.log,
                ends_with_parent=True,
            )
        )

    @property
    def has_ended(self) -> bool:
        """True if the first process is gone."""
        return self._child.poll() is not None

    @property
    def is_gone(self) -> bool:
        return self.has_ended and not self._session()

    def kill(self) -> None:
        """Send SIGKILL to the driver itself; its workers notice."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def end(self) -> None:
        """Send SIGKILL to every process."""
        self._signal(signal.SIGKILL)
        self._child.wait()

    def freeze(self) -> None:
        """Send SIGSTOP to every process."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT to every process."""
        self._signal(signal.SIGCONT)

    def steps(self, offset: int) -> list[str]:
        """Return the application's steps in its output since `offset`."""
        with self.box.log.open("rb") as file:
            file.seek(max(offset, self.log_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return [line.rpartition("step=")[2] for line in lines if "step=" in line]

    @property
    def log_size(self) -> int:
        """Bytes of its output."""
        return self.box.log.stat().st_size

    def _signal(self, number: signal.Signals) -> None:
        for pid in (self._child.pid, *self._session()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _session(self) -> list[int]:
        found = []
        for entry in _PROC.iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it ended meanwhile
                continue
            fields = stat.rpartition(")")[2].split()
            if int(fields[_SESSION]) == self._child.pid and fields[0] != "Z":
                found.append(int(entry.name))
        return found
