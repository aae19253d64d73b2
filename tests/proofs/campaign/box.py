"""The exchange between the campaign and one of its processes: small files in a separate folder.

Files outlive a killed process, and record what it was asked and what it answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.jobs.specs.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The folder of one life of one process."""

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
