"""A stub metastore over HTTP, for answers that no real server gives on demand."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from tests.contract.processor import Processor, Struct


class HttpStub:
    """Answers the methods it was given to requests that `admits` lets in; counts what comes.

    `admits` gets the headers and gives a status and a page; 200 lets the call in.
    """

    def __init__(
        self,
        admits: Callable[[dict[str, str]], tuple[int, str]] = lambda _: (200, ""),
        *,
        tls: ssl.SSLContext | None = None,
        path: str = "/metastore",
        **answers: Callable[..., Struct],
    ) -> None:
        self.requests: list[dict[str, str]] = []
        self.peers: set[tuple[str, int]] = set()
        self.hangs_up = False
        self._processor = Processor(answers)
        self.calls = self._processor.calls
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                stub.requests.append(headers)
                stub.peers.add(self.client_address)
                status, page = admits(headers)
                if self.path != path:
                    status, page = (
                        405,
                        "<html><body>HTTP method POST is not supported</body></html>",
                    )
                answer = stub.process(body) if status == 200 and not page else page.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                self.close_connection = stub.hangs_up

            def log_message(self, *args: object) -> None:
                del args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/metastore"

    def process(self, body: bytes) -> bytes:
        out = TMemoryBuffer()
        self._processor.process(TBinaryProtocol(TMemoryBuffer(body)), TBinaryProtocol(out))
        answer = out.getvalue()
        assert isinstance(answer, bytes)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
