from __future__ import annotations

from dataclasses import fields

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint


def test_an_endpoint_has_no_place_for_a_secret() -> None:
    names = {f.name for f in fields(MetastoreEndpoint)}
    assert not [n for n in names if any(w in n for w in ("password", "secret", "token"))]


def test_every_wait_is_bounded() -> None:
    endpoint = MetastoreEndpoint(uris=("thrift://a:9083",))
    assert endpoint.connect_timeout_s > 0
    assert endpoint.call_timeout_s > 0
