"""The staged path of a task attempt's file, and the path of the published file.

`<home>/_tmp_hiveacid_<token>/<partition>/_attempts/<attempt>/<directory>/<file>` becomes
`<home>/<partition>/<directory>/<file>`. On a store without renames, the task uploads the file to
the final path. The file stays invisible until it is published.

Example:
    >>> path = "lake/t/_tmp_hiveacid_1/p=2/_attempts/9f/delta_1_1/bucket_00000"
    >>> attempt_of(path)
    AttemptPath(final='lake/t/p=2/delta_1_1/bucket_00000', attempt='9f')
    >>> attempt_of("lake/t/delta_1_1/bucket_00000")
"""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_hiveacid.format.names import STAGING_PREFIX

_ATTEMPTS: Final = "_attempts"
_BELOW: Final = 4
"""The number of path parts from `_attempts` on: `_attempts`, attempt, directory, file."""


class AttemptPath(NamedTuple):
    """The final path of an attempt's file, and the attempt that wrote it."""

    final: str
    attempt: str


def attempt_path(root: str, attempt: str, directory: object, file_name: str) -> str:
    """Return the path at which an attempt writes a file before the directory is published."""
    return f"{root}/{_ATTEMPTS}/{attempt}/{directory}/{file_name}"


def attempt_of(path: str) -> AttemptPath | None:
    """Parse the path of an attempt's file; return None for any other path."""
    parts = path.split("/")
    root_parts, attempt_parts = parts[:-_BELOW], parts[-_BELOW:]
    if len(attempt_parts) < _BELOW or attempt_parts[0] != _ATTEMPTS:
        return None
    for index in range(len(root_parts) - 1, -1, -1):
        if root_parts[index].startswith(STAGING_PREFIX):
            rest = [*root_parts[:index], *root_parts[index + 1 :], *attempt_parts[2:]]
            return AttemptPath("/".join(rest), attempt_parts[1])
    return None
