"""A Thrift server in this process, for answers that no real server gives on demand."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final, Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from airflow_hiveacid.metastore.gen.transactions.ttypes import GetOpenTxnsResponse
from tests.contract.processor import Processor, Struct

NOTHING_OPEN: Final = GetOpenTxnsResponse(txn_high_water_mark=7, open_txns=[], abortedBits=b"")
_HOST: Final = "127.0.0.1"


class HangUpError(TTransportException):
    """Raised by an answer: the server closes the connection instead of answering."""


class StubServer:
    """Answers the methods it was given; all others are unknown to it, as to an older server."""

    def __init__(self, **answers: Callable[..., Struct]) -> None:
        self.connections = 0
        self._processor = Processor(answers)
        self.calls = self._processor.calls
        self._listener = socket.create_server((_HOST, 0))
        self._listener.settimeout(0.1)
        self._is_open = True
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def uri(self) -> str:
        return f"thrift://{_HOST}:{self.port}"

    def close(self) -> None:
        self._is_open = False
        self._thread.join(timeout=5)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _accept(self) -> None:
        while self._is_open:
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        endpoint = TSocket()
        endpoint.setHandle(connection)
        protocol = TBinaryProtocol(TBufferedTransport(endpoint))
        with contextlib.suppress(TException, OSError, EOFError):
            while True:
                self._processor.process(protocol, protocol)
        connection.close()
