"""Knows how the campaign and one of its processes talk: by small files in a folder of its own.

Files outlive a killed process, and are the record of what it was asked and what it answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.results import JobResult

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hiveacid.jobs.specs import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The folder of one life of one process."""

    folder: Path

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.folder / "log"

    @property
    def polls(self) -> Path:
        """What a reader has seen."""
        return self.folder / "polls.jsonl"

    @property
    def is_ready(self) -> bool:
        """Whether the process has started."""
        return (self.folder / "ready").exists()

    @property
    def is_over(self) -> bool:
        """Whether the process shall end when it has done what it was asked."""
        return (self.folder / "over").exists()

    def say_ready(self) -> None:
        """The process has started."""
        (self.folder / "ready").touch()

    def say_over(self) -> None:
        """The process shall end."""
        (self.folder / "over").touch()

    def answer_of(self, attempt: str) -> Path:
        """Where the application writes its result."""
        return self.folder / f"answer-{attempt}.json"

    def give(self, spec: JobSpec) -> None:
        """Ask for a job."""
        scratch = self.folder / "job.new"
        scratch.write_text(spec.dump(), encoding="utf-8")
        scratch.replace(self.folder / "job.json")

    def take(self) -> Path | None:
        """Take the job that was asked for."""
        taken = self.folder / "taken.json"
        try:
            return (self.folder / "job.json").replace(taken)
        except FileNotFoundError:
            return None

    def say_answered(self, attempt: str) -> None:
        """The result is written to its end."""
        (self.folder / f"answered-{attempt}").touch()

    def answer(self, attempt: str) -> JobResult | None:
        """The result, once it is there."""
        if not (self.folder / f"answered-{attempt}").exists():
            return None
        return JobResult.parse(self.answer_of(attempt).read_text(encoding="utf-8"))
