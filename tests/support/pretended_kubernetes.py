"""An API server of Kubernetes that pretends: objects of `v1` in memory, as a real one shows them.

It speaks what Spark's own client asks for: create, read, list and watch by labels, patch, delete.
Watches come over a web socket or as lines. Whatever an object owns goes with it. Who runs pods is
another matter: `kubelet.py` does, or a test says how they stand.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
import ssl
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

KINDS: Final = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "secrets": "Secret",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
_SOCKET_KEY: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
_WATCH_S: Final = 0.5
_GRACE_S: Final = 20.0
_FIRST_TIME: Final = b"2026-01-01T00:00:00.000000000Z "
_LINE: Final = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) ([^\n]*\n?)")


class MissingError(Exception):
    """There is no such object."""


class Objects:
    """What the cluster knows, by kind, namespace and name; each change is an event."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []
        self.on_delete: Callable[[dict[str, Any]], None] = lambda _: None

    def put(self, kind: str, namespace: str, given: dict[str, Any]) -> dict[str, Any]:
        """Keep an object, new or changed, and answer it as it is kept."""
        with self.changed:
            meta = given.setdefault("metadata", {})
            key = kind, namespace, meta["name"]
            before = self._objects.get(key)
            version = len(self.events) + 1
            meta |= {
                "namespace": namespace,
                "resourceVersion": str(version),
                "uid": before["metadata"]["uid"] if before else str(uuid.uuid4()),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            }
            kept = {"kind": KINDS[kind], "apiVersion": "v1", **given}
            if kind == "pods":
                kept.setdefault("status", {"phase": "Pending"})
            self._objects[key] = kept
            self._tell("MODIFIED" if before else "ADDED", kind, kept)
            return copy.deepcopy(kept)

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        with self.changed:
            try:
                return copy.deepcopy(self._objects[kind, namespace, name])
            except KeyError:
                raise MissingError(name) from None

    def list(
        self, kind: str, namespace: str, terms: dict[str, list[str]] | None = None
    ) -> list[dict[str, Any]]:
        with self.changed:
            found = [
                one for key, one in sorted(self._objects.items()) if key[:2] == (kind, namespace)
            ]
            return copy.deepcopy([one for one in found if chosen(one, terms or {})])

    def say(self, namespace: str, name: str, **status: Any) -> None:  # noqa: ANN401 - as it stands
        """Change how a pod stands; one that is gone stays gone."""
        with self.changed, suppress(MissingError):
            pod = self.get("pods", namespace, name)
            pod["status"] = {**pod["status"], **status}
            self.put("pods", namespace, pod)

    def delete(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Forget an object, and all that it owns."""
        with self.changed:
            try:
                gone = self._objects.pop((kind, namespace, name))
            except KeyError:
                raise MissingError(name) from None
            self._tell("DELETED", kind, gone)
            owned = [
                key
                for key, one in self._objects.items()
                for owner in one["metadata"].get("ownerReferences") or ()
                if owner["uid"] == gone["metadata"]["uid"]
            ]
        if kind == "pods":
            self.on_delete(gone)
        for key in owned:
            with suppress(MissingError):
                self.delete(*key)
        return gone

    def _tell(self, what: str, kind: str, one: dict[str, Any]) -> None:
        self.events.append((len(self.events) + 1, what, kind, copy.deepcopy(one)))
        self.changed.notify_all()


def chosen(one: dict[str, Any], terms: dict[str, list[str]]) -> bool:
    """Whether an object is what the selectors of a question mean."""
    labels = one["metadata"].get("labels") or {}
    fields = {"metadata.name": one["metadata"]["name"]}
    return all(_is_met(labels, term) for term in _split(terms.get("labelSelector"))) and all(
        _is_met(fields, term) for term in _split(terms.get("fieldSelector"))
    )


def _is_met(values: dict[str, str], term: str) -> bool:
    """One term of a selector, as Kubernetes reads it."""
    if found := re.fullmatch(r"(\S+) (in|notin) \((.*)\)", term):
        name, word, given = found.groups()
        return (values.get(name) in given.split(",")) is (word == "in")
    if found := re.fullmatch(r"([^!=]+)(!=|==?)(.*)", term):
        name, word, given = found.groups()
        return (values.get(name) == given) is (word != "!=")
    return (term.lstrip("!") in values) is not term.startswith("!")


def _split(values: list[str] | None) -> list[str]:
    found = [term for value in values or () for term in re.split(r",(?![^(]*\))", value)]
    return [term.strip() for term in found if term.strip()]


class KubernetesServer(ThreadingHTTPServer):
    """The API server.

    `token` is what everybody has to show, `page` is answered instead if it is set: a status and a
    text, and `moved_to` sends everybody elsewhere. `requests` keep what came: verb, path, and the
    token that was shown. `logs` answers a pod's log, by namespace and name; its lines may begin
    with their time, as a node keeps them.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = Objects()
        self.token: str | None = None
        self._replaced: tuple[str | None, float] = (None, 0.0)
        self.page: tuple[int, str] | None = None
        self.moved_to: str | None = None
        self.ignores_selectors = False
        self.scheme = "http"
        self.logs: Callable[[str, str], str | bytes] = lambda *_: ""
        self.refuses_logs = False
        self.requests: list[tuple[str, str, str | None]] = []
        self.is_over = threading.Event()

    @classmethod
    @contextmanager
    def started(cls, tls: ssl.SSLContext | None = None) -> Iterator[Self]:
        with cls() as server:
            if tls is not None:
                server.socket = tls.wrap_socket(
                    server.socket,
                    server_side=True,
                    do_handshake_on_connect=False,  # whoever hesitates keeps nobody else waiting
                )
                server.scheme = "https"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield server
            finally:
                server.is_over.set()
                server.shutdown()
                thread.join()

    def replace_token(self, token: str) -> None:
        """Require another token; requests on their way may still show the previous one."""
        self._replaced = (self.token, time.monotonic() + _GRACE_S)
        self.token = token

    def accepts(self, shown: str | None) -> bool:
        """Return True if a request with this token is answered."""
        replaced, until = self._replaced
        is_in_time = replaced is not None and time.monotonic() < until
        return self.token in (None, shown) or (is_in_time and shown == replaced)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    @property
    def deleted(self) -> list[str]:
        """Names of pods that somebody ordered to delete, as they came."""
        paths = [urlsplit(path).path for verb, path, _ in self.requests if verb == "DELETE"]
        return [path.rpartition("/")[2] for path in paths if "/pods/" in path]


class _Handler(BaseHTTPRequestHandler):
    server: KubernetesServer
    protocol_version = "HTTP/1.1"

    def _answered(self, verb: str) -> None:
        """Answer one request; whatever it is."""
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        shown = (self.headers.get("Authorization") or "").partition("Bearer ")[2] or None
        self.server.requests.append((verb, self.path, shown))
        if self.server.moved_to is not None:
            self._send(307, "over there", "text/plain", f"{self.server.moved_to}{self.path}")
            return
        if self.server.page is not None:
            self._send(self.server.page[0], self.server.page[1], "text/html")
            return
        if not self.server.accepts(shown):
            self._status(401, "Unauthorized", "Unauthorized")
            return
        url = urlsplit(self.path)
        terms = parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        if parts[:3] != ["api", "v1", "namespaces"] or len(parts) < 5 or parts[4] not in KINDS:
            self._status(404, "NotFound", f"no {url.path}")
            return
        namespace, kind, *rest = parts[3:]
        try:
            getattr(self, f"_{verb.lower()}")(kind, namespace, rest, terms, body)
        except MissingError as error:
            self._status(404, "NotFound", f'{kind} "{error}" not found')

    def do_GET(self) -> None:
        self._answered("GET")

    def do_POST(self) -> None:
        self._answered("POST")

    def do_PUT(self) -> None:
        self._answered("PUT")

    def do_PATCH(self) -> None:
        self._answered("PATCH")

    def do_DELETE(self) -> None:
        self._answered("DELETE")

    def _get(
        self, kind: str, namespace: str, rest: list[str], terms: dict[str, list[str]], _: object
    ) -> None:
        objects = self.server.objects
        if rest[1:] == ["log"]:
            objects.get(kind, namespace, rest[0])
            if self.server.refuses_logs:
                self._status(403, "Forbidden", f"pods {rest[0]} is forbidden")
                return
            self._send(200, _part_of(self.server.logs(namespace, rest[0]), terms), "text/plain")
        elif rest:
            self._answer(objects.get(kind, namespace, rest[0]))
        elif terms.get("watch") in (["true"], ["1"]):
            self._watch(kind, namespace, terms)
        else:
            sought = {} if self.server.ignores_selectors else terms
            found = objects.list(kind, namespace, sought)
            version = {"resourceVersion": str(len(objects.events))}
            self._answer(
                {
                    "kind": f"{KINDS[kind]}List",
                    "apiVersion": "v1",
                    "metadata": version,
                    "items": found,
                }
            )

    def _post(
        self, kind: str, namespace: str, _: list[str], terms: object, body: dict[str, Any]
    ) -> None:
        del terms
        meta = body["metadata"]
        meta.setdefault("name", f"{meta.get('generateName', '')}{uuid.uuid4().hex[:5]}")
        with suppress(MissingError):
            self.server.objects.get(kind, namespace, meta["name"])
            self._status(409, "AlreadyExists", f'{kind} "{meta["name"]}" already exists')
            return
        self._answer(self.server.objects.put(kind, namespace, body), 201)

    def _put(
        self, kind: str, namespace: str, rest: list[str], terms: object, body: dict[str, Any]
    ) -> None:
        del terms
        before = self.server.objects.get(kind, namespace, rest[0])
        if "status" in before:
            body.setdefault("status", before["status"])
        self._answer(self.server.objects.put(kind, namespace, body))

    def _patch(
        self,
        kind: str,
        namespace: str,
        rest: list[str],
        terms: object,
        body: Any,  # noqa: ANN401 - any of three forms
    ) -> None:
        del terms
        try:
            one = self.server.objects.get(kind, namespace, rest[0])
        except MissingError:
            # What is applied is made if it is not there; no other patch does that.
            if "apply-patch" not in self.headers["Content-Type"]:
                raise
            one = {}
        if isinstance(body, list):
            for step in body:
                _take_step(one, step)
        else:
            _merge(one, body)
        self._answer(self.server.objects.put(kind, namespace, one))

    def _delete(
        self,
        kind: str,
        namespace: str,
        rest: list[str],
        terms: dict[str, list[str]],
        body: dict[str, Any],
    ) -> None:
        objects = self.server.objects
        if not rest:
            gone = [
                objects.delete(kind, namespace, one["metadata"]["name"])
                for one in objects.list(kind, namespace, terms)
            ]
            self._answer({"kind": f"{KINDS[kind]}List", "apiVersion": "v1", "items": gone})
            return
        found = objects.get(kind, namespace, rest[0])
        meant = (body.get("preconditions") or {}).get("uid")
        if meant is not None and meant != found["metadata"]["uid"]:
            self._status(409, "Conflict", "the UID in the precondition is another")
            return
        self._answer(objects.delete(kind, namespace, rest[0]))

    # ---- watches ---------------------------------------------------------------------------------

    def _watch(self, kind: str, namespace: str, terms: dict[str, list[str]]) -> None:
        is_socket = (self.headers.get("Upgrade") or "").lower() == "websocket"
        if is_socket:
            self._shake_hands()
        else:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
        self.close_connection = True
        send = self._send_frame if is_socket else self._send_chunk
        objects = self.server.objects
        since = int((terms.get("resourceVersion") or ["0"])[0] or 0)
        with suppress(OSError):
            if not since:
                since = len(objects.events)
                for one in objects.list(kind, namespace, terms):
                    send(json.dumps({"type": "ADDED", "object": one}))
            while not self.server.is_over.is_set():
                with objects.changed:
                    objects.changed.wait_for(lambda: len(objects.events) > since, _WATCH_S)  # noqa: B023 - asked at once
                    news = objects.events[since:]
                for number, what, of, one in news:
                    since = number
                    if (
                        of == kind
                        and one["metadata"]["namespace"] == namespace
                        and chosen(one, terms)
                    ):
                        send(json.dumps({"type": what, "object": one}))

    def _shake_hands(self) -> None:
        key = self.headers["Sec-WebSocket-Key"] + _SOCKET_KEY
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()  # noqa: S324 - RFC 6455 has it so
        self.send_response(101)
        for name, value in {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": accept,
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_frame(self, text: str) -> None:
        """One text frame of a server: not masked, and whole."""
        data = text.encode()
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x81, size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", 0x81, 126, size)
        else:
            head = struct.pack("!BBQ", 0x81, 127, size)
        self.wfile.write(head + data)
        self.wfile.flush()

    def _send_chunk(self, text: str) -> None:
        data = text.encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    # ---- answers ---------------------------------------------------------------------------------

    def _status(self, code: int, reason: str, message: str) -> None:
        said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self._answer({**said, "message": message, "reason": reason, "code": code}, code)

    def _answer(self, body: dict[str, Any], code: int = 200) -> None:
        self._send(code, json.dumps(body), "application/json")

    def _send(self, code: int, text: str | bytes, kind: str, location: str | None = None) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        self.send_response(code)
        if location is not None:
            self.send_header("Location", location)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with suppress(OSError):  # the client may have stopped waiting
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        """Says nothing."""


def _part_of(text: str | bytes, terms: dict[str, list[str]]) -> bytes:
    """The part of a log that a node's kubelet answers: some lines, and of these the first bytes.

    Lines without a time are of the first second.
    """
    data = text if isinstance(text, bytes) else text.encode()
    lines = [
        found
        for line in re.findall(rb"[^\n]*\n|[^\n]+", data)
        if (found := _LINE.fullmatch(line if _LINE.fullmatch(line) else _FIRST_TIME + line))
    ]
    if last := terms.get("tailLines"):
        lines = lines[-int(last[0]) :]
    if since := terms.get("sinceTime"):
        # Kubernetes hands on no fraction of a second.
        first = datetime.fromisoformat(since[0]).replace(microsecond=0)
        lines = [one for one in lines if datetime.fromisoformat(one[1].decode()) >= first]
    form = r"\g<0>" if terms.get("timestamps") == ["true"] else r"\2"
    answer = b"".join(one.expand(form.encode()) for one in lines)
    return answer[: int(terms["limitBytes"][0])] if "limitBytes" in terms else answer


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """A merge patch (RFC 7386); lists are replaced, which is enough for what Spark sends."""
    for name, value in more.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _take_step(one: dict[str, Any], step: dict[str, Any]) -> None:
    """A step of a JSON patch (RFC 6902) on objects."""
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")][
        1:
    ]
    place: Any = one
    for name in path:
        place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
    if step["op"] == "remove":
        place.pop(last, None)
    elif step["op"] != "test":
        place[last] = step["value"]
