"""Where one attempt of a task writes a file, and where that file belongs: a grammar of paths.

`<home>/_tmp_hiveacid_<token>/<partition>/_attempts/<attempt>/<directory>/<file>` becomes
`<home>/<partition>/<directory>/<file>`. A store without renames writes there at once, unseen.

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
"""What the folder of attempts, the attempt, a directory and a file are together."""


class AttemptPath(NamedTuple):
    """Where a file of an attempt belongs, and which attempt wrote it."""

    final: str
    attempt: str


def attempt_path(root: str, attempt: str, directory: object, file_name: str) -> str:
    """The path at which an attempt writes a file that belongs into a directory."""
    return f"{root}/{_ATTEMPTS}/{attempt}/{directory}/{file_name}"


def attempt_of(path: str) -> AttemptPath | None:
    """What such a path says; None of any other path."""
    parts = path.split("/")
    above, below = parts[:-_BELOW], parts[-_BELOW:]
    if len(below) < _BELOW or below[0] != _ATTEMPTS:
        return None
    for at in range(len(above) - 1, -1, -1):
        if above[at].startswith(STAGING_PREFIX):
            rest = [*above[:at], *above[at + 1 :], *below[2:]]
            return AttemptPath("/".join(rest), below[1])
    return None
