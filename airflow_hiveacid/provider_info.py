"""The provider's metadata for Airflow: the connection type, its form, modules and options.

Every Airflow process imports this module through the entry point `apache_airflow_provider`. So this
module imports nothing but constants. The fields of the form are the extras that
`hooks/connection.py` parses.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_hiveacid import __version__
from airflow_hiveacid.jobs.time_limits import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    LOCK_TIMEOUT_S,
    START_TIMEOUT_S,
)

_INTEGRATION: Final = "Apache Hive ACID"
_OPTIONAL_TEXT: Final = ["string", "null"]
"""If a field's type does not allow null, Airflow's form requires the field and shows a star."""


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, in the form of `airflow/provider_info.schema.json`."""
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
        "hooks": [_modules("airflow_hiveacid.hooks")],
        "operators": [_modules("airflow_hiveacid.operators")],
        "sensors": [_modules("airflow_hiveacid.sensors")],
        "triggers": [
            _modules(
                "airflow_hiveacid.operators.submission.trigger",
                "airflow_hiveacid.watch.compaction_due",
                "airflow_hiveacid.watch.trigger",
            )
        ],
        "asset-uris": [
            {
                "schemes": ["hiveacid"],
                "handler": "airflow_hiveacid.assets.uris.normalized",
                "to_openlineage_converter": "airflow_hiveacid.assets.uris.openlineage_dataset",
            }
        ],
        "extra-links": [
            f"airflow_hiveacid.operators.reporting.links.{name}"
            for name in ("SparkApplicationLink", "SparkUiLink", "TableLink")
        ],
        "cli": ["airflow_hiveacid.cli.airflow_group.get_commands"],
        "bundles": [_modules("airflow_hiveacid.bundles")],
        "config": _configuration(),
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": _INTEGRATION, "python-modules": list(names)}


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "hive_acid_metastore",
        "hook-class-name": "airflow_hiveacid.hooks.HiveAcidHook",
        "hook-name": "Hive ACID metastore",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "password"],
            "relabeling": {
                "host": "Metastore host(s)",
                "login": "User name for the metastore",
            },
            "placeholders": {
                "host": "hms-1.example.com,hms-2.example.com",
                "port": "9083",
                "login": "airflow",
            },
        },
        # The form shows each section as a closed group; sections that most users need come first.
        "conn-fields": {
            **_section("Login", _login_fields()),
            **_section("Kerberos", _kerberos_fields()),
            **_section("Transport and several addresses", _address_fields()),
            **_section("TLS certificates", _tls_fields()),
            **_section("Jobs", _job_fields()),
            **_section("Time-outs", _bound_fields()),
        },
    }


def _section(title: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {**field, "schema": {**field["schema"], "section": title}}
        for name, field in fields.items()
    }


def _address_fields() -> dict[str, Any]:
    return {
        "uris": {
            "label": "Metastore URIs",
            "description": (
                "thrift://host:port; for HTTP, http(s)://host:port/path. Separate several URIs by"
                " commas; they are tried in this order. They replace host and port"
                " (hive.metastore.uris)"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "transport": {
            "label": "Transport",
            "description": (
                "plain, or tls when the metastore runs with metastore.use.SSL; http or https for a"
                " Hive 4 metastore with metastore.server.thrift.transport.mode=http"
            ),
            "schema": {
                "type": _OPTIONAL_TEXT,
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
            "description": f"PEM file of the CA that signed the metastore's certificate; {where}",
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
            "description": "Whether the certificate must contain the host name of the metastore",
            "schema": {"type": ["boolean", "null"], "default": True},
        },
    }


def _login_fields() -> dict[str, Any]:
    return {
        "authentication": {
            "label": "Authentication",
            "description": (
                "The way to log in. With transport plain or tls: kerberos, token (a Hadoop"
                " delegation token) or password (Hive 4, over tls). With http or https: bearer (a"
                " JWT) or header (a user name that the metastore trusts)"
            ),
            "schema": {
                "type": _OPTIONAL_TEXT,
                "enum": ["none", "kerberos", "token", "password", "bearer", "header"],
                "default": "none",
            },
        },
        "secret_from": {
            "label": "Location of the secret",
            "description": (
                "file:/path or env:NAME: the location of the password, bearer token or delegation"
                " token on each machine that connects to the metastore; never the secret itself."
                " For a delegation token, leave this blank to use the file that YARN gives its"
                " containers"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "secret_in_clear": {
            "label": "Send secret in clear",
            "description": "Allow password or bearer token without TLS: only on trusted networks",
            "schema": {"type": ["boolean", "null"], "default": False},
        },
        "protection": {
            "label": "Least protection",
            "description": (
                "The weakest protection of messages to accept with kerberos or token. The strongest"
                " protection that the metastore offers (hadoop.rpc.protection) is used. By default,"
                " a token without TLS requires integrity, because an attacker could shorten the"
                " metastore's offer"
            ),
            "schema": {
                "type": _OPTIONAL_TEXT,
                "enum": ["default", "authentication", "integrity", "privacy"],
                "default": "default",
            },
        },
    }


def _kerberos_fields() -> dict[str, Any]:
    return {
        "kerberos_service": {
            "label": "Metastore's principal",
            "description": "Such as hive/_HOST@REALM (hive.metastore.kerberos.principal)",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_client": {
            "label": "Client's principal",
            "description": "Required with a keytab; if blank, the owner of the tickets logs in",
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_keytab": {
            "label": "Keytab file",
            "description": (
                "With the client's key; the same path on every worker, on the triggerer and where"
                " the Spark driver runs. If blank, tickets are used that another program renews"
            ),
            "schema": {"type": _OPTIONAL_TEXT},
        },
        "kerberos_cache": {
            "label": "Ticket cache",
            "description": "Such as FILE:/path; if blank, the cache of the process (KRB5CCNAME)",
            "schema": {"type": _OPTIONAL_TEXT},
        },
    }


def _bound_fields() -> dict[str, Any]:
    return {
        "connect_timeout_s": {
            "label": "Connect time-out (s)",
            "description": "Longest wait for one server to accept a connection",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": int(CONNECT_TIMEOUT_S)},
        },
        "call_timeout_s": {
            "label": "Call time-out (s)",
            "description": "Longest time for one call, until its whole answer has arrived",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": int(CALL_TIMEOUT_S)},
        },
        "lock_timeout_s": {
            "label": "Lock time-out (s)",
            "description": "Longest wait for a table's locks; with 0, a job does not wait",
            "schema": {"type": ["number", "null"], "minimum": 0, "default": int(LOCK_TIMEOUT_S)},
        },
    }


def _job_fields() -> dict[str, Any]:
    return {
        "conflict_policy": {
            "label": "Conflict policy",
            "description": (
                "The rule for conflicts. hive: as in Hive. strict: if two transactions write one"
                " partition, only the first commits. Tables and tasks may set a different rule"
            ),
            "schema": {"type": _OPTIONAL_TEXT, "enum": ["hive", "strict"], "default": "hive"},
        },
        "engine": {
            "label": "Engine",
            "description": (
                "Where jobs run if the task does not say it. auto: in the task's own process what"
                " needs no Spark. worker: there or not at all. spark: in a Spark driver"
            ),
            "schema": {"type": _OPTIONAL_TEXT, "enum": ["auto", "worker", "spark"]},
        },
        "allow_unsafe_expressions": {
            "label": "Allow unsafe expressions",
            "description": (
                "Let conditions, expressions and queries call Java (reflect) and read files of the"
                " Spark driver. Then every user who can fill a template controls the driver"
            ),
            "schema": {"type": ["boolean", "null"], "default": False},
        },
        "result_dir": {
            "label": "Result directory",
            "description": (
                "Directory for the results of jobs in cluster deploy mode: a URI that both the"
                " Spark driver and the Airflow worker can reach, such as hdfs://nn/tmp/hiveacid"
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
                        " with the `python3` that its driver runs. If empty, both are searched on"
                        " PATH. Spark needs a separate environment, because the Spark provider"
                        " installs pyspark-client, which overwrites parts of pyspark."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "/opt/spark-venv/bin",
                    "default": "",
                },
                "start_timeout_s": {
                    "description": (
                        "Longest wait, in seconds, until YARN starts the driver's container, or in"
                        " client mode the application master's container. On any cluster, also the"
                        " longest wait for the first executor. After this time, the application is"
                        " killed, and the task fails with YARN's diagnostics of its queue."
                    ),
                    "version_added": "0.1.0",
                    "type": "float",
                    "example": "900",
                    "default": f"{START_TIMEOUT_S:.0f}",
                },
                "check_before_submit": {
                    "description": (
                        "Whether a worker checks a job's tables in the metastore, and its own Java,"
                        " before it starts Spark, and whether it plans compactions and cleans"
                        " tables itself. Set to False if workers may not reach the metastore; then"
                        " only Spark drivers do so."
                    ),
                    "version_added": "0.1.0",
                    "type": "boolean",
                    "example": None,
                    "default": "True",
                },
                "installation": {
                    "description": (
                        "Name of this Airflow installation, which is part of each job's key. If two"
                        " installations write to the same tables, give them different names, so"
                        " that tasks with equal DAG, run and task IDs are different jobs. Give all"
                        " workers of an installation the same name. If empty, the name is the"
                        " address of the API server (`base_url` of `[api]` or"
                        " `execution_api_server_url` of `[core]`), unless it is local."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "production",
                    "default": "",
                },
            },
        }
    }
