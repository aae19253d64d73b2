"""What tests of tasks behind Kerberos share: a worker of the realm, its connection, its table."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.metastore.client import MetastoreClient
from tests.support.airflow_support import Connections
from tests.support.kerberos_lab import USER, KerberosLab
from tests.support.short_jvms import ENVIRONMENT

ENCRYPTED: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
"""The settings under which Spark's executors are sent tokens for their Python."""


def take_part(lab: KerberosLab, conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process becomes a worker of the realm, with a keytab and a place for its tickets.

    Args:
        lab: whose realm it is.
        conf: a HADOOP_CONF_DIR.
        monkeypatch: until when.
    """
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    for name, value in {
        **ENVIRONMENT,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HADOOP_CONF_DIR": str(conf),
        "KRB5_CONFIG": str(lab.kdc.configuration),
        "KRB5_CLIENT_KTNAME": str(lab.kdc.keytab(USER)),
        "KRB5CCNAME": f"FILE:{lab.folder / 'cache-worker'}",
        # What a machine of a realm has in /etc/krb5.conf.
        "JAVA_TOOL_OPTIONS": lab.hdfs.jvm_flag,
    }.items():
        monkeypatch.setenv(name, value)


def connect_metastore(
    lab: KerberosLab, connections: Connections, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """A connection to the metastore, and what it says of the login.

    The keytab is in the folder in which the worker runs: no container has it.
    """
    shutil.copyfile(lab.kdc.keytab(USER), folder / "own.keytab")
    monkeypatch.chdir(folder)
    login = {
        "uris": lab.metastore.uri,
        "result_dir": f"{lab.hdfs.uri}/results",
        "authentication": "kerberos",
        "kerberos_service": f"hive/_HOST@{lab.kdc.config.realm}",
        "kerberos_client": lab.kdc.principal(USER),
        "kerberos_keytab": "/proc/self/cwd/own.keytab",
        "protection": "privacy",
        "allow_unsafe_expressions": True,  # a query that takes its time calls Java
    }
    connections.add("hive_acid_default", "hive_acid_metastore", extra=login)
    return login


def made_table(client: MetastoreClient) -> TableInfo:
    """On HDFS, where the metastore makes it."""
    name = f"krb_{uuid.uuid4().hex[:8]}.t"
    columns = {"id": "bigint", "name": "string"}
    HiveAcidHook().create_table(name, columns, create_database=True)
    return client.get_table(TableRef.parse(name))


def login_of_spark(lab: KerberosLab) -> dict[str, str]:
    """What gives Spark its login."""
    return {"principal": lab.kdc.principal(USER), "keytab": str(lab.kdc.keytab(USER))}
