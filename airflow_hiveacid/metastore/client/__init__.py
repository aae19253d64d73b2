"""A client of a Hive metastore: a connection, its calls, and checks of the replies.

This module has the client of a real metastore: `MetastorePort` over one Thrift connection. It
connects at its first call. Not thread-safe: each thread needs its own client, from `clone`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import ConfigurationError, MetastoreError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client.catalog_calls import CatalogCalls
from airflow_hiveacid.metastore.client.connection import Connection
from airflow_hiveacid.metastore.client.event_calls import EventCalls
from airflow_hiveacid.metastore.client.lock_calls import LockCalls
from airflow_hiveacid.metastore.client.queue_calls import QueueCalls
from airflow_hiveacid.metastore.client.transaction_calls import TransactionCalls

if TYPE_CHECKING:
    from hmsclient import HMSClient

# Even an urgent heartbeat needs time for a login. A login takes several round trips, and may use a
# KDC.
_SHORTEST_CONNECT_S: Final = 2.0


def connect(endpoint: MetastoreEndpoint) -> MetastoreClient:
    """Return a client that connects at its first call."""
    return MetastoreClient(endpoint)


def server_states(endpoint: MetastoreEndpoint) -> tuple[tuple[str, ...], list[MetastoreError]]:
    """Call each of several servers; return the addresses that answer, and the failures.

    Raises:
        ConfigurationError: the servers are of different metastores. After a failure, a job would
            continue in the other one.
    """
    if len(endpoint.uris) == 1:
        return endpoint.uris, []
    answering: dict[str, str] = {}
    failures = []
    for uri in endpoint.uris:
        limit_s = min(endpoint.call_timeout_s, endpoint.connect_timeout_s)
        own = dataclasses.replace(endpoint, uris=(uri,), call_timeout_s=limit_s)
        try:
            with connect(own) as client:
                client.generation  # noqa: B018 - calls the server
                answering[uri] = client.metastore_id
        except MetastoreError as error:
            failures.append(error)
    if len(set(answering.values())) > 1:
        servers = ", ".join(f"{uri} has {own_id}" for uri, own_id in answering.items())
        raise ConfigurationError(
            f"the connection has servers of different metastores: the ID of {servers}. Make one"
            " connection for each metastore"
        )
    return tuple(answering), failures


class MetastoreClient(CatalogCalls, TransactionCalls, LockCalls, QueueCalls, EventCalls):
    """One connection to a metastore; see MetastorePort for the contract of each method."""

    def __init__(self, endpoint: MetastoreEndpoint) -> None:
        self._connection = Connection(endpoint)

    @property
    def endpoint(self) -> MetastoreEndpoint:
        return self._connection.endpoint

    @property
    def generation(self) -> MetastoreGeneration:
        return self._connection.generation

    @property
    def missing_calls(self) -> tuple[str, ...]:
        return self._connection.missing_calls

    @property
    def txn_timeout_s(self) -> float:
        return self._connection.txn_timeout_s

    def config_value(self, name: str, default: str) -> str:
        return self._connection.config_value(name, default)

    @property
    def metastore_id(self) -> str:
        return self._connection.metastore_id

    def hms(self) -> HMSClient:
        """Return an hmsclient client on this connection, for calls that `MetastorePort` lacks.

        Call this again after an error. Do not use it for transactions: it has no write IDs.
        """
        return self._connection.hms()

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        self._connection.be_patient(left_s)

    def clone(self, *, call_timeout_s: float | None = None) -> Self:
        endpoint = self._connection.endpoint
        if call_timeout_s is not None:
            endpoint = dataclasses.replace(
                endpoint,
                call_timeout_s=min(call_timeout_s, endpoint.call_timeout_s),
                connect_timeout_s=min(
                    max(call_timeout_s, _SHORTEST_CONNECT_S), endpoint.connect_timeout_s
                ),
            )
        return type(self)(endpoint)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
