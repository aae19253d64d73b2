"""The output of the demonstration: one line for each step while it runs, tables at its end.

On a terminal, one line shows the running step and is updated in place. Otherwise every step prints
one line at its start and one line at its end, so a log also shows the progress.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date

    from rich.status import Status

    from demo.directories import Picture
    from demo.truth import Verdict

_SHOWN_DIFFERENCES: Final = 10
_KIBI: Final = 1024.0
_LOG_WIDTH: Final = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The duration of one step."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One job with its Airflow task.

    `task_s` is the duration of the Airflow task, and `job_s` is the duration of the job in it or in
    its Spark application. `rows` are the counts of inserted, updated and deleted rows. `day` is
    None for jobs that belong to no day. `note` describes the result.
    """

    dag_id: str
    task_id: str
    day: date | None
    state: str
    tries: int
    task_s: float
    job_s: float
    rows: tuple[int, int, int]
    files: int
    size_bytes: int
    note: str = ""

    @property
    def title(self) -> str:
        """The task's ID and day: `merge 2013-01-01`, `clean`."""
        return f"{self.task_id} {self.day or ''}".strip()


class Report:
    """The output, in order. Mutable: it measures time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._status: Status | None = None
        self.steps: list[StepTime] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show the step's name while it runs, then its duration."""
        began = time.monotonic()
        if not self._console.is_terminal:
            self.say(f"{name} ...")
        with self._console.status(name) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None
        seconds = time.monotonic() - began
        self.steps.append(StepTime(name=name, seconds=seconds))
        self.say(f"[green]done[/green] {name} [dim]{seconds:.1f} s[/dim]")

    def say(self, line: str) -> None:
        """Print one line, preceded by the time since the start."""
        elapsed = time.monotonic() - self._began
        self._console.print(f"[dim]{elapsed:6.1f} s[/dim]  {line}", soft_wrap=True)

    def tell(self, line: str) -> None:
        """Print one line, with `rich` markup escaped."""
        self.say(escape(line))

    def now(self, text: str) -> None:
        """Change the running step's text, which is shown only on a terminal."""
        if self._status is not None:
            self._status.update(text)

    def show_jobs(self, jobs: Sequence[JobLine]) -> None:
        """Print a table of jobs with states, seconds, rows and bytes."""
        table = _table("Jobs run by Airflow")
        table.add_column("task", overflow="fold")
        table.add_column("state", overflow="fold")
        for name in ("task s", "job s", "insert", "update", "delete", "files", "size"):
            table.add_column(name, justify="right", overflow="fold")
        table.add_column("result", overflow="fold")
        for job in jobs:
            table.add_row(
                job.title,
                _coloured(job.state) + (f" (try {job.tries})" if job.tries > 1 else ""),
                f"{job.task_s:.1f}",
                f"{job.job_s:.1f}",
                *(f"{count:,}" if count else "" for count in job.rows),
                str(job.files or ""),
                size_text(job.size_bytes) if job.size_bytes else "",
                job.note,
            )
        self._console.print(table)

    def show_truth(self, verdict: Verdict) -> None:
        """Print the expected and actual number of rows per day, and the first rows that differ."""
        table = _table("Expected and actual rows by day")
        table.add_column("day")
        for name in ("truth", "table", "differing"):
            table.add_column(name, justify="right")
        table.add_column("")
        for day in verdict.days:
            table.add_row(
                str(day.day),
                f"{day.expected_rows:,}",
                f"{day.actual_rows:,}",
                str(day.differing_rows or ""),
                "[green]equal[/green]" if day.is_equal else "[red]differs[/red]",
            )
        self._console.print(table)
        self._console.print(f"digest of the expected rows {verdict.expected_digest}")
        self._console.print(f"digest of the table's rows  {verdict.actual_digest}")
        for difference in verdict.differences[:_SHOWN_DIFFERENCES]:
            self._console.print(
                f"[red]{difference.side}[/red] {escape(difference.row)}", soft_wrap=True
            )
        hidden = len(verdict.differences) - _SHOWN_DIFFERENCES
        if hidden > 0:
            self._console.print(f"... and {hidden:,} more rows that differ")

    def show_directories(self, pictures: Mapping[str, Picture]) -> None:
        """Print the table's directories at several times, one column for each time."""
        paths = sorted({d.path for picture in pictures.values() for d in picture.directories})
        sizes = [{d.path: d for d in picture.directories} for picture in pictures.values()]
        table = _table("The table's directories", show_footer=True)
        table.add_column("", footer="total directories and bytes", overflow="fold")
        for title, picture in pictures.items():
            footer = f"{len(picture.directories)}: {size_text(picture.size_bytes)}"
            table.add_column(title, justify="right", footer=footer)
        for path in paths:
            cells = (found.get(path) for found in sizes)
            table.add_row(path, *(size_text(cell.size_bytes) if cell else "" for cell in cells))
        self._console.print(table)

    def show_steps(self) -> None:
        """Print the duration of each step, and the total."""
        table = _table("Seconds by step", show_footer=True)
        table.add_column("", footer="all")
        total = time.monotonic() - self._began
        table.add_column("s", justify="right", footer=f"{total:.1f}")
        for step in self.steps:
            table.add_row(step.name, f"{step.seconds:.1f}")
        self._console.print(table)


def console() -> Console:
    """Return the console; if output goes to a log, lines are wide enough for the tables."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_LOG_WIDTH)


def size_text(size_bytes: int) -> str:
    """Format a size in bytes as readable text, with units of 1024.

    Example:
        >>> size_text(812), size_text(61_440)
        ('812 B', '60.0 KiB')
    """
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < _KIBI:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} GiB"


def _table(title: str, *, show_footer: bool = False) -> Table:
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
        show_footer=show_footer,
    )


def _coloured(state: str) -> str:
    colour = {"success": "green", "failed": "red"}.get(state)
    return f"[{colour}]{state}[/{colour}]" if colour else state
