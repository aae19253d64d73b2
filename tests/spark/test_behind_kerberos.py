"""Everything behind Kerberos: the life of a table in small, which `make clusters` leads.

`make test` follows the guide (test_guides.py), which inserts and scans.

Spark alone has a keytab here; Python, driver and workers, goes by what Spark's JVM may do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kerberos_lab import USER, KerberosLab

pytestmark = [pytest.mark.server, pytest.mark.clusters]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[KerberosLab]:
    with KerberosLab(tmp_path) as lab:
        yield lab


def scan(lab: KerberosLab, table: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command line says of a table, to whom the variables make known."""
    service = f"hive/_HOST@{lab.kdc.config.realm}"
    return subprocess.run(
        [
            *(sys.executable, "-m", "airflow_hiveacid", "scan", table),
            *("--metastore", lab.metastore.uri, "--authentication", "kerberos"),
            *("--kerberos-service", service, "--protection", "privacy"),
        ],
        env=lab.environment(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_spark_and_the_command_line_work_with_kerberos_on_every_server(lab: KerberosLab) -> None:
    ended = lab.run("small", *lab.by_keytab)
    assert ended.code == 0, ended.said[-3000:]
    assert ended.notes["directories"] == ["_hiveacid", "p=a", "p=a/base_0000002"]
    assert ended.notes["kinds"] == ["HDFS_DELEGATION_TOKEN"]
    own = lab.run("own", *lab.by_keytab, TABLE=ended.notes["table"])
    assert own.notes.get("rows") == [[i, v, "a"] for i, v in enumerate(["v0", "u", "v2", "v3"])], (
        own.said[-3000:]
    )
    read = scan(lab, ended.notes["table"], KRB5CCNAME=lab.cache())
    assert read.returncode == 0, read.stdout
    assert read.stdout.count("v3") == 1, read.stdout
    refused = scan(lab, ended.notes["table"])
    assert refused.returncode != 0
    assert "Unavailable" in refused.stdout
    events = [file.read_bytes() for file in lab.folder.glob("driver-*/events/**/events_*")]
    assert any(b"SparkListenerEnvironmentUpdate" in text for text in events)
    assert lab.leaks() == []
    planted = lab.folder / "some.log"
    planted.write_text(repr(lab.kdc.keytab(USER).read_bytes()))
    assert lab.leaks() == ["some.log"]
