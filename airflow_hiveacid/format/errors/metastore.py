"""Errors of the metastore: it cannot be reached, rejects our login, or refuses a call."""

from __future__ import annotations

from airflow_hiveacid.format.errors.tree import HiveAcidError, MetastoreError, RetryableError


class MetastoreUnavailableError(MetastoreError, RetryableError):
    """No server of the metastore could be reached, or the connection broke or timed out."""

    def __init__(self, *, uris: tuple[str, ...], method: str, reason: str) -> None:
        self.uris, self.method, self.reason = uris, method, reason
        super().__init__(
            f"metastore {', '.join(uris)} did not answer {method}: {reason}. Check that it runs and"
            " is reachable"
        )


class MetastoreAnswerError(MetastoreUnavailableError):
    """The metastore's response belongs to a different call, or cannot be read.

    The metastore may have executed the call.
    """

    def __init__(self, *, uris: tuple[str, ...], method: str, reason: str) -> None:
        self.uris, self.method, self.reason = uris, method, reason
        HiveAcidError.__init__(
            self,
            f"metastore {', '.join(uris)} answered {method} with a response that cannot be read:"
            f" {reason}. Check that the address is a metastore's, and read its log",
        )


class MetastoreLoginError(MetastoreError):
    """Every server of the metastore, or Kerberos, rejected the login; a retry does not help."""

    def __init__(self, *, uris: tuple[str, ...], reason: str) -> None:
        self.uris, self.reason = uris, reason
        super().__init__(f"cannot log in to metastore {', '.join(uris)}: {reason}")


class MetastoreVersionError(MetastoreError):
    """The server is too old or too new for the request."""


class MetastoreCallError(MetastoreError):
    """The server refused a call, and no other error class covers the reason."""

    def __init__(self, *, method: str, reason: str) -> None:
        self.method, self.reason = method, reason
        super().__init__(f"the metastore refused {method}: {reason}")
