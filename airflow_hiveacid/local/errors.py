"""Knows what can go wrong while a server is started on this machine.

```
LocalServerError
├── MissingProgramError        java, mvn or PostgreSQL's binaries are not installed
├── DownloadError              Maven could not fetch the server
├── ServerStartError           the server died, or never answered
└── ServerConflictError        something else holds the data directory or the port
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class LocalServerError(Exception):
    """A server on this machine could not be started, found or stopped."""


class MissingProgramError(LocalServerError):
    """A program that has to be installed was not found.

    Args:
        program: What was looked for.
        remedy: How to get it.
    """

    def __init__(self, program: str, remedy: str) -> None:
        super().__init__(f"{program} was not found: {remedy}")
        self.program = program
        self.remedy = remedy


class DownloadError(LocalServerError):
    """Maven failed; the message ends with the last lines of its log.

    Args:
        what: What was being fetched.
        log: Maven's whole output.
        tail: The last lines of it.
    """

    def __init__(self, what: str, log: Path, tail: str) -> None:
        super().__init__(f"Maven could not fetch {what}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log


class ServerStartError(LocalServerError):
    """A server process ended early or did not answer in time.

    Args:
        what: The server or the step that failed.
        reason: What happened, as half a sentence.
        log: The server's whole output.
        tail: The last lines of it.
    """

    def __init__(self, what: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(f"{what} {reason}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log
        self.tail = tail


class ServerConflictError(LocalServerError):
    """Another server is in the way: another version in the directory, or another port asked for."""
