"""One process of the campaign with its descendants: start, stop, continue, kill; its box of files.

A driver is a separate session: Java, Python and Spark's Python workers, possibly each in its own
group. SIGKILL goes to the group, as when a cluster kills a driver; the workers live on until
they notice. SIGSTOP goes to all, as when a machine hangs. Reads /proc, so it needs Linux.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.jobs.job import JobResult, JobSpec
from airflow_hiveacid.local.process import Command, spawn

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The folder of one life of one process: small files between the process and the campaign.

    Files outlive a killed process, and record what it was asked and what it answered.
    """

    folder: Path

    @property
    def log(self) -> Path:
        """The output of the process."""
        return self.folder / "log"

    @property
    def polls(self) -> Path:
        """The results of a reader's looks."""
        return self.folder / "polls.jsonl"

    @property
    def is_ready(self) -> bool:
        """True if the process has started."""
        return (self.folder / "ready").exists()

    @property
    def is_over(self) -> bool:
        """True if the process must end after its current work."""
        return (self.folder / "over").exists()

    def say_ready(self) -> None:
        """Mark the process as started."""
        (self.folder / "ready").touch()

    def say_over(self) -> None:
        """Tell the process to end."""
        (self.folder / "over").touch()

    def answer_of(self, attempt: str) -> Path:
        """Return the file for the application's result."""
        return self.folder / f"answer-{attempt}.json"

    def give(self, spec: JobSpec) -> None:
        scratch = self.folder / "job.new"
        scratch.write_text(spec.dump(), encoding="utf-8")
        scratch.replace(self.folder / "job.json")

    def take(self) -> Path | None:
        """Take the submitted job; return None if there is none."""
        taken = self.folder / "taken.json"
        try:
            return (self.folder / "job.json").replace(taken)
        except FileNotFoundError:
            return None

    def say_answered(self, attempt: str) -> None:
        """Mark the result as completely written."""
        (self.folder / f"answered-{attempt}").touch()

    def answers(self) -> list[Path]:
        """Return the files of all complete results; a killed process may leave others."""
        markers = self.folder.glob("answered-*")
        return [self.answer_of(marker.name.removeprefix("answered-")) for marker in markers]

    def answer(self, attempt: str) -> JobResult | None:
        """Return the result; None if it is not complete."""
        if not (self.folder / f"answered-{attempt}").exists():
            return None
        return JobResult.parse(self.answer_of(attempt).read_text(encoding="utf-8"))
