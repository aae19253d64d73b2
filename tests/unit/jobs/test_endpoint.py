from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, SecretSource


def test_an_endpoint_contains_the_source_of_a_secret_but_never_the_secret() -> None:
    found = {}
    for kind in (MetastoreEndpoint, *get_args(get_type_hints(MetastoreEndpoint)["login"])):
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            found |= {f.name: hints[f.name] for f in fields(kind)}
    words = ("password", "secret", "token", "bearer")
    secret = {name: hint for name, hint in found.items() if any(w in name for w in words)}
    assert secret == {
        "password": SecretSource,
        "bearer": SecretSource,
        "token": SecretSource | None,
    }


def test_connections_and_calls_have_a_timeout_by_default() -> None:
    endpoint = MetastoreEndpoint(uris=("thrift://a:9083",))
    assert endpoint.connect_timeout_s > 0
    assert endpoint.call_timeout_s > 0
