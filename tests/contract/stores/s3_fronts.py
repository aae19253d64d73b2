"""What other servers than AWS's do otherwise, for whatever client asks: it stands before moto's."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import parse_qs
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_LISTED: Final = re.compile(rb"<Contents>.*?<Key>(.*?)</Key>.*?</Contents>", re.DOTALL)


def wants_md5(server: WSGIApplication) -> WSGIApplication:
    """As servers of before 2025: whoever deletes several objects has to send Content-MD5."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST" or "delete" not in _query(environ):
            return server(environ, start)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        said = environ.get("HTTP_CONTENT_MD5")
        if said == digest:
            return server(environ, start)
        return _refused("MissingContentMD5" if said is None else "BadDigest", start)

    return answer


def lists_uploads_by_name(server: WSGIApplication) -> WSGIApplication:
    """As MinIO: of uploads it lists those to one key, or all there are, and none below a prefix."""

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        asked = _query(environ)
        is_below = asked.get("prefix", [""])[0].endswith("/")
        if environ["REQUEST_METHOD"] != "GET" or "uploads" not in asked or not is_below:
            return server(environ, start)
        body = b"<ListMultipartUploadsResult></ListMultipartUploadsResult>"
        start("200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    return answer


def lists_late(is_late: Callable[[str], bool]) -> Callable[[WSGIApplication], WSGIApplication]:
    """As stores whose lists lag: some keys can be asked for, and are in no list yet."""

    def front(server: WSGIApplication) -> WSGIApplication:
        def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            if environ["REQUEST_METHOD"] != "GET" or "list-type" not in _query(environ):
                return server(environ, start)
            told: list[Any] = []
            body = b"".join(server(environ, lambda *said: told.extend(said)))  # type: ignore[arg-type]
            shown = _LISTED.sub(lambda m: b"" if is_late(m[1].decode()) else m[0], body)
            headers = [(n, v) for n, v in told[1] if n.lower() != "content-length"]
            start(told[0], [*headers, ("Content-Length", str(len(shown)))])
            return [shown]

        return answer

    return front


def notes_what_is_replaced(
    part: str, replaced: list[str]
) -> Callable[[WSGIApplication], WSGIApplication]:
    """Tell of keys with this part that got an object while they had one: S3 says nothing of it."""
    made: set[str] = set()

    def front(server: WSGIApplication) -> WSGIApplication:
        def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
            key, asked = environ["PATH_INFO"], _query(environ)
            if environ["REQUEST_METHOD"] == "PUT" and part in key and "partNumber" not in asked:
                replaced.extend([key] if key in made else [])
                made.add(key)
            return server(environ, start)

        return answer

    return front


def _query(environ: WSGIEnvironment) -> dict[str, list[str]]:
    return parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)


def _refused(code: str, start: StartResponse) -> Iterable[bytes]:
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
    start(
        "400 Bad Request", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    )
    return [body]
