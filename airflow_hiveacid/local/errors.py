"""Errors from starting a server on this machine.

```
LocalServerError
├── MissingProgramError        java, mvn or PostgreSQL's binaries are not installed
├── DownloadError              Maven could not fetch the server
├── ServerStartError           the server ended, or never answered
└── ServerConflictError        another server uses the data directory or the port
```
"""

from __future__ import annotations

from pathlib import Path


class LocalServerError(Exception):
    """A server on this machine could not be started, found or stopped."""


class MissingProgramError(LocalServerError):
    """A required program was not found."""

    def __init__(self, program: str, remedy: str) -> None:
        super().__init__(f"{program} was not found: {remedy}")
        self.program = program
        self.remedy = remedy


class DownloadError(LocalServerError):
    """Maven failed to fetch `what`; the message ends with the last lines of Maven's log."""

    def __init__(self, what: str, log: Path, tail: str) -> None:
        super().__init__(f"Maven could not fetch {what}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log


class ServerStartError(LocalServerError):
    """A server process ended early or did not answer in time.

    In the message, `reason` (such as `ended with status 1`) follows `what`, a server or a step.
    """

    def __init__(self, what: str, reason: str, log: Path, tail: str) -> None:
        super().__init__(f"{what} {reason}; its output is in {log} and ends:\n{tail}")
        self.what = what
        self.log = log
        self.tail = tail


class ServerConflictError(LocalServerError):
    """A different server uses the port or directory, or a different release wrote the directory."""
