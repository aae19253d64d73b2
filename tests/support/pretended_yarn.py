"""A resource manager that pretends: it answers as YARN 3.4.2 does, and is told how things stand."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

RUNNING = {"state": "RUNNING", "finalStatus": "UNDEFINED"}
ACCEPTED = {
    "state": "ACCEPTED",
    "finalStatus": "UNDEFINED",
    "queue": "root.narrow",
    "diagnostics": "no room",
}
SUCCEEDED = {"state": "FINISHED", "finalStatus": "SUCCEEDED"}
KILLED = {"state": "KILLED", "finalStatus": "KILLED"}
FAILED = {"state": "FINISHED", "finalStatus": "FAILED", "diagnostics": "exit code 1"}

CONTAINER = "container_e1_1_0001_01_000001"
"""That of the one driver."""


class ResourceManager(ThreadingHTTPServer):
    """`app` is how the one application stands, None if it is forgotten; `orders` keep what came.

    An application that `spark-submit` hands in (`FakeSpark.hand_in_to`) stands as `apps` says, and
    `submitted` has what was handed in.

    It is also the one node, whose `files` are the log files of the one driver by their names, if
    `app` has a `log_page`. `node_page` is answered instead of every log file.

    `page` is answered instead, if it is set: a status and a text that is no JSON. `states` come one
    after the other before `app` does. A standby knows in `active` where to send whoever asks, as
    one of an older release: without the terms of the question. Where there is a `proof` a ticket is
    wanted, and what `proof` makes of it is shown in turn; None says that it is not taken, which is
    a 403 without a proof in Hadoop.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.app: dict[str, str] | None = dict(SUCCEEDED)
        self.states: list[dict[str, str] | None] = []
        self.apps: dict[str, dict[str, str]] = {}
        self.submitted: dict[str, dict[str, str]] = {}
        self.tagged: dict[str, str] = {}
        self.page: tuple[int, str] | None = None
        self.files: dict[str, bytes] = {}
        self.node_page: tuple[int, str, bytes] | None = None
        self.log_server: str | None = None
        self.ends = True
        self.alone_in_list = True
        self.active: str | None = None
        self.proof: Callable[[bytes], bytes | None] | None = None
        self.turns_away = 403
        self.requests: list[str] = []
        self.logins: list[str | None] = []

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        with cls() as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def log_page(self) -> dict[str, str]:
        """What a report says about the log of a driver whose node this is."""
        return {"amContainerLogs": f"{self.web}/node/containerlogs/{CONTAINER}/etl"}

    @property
    def read(self) -> list[str]:
        """Names of the log files that were asked for."""
        asked = [urlsplit(one[4:]).path for one in self.requests if "/containerlogs/" in one]
        return [path.rpartition("/")[2] for path in asked]

    @property
    def asked(self) -> list[str]:
        """Applications whose state was asked for; by their tag they are looked for beside that."""
        paths = [urlsplit(one[4:]).path for one in self.requests if one.startswith("GET")]
        return [path.rpartition("/")[2] for path in paths if "/apps/" in path]

    @staticmethod
    def decoded(logins: list[str | None]) -> list[str | None]:
        """What stands in tickets that are texts."""
        return [one and base64.b64decode(one.removeprefix("Negotiate ")).decode() for one in logins]

    @property
    def killed(self) -> list[str]:
        return [one.split("/")[5] for one in self.requests if one.startswith("PUT")]


class _Handler(BaseHTTPRequestHandler):
    server: ResourceManager
    _shown = ""

    def do_GET(self) -> None:
        self.server.requests.append(f"GET {self.path}")
        if not self._is_let_in():
            return
        url = urlsplit(self.path)
        if self.server.active is not None:
            self._send(307, "standby", "text/plain", f"{self.server.active}{url.path}")
        elif self.server.page is not None:
            self._send(self.server.page[0], self.server.page[1], "text/html")
        elif url.path.startswith(f"/ws/v1/node/containerlogs/{CONTAINER}/"):
            self._show_log(url.path.rpartition("/")[2], parse_qs(url.query))
        elif url.path.endswith("/apps"):
            self._list(parse_qs(url.query).get("applicationTags"))
        else:
            self._report(url.path.rpartition("/")[2])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = f"application_1_{len(self.server.submitted) + 1:04}"
        self.server.apps[name], self.server.tagged[name] = dict(RUNNING), body["tag"]
        self.server.submitted[name] = body
        self._answer({"id": name})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(f"PUT {self.path} {json.loads(body)['state']}")
        if not self._is_let_in():
            return
        if self.server.active is not None:
            path = urlsplit(self.path).path
            self._send(307, "standby", "text/plain", f"{self.server.active}{path}")
            return
        if self.server.page is not None:
            self._send(self.server.page[0], self.server.page[1], "text/html")
            return
        name = self.path.split("/")[5]
        if self.server.ends and name in self.server.apps:
            self.server.apps[name] = dict(KILLED)
        elif self.server.ends:
            self.server.app = dict(KILLED)
        self._answer({"state": "KILLED"}, 202)

    def _is_let_in(self) -> bool:
        """As Hadoop's AuthenticationFilter; an answer that is not sent here has the proof."""
        login = self.headers["Authorization"]
        self.server.logins.append(login)
        self._shown = ""
        if self.server.proof is None:
            return True
        if login is not None:
            proof = self.server.proof(base64.b64decode(login.removeprefix("Negotiate ")))
            if proof is not None:
                self._shown = f"Negotiate {base64.b64encode(proof).decode()}".strip()
                return True
            if self.server.turns_away == 403:
                self._send(403, "GSSException: Checksum failed", "text/html")
                return False
        self._shown = "Negotiate"
        self._send(401, "Authentication required", "text/html")
        return False

    def _list(self, tags: list[str] | None) -> None:
        apps: Any = [
            {"id": name, "applicationTags": f"mine,{tag}", **app}
            for name, tag in list(self.server.tagged.items())
            if (app := self.server.apps.get(name, self.server.app)) is not None
            and (tags is None or tag in tags)
        ]
        if len(apps) == 1 and not self.server.alone_in_list:
            (apps,) = apps
        self._answer({"apps": {"app": apps} if apps else {}})

    def _report(self, name: str) -> None:
        last = self.server.apps.get(name, self.server.app)
        app = self.server.states.pop(0) if self.server.states else last
        if app is None:
            said = {"exception": "NotFoundException", "message": f"app with id: {name} not found"}
            self._answer({"RemoteException": said}, 404)
        else:
            self._answer({"app": {"id": name, **app}})

    def _show_log(self, name: str, terms: dict[str, list[str]]) -> None:
        """As NMWebServices.getLogs and LogToolUtils do."""
        if self.server.node_page is not None:
            status, kind, body = self.server.node_page
            self._send(status, body, kind)
        elif self.server.log_server is not None:
            self._send(307, "", "text/plain", f"{self.server.log_server}{self.path}")
        elif name not in self.server.files:
            self._send(404, f"Unknown container {CONTAINER}", "text/plain")
        else:
            whole = self.server.files[name]
            (size,) = map(int, terms["size"])
            lines = [
                f"Container: {CONTAINER} on 127.0.0.1_1",
                "LogAggregationType: LOCAL",
                "=" * 70,
            ]
            lines += [f"LogType:{name}", "LogLastModifiedTime:Thu Jan 01 00:00:00 +0000 1970"]
            lines += [f"LogLength:{len(whole)}", "LogContents:", ""]
            head = "\n".join(lines).encode() if whole else b""
            foot = f"End of LogType:{name}.\n{'*' * 66}\n\n".encode()
            self._send(200, head + whole[size:] + foot, "text/plain; charset=utf-8")

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        self._send(status, json.dumps(body), "application/json;charset=utf-8")

    def _send(self, status: int, text: str | bytes, kind: str, location: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if self._shown:
            self.send_header("WWW-Authenticate", self._shown)
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        with suppress(OSError):  # the client may have read enough
            self.wfile.write(text if isinstance(text, bytes) else text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        """Says nothing."""
