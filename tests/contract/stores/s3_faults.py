"""Faults of S3, where the requests of one client are sent: refusals, and answers that are lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError

_BODY = "<Error><Code>{code}</Code><Message>{code}</Message></Error>"


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: object, **__: object) -> list[bytes]:
        body, self._body = self._body, b""
        return [body]


@dataclass
class Faults:
    """What happens to the next requests of a kind; mutable.

    `seen` are the kinds of all that were sent, `requests` their headers.

    `refuse` answers instead of the server. `lose` has the server do it, and hangs up; `then` is
    what it says when it is asked again.
    """

    refuse: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    lose: dict[str, int] = field(default_factory=dict)
    then: dict[str, tuple[int, str]] = field(default_factory=dict)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    requests: dict[str, list[set[str]]] = field(default_factory=dict)

    def install(self, api: object) -> None:
        endpoint = api._endpoint  # type: ignore[attr-defined]
        send = endpoint._send
        names: list[str] = []

        def note(model: object, **_: object) -> None:
            names.append(model.name)  # type: ignore[attr-defined]

        def faulty(request: object) -> AWSResponse:
            name = names[-1]
            self.seen.append(name)
            headers = {*request.headers}  # type: ignore[attr-defined]
            self.requests.setdefault(name, []).append(headers)
            if name in self.before:
                self.before.pop(name)()
            if self.refuse.get(name):
                status, code = self.refuse[name].pop(0)
                # HTTP knows no body of an answer to HEAD: a client is told the status alone.
                body = b"" if name.startswith("Head") else _BODY.format(code=code).encode()
                url = request.url  # type: ignore[attr-defined]
                return AWSResponse(url, status, {"content-type": "application/xml"}, _Raw(body))
            answer = send(request)
            if self.lose.get(name):
                self.lose[name] -= 1
                answer.content  # noqa: B018 - it was done
                if name in self.then:
                    self.refuse[name] = [self.then[name]]
                raise ConnectionClosedError(endpoint_url=request.url)  # type: ignore[attr-defined]
            return answer

        api.meta.events.register("before-call.s3.*", note)  # type: ignore[attr-defined]
        endpoint._send = faulty
