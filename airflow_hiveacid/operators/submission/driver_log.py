"""The last lines of a driver's log, in the log of a task that fails.

Input is the output of `spark-submit`, or the client of the cluster in which the driver has ended.
A failed task must not wait long for its driver's log, and must not fail for a different reason. So
the clients have a short time limit. If a log cannot be read, one line says how to read it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.known_secrets import beginning_of, without_secrets
from airflow_hiveacid.operators.submission.clusters.log_tail import LAST_LINES, LOGIN_IN_URL
from airflow_hiveacid.operators.submission.provider_names import without_passwords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.operators.submission.clusters.cluster_run import Application, Cluster

_LONGEST_REASON: Final = 400

log = logging.getLogger(__name__)


def log_last_lines(lines: Sequence[str], name: str = "") -> None:
    """Log lines as a group that Airflow's log page can fold.

    Args:
        lines: the last lines of the log.
        name: the name of the log file, if there are several.
    """
    title = f"Spark driver's last lines{f' ({name})' if name else ''}"
    for line in (f"::group::{title}", *lines, "::endgroup::"):
        log.info("%s", line)


def log_driver(cluster: Cluster[Any], found: Application) -> None:
    """Log the last lines of a driver that has ended in a cluster, or how to read its log."""
    try:
        files = {name: _lines_of(text) for name, text in cluster.last_words(found).items()}
    except Exception as error:  # noqa: BLE001 - the task has its own error, which must not be hidden
        log_command(cluster.log_command(found.id), str(error))
        return
    if not any(files.values()):
        log_command(cluster.log_command(found.id), "its end is empty")
    for name, lines in files.items():
        if lines:
            log_last_lines(lines, name)


def log_command(command: str, reason: str) -> None:
    """Log why a driver's log cannot be shown, and the command that shows the log."""
    words = LOGIN_IN_URL.sub("//***@", " ".join(reason.split()))
    log.warning(
        "cannot show the driver's log: %s. To read it, run: %s",
        beginning_of(words, _LONGEST_REASON),
        command,
    )


def _lines_of(text: str) -> list[str]:
    """Return the last lines of a text, without secrets."""
    # A secret may have several lines, so hide secrets before the text is split.
    lines = without_secrets(text).strip().splitlines()[-LAST_LINES:]
    return [without_passwords(line) for line in lines]
