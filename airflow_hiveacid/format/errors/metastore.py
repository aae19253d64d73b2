"""Errors of the metastore: it cannot be reached, rejects our login, or refuses a call."""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.errors.tree import HiveAcidError, MetastoreError, RetryableError

REACHABLE_ADVICE: Final = "Check that it runs and is reachable"


class MetastoreUnavailableError(MetastoreError, RetryableError):
    """No server of the metastore could be reached, or the connection broke or timed out."""

    def __init__(
        self,
        *,
        uris: tuple[str, ...],
        method: str,
        reason: str,
        advice: str = REACHABLE_ADVICE,
    ) -> None:
        self.uris, self.method, self.reason, self.advice = uris, method, reason, advice
        super().__init__(f"metastore {', '.join(uris)} did not answer {method}: {reason}. {advice}")


class MetastoreInternalError(MetastoreUnavailableError):
    """The metastore answered that it failed during the call; only its log has the cause."""

    def __init__(self, *, uris: tuple[str, ...], method: str, reason: str) -> None:
        self.uris, self.method, self.reason = uris, method, reason
        HiveAcidError.__init__(
            self,
            f"metastore {', '.join(uris)} failed in {method}: {reason}. The metastore runs; its log"
            " has the cause",
        )


class MetastoreAnswerError(MetastoreUnavailableError):
    """The response belongs to a different call, or is unreadable; the call may have worked."""

    def __init__(self, *, uris: tuple[str, ...], method: str, reason: str) -> None:
        self.uris, self.method, self.reason = uris, method, reason
        HiveAcidError.__init__(
            self,
            f"metastore {', '.join(uris)} answered {method} with a response that cannot be read:"
            f" {reason}. Check that the address is a metastore's, and read its log",
        )


class ConnectionUnavailableError(MetastoreError, RetryableError):
    """Airflow did not return the metastore's connection: it is missing, or Airflow has failed."""

    def __init__(self, *, conn_id: str, reason: str) -> None:
        self.conn_id, self.reason = conn_id, reason
        super().__init__(
            f"Airflow did not return connection {conn_id!r}: {reason}. If it is missing, create it"
            " or set hive_acid_conn_id. Otherwise check Airflow's API server, database and secrets"
            " backend"
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

    retryable = True

    def __init__(self, *, method: str, reason: str) -> None:
        self.method, self.reason = method, reason
        super().__init__(f"the metastore refused {method}: {reason}")
