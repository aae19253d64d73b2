"""A driver's log, in the log of its task: new lines while the driver runs, and its last lines.

A task must not wait long for its driver's log, and must not fail because of it. If a log cannot be
read, one line says how to read it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.format.known_secrets import beginning_of, uncut, without_secrets
from airflow_hiveacid.operators.submission import log_tail
from airflow_hiveacid.operators.submission.cluster_run import Application, Cluster
from airflow_hiveacid.operators.submission.provider_names import without_passwords

NEW_LINES: Final = "new lines of the driver's log"
_LONGEST_REASON: Final = 400
_MOST_FAILURES: Final = 3

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Copy:
    """How much of one driver's log is in the task's log; mutable.

    `place` is of the cluster's client. `kept` is a text that may be the beginning of a secret.
    """

    place: Any = None
    kept: str = ""
    failures: int = 0
    is_whole: bool = False


class DriverLog:
    """The logs of the drivers of one job, in the log of the task."""

    def __init__(self) -> None:
        self._copies: defaultdict[str, _Copy] = defaultdict(_Copy)

    def show_new(self, cluster: Cluster[Any], found: Application) -> None:
        """Log the lines that a driver in a cluster has written since the last call.

        If the log cannot be read a few times in a row, one line says how to read it, and the next
        calls do nothing: a node out of reach must not delay each poll of the driver's state.
        """
        copy = self._copies[found.id]
        if copy.failures >= _MOST_FAILURES:
            return
        try:
            new = cluster.new_lines(found, copy.place)
        except Exception as error:  # noqa: BLE001 - the job continues without its log
            copy.failures = _MOST_FAILURES if found.has_ended else copy.failures + 1
            if copy.failures >= _MOST_FAILURES:
                log_command(cluster.log_command(found.id), str(error), NEW_LINES)
            return
        copy.failures = 0
        text, left_out = new.text.decode(errors="replace"), new.left_out
        has_gap = new.has_gap or left_out > 0
        if left_out:
            left_out += len(copy.kept.encode())  # which is not shown either
            log.warning(
                "left out at least %d bytes of the driver's log. To read it, run: %s",
                left_out,
                cluster.log_command(found.id),
            )
        if not has_gap:
            text = copy.kept + text
        # Hide whole secrets first, because only cut secrets are left then: at the end, and after a
        # gap also at the beginning.
        text = without_secrets(text)
        begin, end = uncut(text)
        for line in _lines_of(text[begin if has_gap else 0 : end]):
            log_tail.log_line(log, line)
        copy.place, copy.kept = new.place, text[end:]
        copy.is_whole = found.has_ended and not new.has_more

    def show_last(self, cluster: Cluster[Any], found: Application) -> list[str]:
        """Log and return the last lines of a driver that has ended, or log how to read them.

        Lines are not repeated if `show_new` has logged all of them. If a trigger has logged them,
        they are repeated: the worker does not know how far the trigger came.
        """
        is_copied = self._copies[found.id].is_whole
        try:
            ends = cluster.last_words(found, is_copied=is_copied)
            files = {
                name: _lines_of(text.decode(errors="replace").strip())[-log_tail.LAST_LINES :]
                for name, text in ends.items()
            }
        except Exception as error:  # noqa: BLE001 - the task has its own error, which must not be hidden
            log_command(cluster.log_command(found.id), str(error))
            return []
        if not is_copied and not any(files.values()):
            log_command(cluster.log_command(found.id), "its end is empty")
        for name, lines in files.items():
            if lines:
                log_last_lines(lines, name)
        return [line for lines in files.values() for line in lines]


def log_last_lines(lines: Sequence[str], name: str = "") -> None:
    """Log the last lines of a log, or of its file `name`, as a group that Airflow can fold."""
    title = f"Spark driver's last lines{f' ({name})' if name else ''}"
    for line in (f"::group::{title}", *lines, "::endgroup::"):
        log_tail.log_line(log, line)


def log_command(command: str, reason: str, what: str = "the driver's log") -> None:
    """Log why a driver's log, or a part of it, cannot be shown, and the command that shows it."""
    words = log_tail.LOGIN_IN_URL.sub("//***@", " ".join(reason.split()))
    log.warning(
        "cannot show %s: %s. To read it, run: %s",
        what,
        beginning_of(words, _LONGEST_REASON),
        command,
    )


def _lines_of(text: str) -> list[str]:
    # A secret may have several lines, so hide secrets before the text is split.
    return [without_passwords(line) for line in without_secrets(text).splitlines()]
