"""The arguments of the Spark provider's hook as one value.

An operator has these arguments in its attributes. A submission changes a copy of the arguments,
because `SparkArguments` is frozen.

Example:
    >>> arguments = SparkArguments(conn_id="spark_default", env_vars={"TOKEN": "secret"})
    >>> "secret" in repr(arguments), arguments.as_keywords()["conn_id"]
    (False, 'spark_default')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from requests.auth import AuthBase


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkArguments:
    """Arguments for `SparkSubmitHook`, with the hook's names and meanings.

    The `repr` leaves out values that may be secret.
    """

    conn_id: str
    conf: Mapping[str, Any] | None = field(default=None, repr=False)
    files: str | None = None
    py_files: str | None = None
    archives: str | None = None
    driver_class_path: str | None = None
    jars: str | None = None
    java_class: str | None = None
    packages: str | None = None
    exclude_packages: str | None = None
    repositories: str | None = None
    total_executor_cores: int | str | None = None
    executor_cores: int | str | None = None
    executor_memory: str | None = None
    driver_memory: str | None = None
    keytab: str | None = None
    principal: str | None = None
    proxy_user: str | None = None
    name: str = ""
    num_executors: int | str | None = None
    status_poll_interval: int = 1
    application_args: Sequence[Any] | None = field(default=None, repr=False)
    env_vars: Mapping[str, Any] | None = field(default=None, repr=False)
    verbose: bool = False
    spark_binary: str | None = None
    properties_file: str | None = None
    yarn_queue: str | None = None
    deploy_mode: str | None = None
    use_krb5ccache: bool = False
    post_submit_commands: Sequence[str] | None = field(default=None, repr=False)
    track_driver_via_k8s_api: bool = False
    yarn_track_via_rm_api: bool = False
    yarn_rm_auth: AuthBase | None = field(default=None, repr=False)

    def as_keywords(self) -> dict[str, Any]:
        """Return the keyword arguments with which the hook is created."""
        return {argument.name: getattr(self, argument.name) for argument in fields(self)}
