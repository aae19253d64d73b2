from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from demo.airflow_api import AirflowApi
from demo.errors import AirflowApiError

TOKEN = "Bearer t0"
RUN = {
    "dag_id": "d",
    "state": "success",
    "data_interval_start": "2013-01-02T00:00:00Z",
    "start_date": None,
    "end_date": None,
}


class Page(BaseHTTPRequestHandler):
    """A page with 250 runs of one DAG; it remembers what was sent to it."""

    asked: list[str]
    failures = 0

    def log_message(self, *_args: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if self.headers["Authorization"] != TOKEN or type(self).failures > 0:
            return self._refuse()
        if address.path.endswith("/dagRuns"):
            begin, limit = int(query["offset"]), int(query["limit"])
            rows = [{**RUN, "dag_run_id": f"r{n}"} for n in range(250)][begin : begin + limit]
            return self._answer(200, {"dag_runs": rows, "total_entries": 250})
        return self._answer(404, {"detail": "nothing here"})

    def _refuse(self) -> None:
        if self.headers["Authorization"] != TOKEN:
            return self._answer(401, {"detail": "who are you?"})
        type(self).failures -= 1
        return self._answer(500, {"detail": "database is locked"})

    def do_POST(self) -> None:
        self.asked.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_login = self.path == "/auth/token" and body == {"username": "admin", "password": "p"}
        self._answer(201 if is_login else 401, {"access_token": "t0"} if is_login else {})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(page: type[Page]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page() -> type[Page]:
    return type("FreshPage", (Page,), {"asked": []})


@pytest.fixture
def api(page: type[Page], tmp_path: Path) -> Iterator[AirflowApi]:
    passwords = tmp_path / "passwords"
    passwords.write_text('{"admin": "p"}')
    with serving(page) as url:
        yield AirflowApi(url, passwords)


def test_all_pages_of_a_long_list_are_read(api: AirflowApi) -> None:
    runs = api.runs("d")
    assert [run.run_id for run in runs] == [f"r{n}" for n in range(250)]
    assert runs[0].day == date(2013, 1, 2)
    assert runs[0].is_over


def test_the_api_client_logs_in_only_once(api: AirflowApi, page: type[Page]) -> None:
    api.runs("d")
    api.runs("d")
    assert page.asked == ["/auth/token"]


def test_a_refused_call_raises_an_error_with_its_path_and_status(api: AirflowApi) -> None:
    with pytest.raises(AirflowApiError, match="GET /api/v2/importErrors answered 404") as caught:
        api.import_errors()
    assert caught.value.status == 404


def test_a_request_that_fails_is_retried_until_a_limit(
    api: AirflowApi, page: type[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.airflow_api._PAUSE_S", 0.0)
    page.failures = 3
    assert len(api.runs("d")) == 250
    page.failures = 1000
    with pytest.raises(AirflowApiError, match="database is locked"):
        api.runs("d")
