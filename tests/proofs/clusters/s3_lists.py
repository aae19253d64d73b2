"""An S3 server that only lists a large table, since moto scans all keys for each request.

    python -m tests.proofs.clusters.s3_lists PORT

It serves one bucket of any name until its input ends. The partitions and files of `costs` are
below `TABLE`.
"""

from __future__ import annotations

import bisect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE, Popen
from typing import Final
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from airflow_hiveacid.local.process import free_port
from airflow_hiveacid.local.site import HOST
from tests.proofs.clusters.costs import PARTITIONS, file_names
from tests.support.listening import until_listening

TABLE: Final = "w/parted"
_PAGE: Final = 1000
_MOMENT: Final = "2026-01-01T00:00:00.000Z"


@contextmanager
def listing_server() -> Iterator[str]:
    """Start the server as a separate process, and yield its address."""
    port = free_port(HOST)
    server = Popen([sys.executable, "-m", "tests.proofs.clusters.s3_lists", str(port)], stdin=PIPE)
    try:
        until_listening(server, port)
        yield f"http://{HOST}:{port}"
    finally:
        server.terminate()
        server.wait()


def _keys() -> list[str]:
    return sorted(f"{TABLE}/p={n}/{name}" for n in range(PARTITIONS) for name in file_names())


class _Lists(BaseHTTPRequestHandler):
    """A handler of ListObjectsV2 without a delimiter, and of HEAD for missing objects."""

    protocol_version = "HTTP/1.1"
    keys: Final = _keys()

    def do_GET(self) -> None:
        """Send a page of keys."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        prefix, after = asked.get("prefix", ""), asked.get("continuation-token", "")
        start = bisect.bisect_left(self.keys, max(prefix, after))
        page = self.keys[start : start + min(_PAGE, int(asked.get("max-keys", _PAGE)))]
        found = [key for key in page if key.startswith(prefix)]
        end = start + len(page)
        has_more = bool(found) and end < len(self.keys) and self.keys[end].startswith(prefix)
        self._say("".join(map(_entry, found)), self.keys[end] if has_more else None, len(found))

    def do_HEAD(self) -> None:
        """Answer that no object has the name."""
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _say(self, entries: str, token: str | None, count: int) -> None:
        more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
        body = (
            "<ListBucketResult>"
            f"<KeyCount>{count}</KeyCount><IsTruncated>{'true' if token else 'false'}</IsTruncated>"
            f"{more}{entries}</ListBucketResult>"
        ).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log, since there are ten thousand requests."""


def _entry(key: str) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{_MOMENT}</LastModified>"
        "<ETag>x</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def main() -> None:
    """Serve until the input ends."""
    server = ThreadingHTTPServer((HOST, int(sys.argv[1])), _Lists)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
