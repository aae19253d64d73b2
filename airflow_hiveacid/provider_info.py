"""The provider's metadata for Airflow: the connection type, its form, modules and options.

Every Airflow process imports this module through the entry point `apache_airflow_provider`. So this
module imports nothing but constants. The fields of the form are the extras that
`hooks/connection.py` parses.
"""

from __future__ import annotations

from typing import Any, Final

from airflow_hiveacid import __version__, jobs

_INTEGRATION: Final = "Apache Hive ACID"
_WHERE: Final = "the same path on every worker, on the triggerer and where the Spark driver runs"


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
            **_section(
                "Login",
                authentication=_text(
                    "Authentication",
                    "The way to log in. With transport plain or tls: kerberos, token (a Hadoop"
                    " delegation token) or password (Hive 4, over tls). With http or https: bearer"
                    " (a JWT) or header (a user name that the metastore trusts)",
                    *("none", "kerberos", "token", "password", "bearer", "header"),
                ),
                secret_from=_text(
                    "Location of the secret",
                    "file:/path or env:NAME: the location of the password, bearer token or"
                    " delegation token on each machine that connects to the metastore; never the"
                    " secret itself. For a delegation token, leave this blank to use the file that"
                    " YARN gives its containers",
                ),
                secret_in_clear=_truth(
                    "Send secret in clear",
                    "Allow password or bearer token without TLS: only on trusted networks",
                    default=False,
                ),
                protection=_text(
                    "Least protection",
                    "The weakest protection of messages to accept with kerberos or token. The"
                    " strongest protection that the metastore offers (hadoop.rpc.protection) is"
                    " used. By default, a token without TLS requires integrity, because an attacker"
                    " could shorten the metastore's offer",
                    *("default", "authentication", "integrity", "privacy"),
                ),
            ),
            **_section(
                "Kerberos",
                kerberos_service=_text(
                    "Metastore's principal",
                    "Such as hive/_HOST@REALM (hive.metastore.kerberos.principal)",
                ),
                kerberos_client=_text(
                    "Client's principal",
                    "Required with a keytab; if blank, the owner of the tickets logs in",
                ),
                kerberos_keytab=_text(
                    "Keytab file",
                    "With the client's key; the same path on every worker, on the triggerer and"
                    " where the Spark driver runs. If blank, tickets are used that another program"
                    " renews",
                ),
                kerberos_cache=_text(
                    "Ticket cache",
                    "Such as FILE:/path; if blank, the cache of the process (KRB5CCNAME)",
                ),
            ),
            **_section(
                "Transport and several addresses",
                uris=_text(
                    "Metastore URIs",
                    "thrift://host:port; for HTTP, http(s)://host:port/path. Separate several URIs"
                    " by commas; they are tried in this order. They replace host and port"
                    " (hive.metastore.uris)",
                ),
                transport=_text(
                    "Transport",
                    "plain, or tls when the metastore runs with metastore.use.SSL; http or https"
                    " for a Hive 4 metastore with metastore.server.thrift.transport.mode=http",
                    *("plain", "tls", "http", "https"),
                ),
            ),
            **_section(
                "TLS certificates",
                ca_certificate=_text(
                    "CA certificate file",
                    f"PEM file of the CA that signed the metastore's certificate; {_WHERE}",
                ),
                client_certificate=_text(
                    "Client certificate file",
                    f"PEM file, if the metastore asks for one; {_WHERE}",
                ),
                client_key=_text(
                    "Client key file", f"PEM file of the client certificate's key; {_WHERE}"
                ),
                verify_host=_truth(
                    "Verify host name",
                    "Whether the certificate must contain the host name of the metastore",
                    default=True,
                ),
            ),
            **_section(
                "Jobs",
                conflict_policy=_text(
                    "Conflict policy",
                    "The rule for conflicts. hive: as in Hive. strict: if two transactions write"
                    " one partition, only the first commits. Tables and tasks may set a different"
                    " rule",
                    *("hive", "strict"),
                ),
                engine=_text(
                    "Engine",
                    "Where jobs run if the task does not say it. auto: in the task's own process"
                    " what needs no Spark. worker: there or not at all. spark: in a Spark driver",
                    *("auto", "worker", "spark"),
                ),
                allow_unsafe_expressions=_truth(
                    "Allow unsafe expressions",
                    "Let conditions, expressions and queries call Java (reflect) and read files of"
                    " the Spark driver. Then every user who can fill a template controls the"
                    " driver",
                    default=False,
                ),
                result_dir=_text(
                    "Result directory",
                    "Directory for the results of jobs in cluster deploy mode: a URI that both the"
                    " Spark driver and the Airflow worker can reach, such as hdfs://nn/tmp/hiveacid",
                ),
            ),
            **_section(
                "Time-outs",
                connect_timeout_s=_seconds(
                    "Connect time-out",
                    "Longest wait for one server to accept a connection",
                    jobs.CONNECT_TIMEOUT_S,
                ),
                call_timeout_s=_seconds(
                    "Call time-out",
                    "Longest time for one call, until its whole answer has arrived",
                    jobs.CALL_TIMEOUT_S,
                ),
                lock_timeout_s=_seconds(
                    "Lock time-out",
                    "Longest wait for a table's locks; with 0, a job does not wait",
                    jobs.LOCK_TIMEOUT_S,
                ),
            ),
        },
    }


def _section(title: str, **fields: dict[str, Any]) -> dict[str, Any]:
    for field in fields.values():
        field["schema"]["section"] = title
    return fields


def _text(label: str, description: str, *choices: str) -> dict[str, Any]:
    """Return a field with text or, if there are choices, with one of them: by default the first."""
    chosen: dict[str, Any] = {"enum": [*choices], "default": choices[0]} if choices else {}
    # If a field's type does not allow null, Airflow's form requires the field and shows a star.
    schema = {"type": ["string", "null"], **chosen}
    return {"label": label, "description": description, "schema": schema}


def _truth(label: str, description: str, *, default: bool) -> dict[str, Any]:
    schema = {"type": ["boolean", "null"], "default": default}
    return {"label": label, "description": description, "schema": schema}


def _seconds(label: str, description: str, default: float) -> dict[str, Any]:
    schema = {"type": ["number", "null"], "minimum": 0, "default": int(default)}
    return {"label": f"{label} (s)", "description": description, "schema": schema}


def _configuration() -> dict[str, Any]:
    options = {
        "spark_bin_dir": _option(
            "Directory with the `spark-submit` that this provider's operators run, and with the"
            " `python3` that its driver runs. If empty, both are searched on PATH. Spark needs a"
            " separate environment, because the Spark provider installs pyspark-client, which"
            " overwrites parts of pyspark.",
            example="/opt/spark-venv/bin",
        ),
        "start_timeout_s": _option(
            "Longest wait, in seconds, until YARN starts the driver's container, or in client mode"
            " the application master's container. On any cluster, also the longest wait for the"
            " first executor. After this time, the application is killed, and the task fails with"
            " YARN's diagnostics of its queue.",
            type_="float",
            example="900",
            default=f"{jobs.START_TIMEOUT_S:.0f}",
        ),
        "check_before_submit": _option(
            "Whether a worker checks a job's tables in the metastore, and its own Java, before it"
            " starts Spark, and whether it plans compactions and cleans tables itself. Set to False"
            " if workers may not reach the metastore; then only Spark drivers do so.",
            type_="boolean",
            default="True",
        ),
        "installation": _option(
            "Name of this Airflow installation, which is part of each job's key. If two"
            " installations write to the same tables, give them different names, so that tasks with"
            " equal DAG, run and task IDs are different jobs. Give all workers of an installation"
            " the same name. If empty, the name is the address of the API server (`base_url` of"
            " `[api]` or `execution_api_server_url` of `[core]`), unless it is local.",
            example="production",
        ),
    }
    description = "Settings of the Hive ACID provider."
    return {"hiveacid": {"description": description, "options": options}}


def _option(
    description: str, *, type_: str = "string", example: str | None = None, default: str = ""
) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": type_,
        "example": example,
        "default": default,
    }
