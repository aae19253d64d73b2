"""What Airflow reads to know this provider: connection type and form, modules, configuration.

Loaded by every Airflow process through the entry point `apache_airflow_provider`, so it imports
nothing but the version. The form's fields are the extras that `hooks/connection.py` reads.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_hiveacid import __version__

_INTEGRATION: Final = "Apache Hive ACID"
_OPTIONAL_TEXT: Final = ["string", "null"]


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, as `airflow/provider_info.schema.json` wants it."""
    return {
        "package-name": "airflow-provider-hiveacid",
        "name": _INTEGRATION,
        "description": (
            "Change, compact and clean Hive ACID tables with Spark; the Hive metastore is the only"
            " source of truth."
        ),
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://hive.apache.org/docs/latest/hive-transactions/",
                "tags": ["apache"],
            }
        ],
        "connection-types": [_connection_type()],
        "hooks": [_modules("airflow_hiveacid.hooks.hive_acid")],
        "operators": [
            _modules(
                "airflow_hiveacid.operators.changes",
                "airflow_hiveacid.operators.convert",
                "airflow_hiveacid.operators.create_table",
                "airflow_hiveacid.operators.hive_acid",
                "airflow_hiveacid.operators.load",
                "airflow_hiveacid.operators.pyspark",
                "airflow_hiveacid.operators.spark_app",
                "airflow_hiveacid.operators.sql",
                "airflow_hiveacid.operators.tag",
                "airflow_hiveacid.operators.transaction",
            )
        ],
        "sensors": [
            _modules("airflow_hiveacid.sensors.hive_acid", "airflow_hiveacid.sensors.new_version")
        ],
        "triggers": [
            _modules("airflow_hiveacid.triggers.hive_acid", "airflow_hiveacid.triggers.new_version")
        ],
        "config": _configuration(),
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "hive_acid_metastore",
        "hook-class-name": "airflow_hiveacid.hooks.hive_acid.HiveAcidHook",
        "hook-name": "Hive ACID metastore",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "password"],
            "relabeling": {
                "host": "Metastore host(s)",
                "login": "User announced to the metastore",
            },
            "placeholders": {
                "host": "hms-1.example.com,hms-2.example.com",
                "port": "9083",
                "login": "airflow",
            },
        },
        "conn-fields": {
            **_address_fields(),
            **_tls_fields(),
            **_login_fields(),
            **_kerberos_fields(),
            **_bound_fields(),
            **_job_fields(),
        },
    }


def _address_fields() -> dict[str, Any]:
    return {
        "uris": {
            "label": "Metastore URIs",
            "description": (
                "thrift://host:port, over HTTP http(s)://host:port/path; several separated by"
                " commas, tried in this order; used instead of host and port (hive.metastore.uris)"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "transport": {
            "label": "Transport",
            "description": (
                "plain, or tls when the metastore runs with metastore.use.SSL; http or https when"
                " it is of Hive 4 and runs with metastore.server.thrift.transport.mode=http"
            ),
            "schema": {
                "type": "string",
                "enum": ["plain", "tls", "http", "https"],
                "default": "plain",
            },
        },
    }


def _tls_fields() -> dict[str, Any]:
    where = "the same path on every worker, on the triggerer and where the Spark driver runs"
    return {
        "ca_certificate": {
            "label": "CA certificate file",
            "description": f"PEM file that vouches for the metastore; {where}",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "client_certificate": {
            "label": "Client certificate file",
            "description": f"PEM file, if the metastore asks for one; {where}",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "client_key": {
            "label": "Client key file",
            "description": f"PEM file of the client certificate's key; {where}",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "verify_host": {
            "label": "Verify host name",
            "description": "Whether the certificate must name the host that is called",
            "schema": {"type": ["boolean", "null"], "default": True},
        },
    }


def _login_fields() -> dict[str, Any]:
    return {
        "authentication": {
            "label": "Authentication",
            "description": (
                "How one logs in. kerberos, token (a Hadoop delegation token) and password (Hive 4,"
                " over tls) with transport plain or tls; bearer (a JWT) and header (a user name"
                " that is believed) with http or https"
            ),
            "schema": {
                "type": "string",
                "enum": ["none", "kerberos", "token", "password", "bearer", "header"],
                "default": "none",
            },
        },
        "secret_from": {
            "label": "Secret lies in",
            "description": (
                "file:/path or env:NAME: where password, bearer token or delegation token lies on"
                " each machine that talks to the metastore; never the secret itself. A delegation"
                " token may be left to the file that YARN gives its containers"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "secret_in_clear": {
            "label": "Send secret in clear",
            "description": "Allow password or bearer token without TLS: on trusted networks only",
            "schema": {"type": ["boolean", "null"], "default": False},
        },
        "protection": {
            "label": "Least protection",
            "description": (
                "Of messages after kerberos or token: the strongest that the metastore offers"
                " (hadoop.rpc.protection) is taken, and nothing weaker than this"
            ),
            "schema": {
                "type": "string",
                "enum": ["authentication", "integrity", "privacy"],
                "default": "authentication",
            },
        },
    }


def _kerberos_fields() -> dict[str, Any]:
    return {
        "kerberos_service": {
            "label": "Metastore's principal",
            "description": "As hive/_HOST@REALM (hive.metastore.kerberos.principal)",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_client": {
            "label": "Client's principal",
            "description": "Who logs in; needed with a keytab, else the owner of the tickets",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_keytab": {
            "label": "Keytab file",
            "description": (
                "With the client's key; the same path on every worker, on the triggerer and where"
                " the Spark driver runs. Blank: tickets that somebody else renews"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_cache": {
            "label": "Ticket cache",
            "description": "As FILE:/path; blank: the process's own (KRB5CCNAME)",
            "schema": {"type": _OPTIONAL_TEXT},
        },
    }


def _bound_fields() -> dict[str, Any]:
    return {
        "connect_timeout_s": {
            "label": "Connect time-out (s)",
            "description": "Longest wait for one server to accept a connection",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": 10},
        },
        "call_timeout_s": {
            "label": "Call time-out (s)",
            "description": "Longest wait for one answer",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": 120},
        },
        "lock_timeout_s": {
            "label": "Lock time-out (s)",
            "description": "Longest wait for a table's locks; with 0 a job never waits",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": 300},
        },
    }


def _job_fields() -> dict[str, Any]:
    return {
        "conflict_policy": {
            "label": "Conflict policy",
            "description": (
                "Who may commit beside whom: as Hive (hive), or of two writers of a partition only"
                " the first (strict); tables and tasks may say another"
            ),
            "schema": {"type": "string", "enum": ["hive", "strict"], "default": "hive"},
        },
        "result_dir": {
            "label": "Result directory",
            "description": (
                "Where jobs in cluster deploy mode leave their result: a URI that both the Spark"
                " driver and the Airflow worker can reach, such as hdfs://nn/tmp/hiveacid"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
    }


def _configuration() -> dict[str, Any]:
    return {
        "hiveacid": {
            "description": "Settings of the Hive ACID provider.",
            "options": {
                "spark_bin_dir": {
                    "description": (
                        "Directory with the `spark-submit` that this provider's operators run, and"
                        " with the `python3` that its driver runs. Empty: the one found on PATH."
                        " An environment of its own is needed because the Spark provider installs"
                        " pyspark-client, which overwrites parts of pyspark."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "/opt/spark-venv/bin",
                    "default": "",
                },
                "start_timeout_s": {
                    "description": (
                        "Longest wait in seconds for YARN to start the driver's container, or in"
                        " client mode the application master's, and then, on any cluster, for the"
                        " first executor. After it the application is ended, and the task fails"
                        " with what YARN says of its queue."
                    ),
                    "version_added": "0.1.0",
                    "type": "float",
                    "example": "900",
                    "default": "3600",
                },
            },
        }
    }
