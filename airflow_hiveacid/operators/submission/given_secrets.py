"""Secrets in the user's Spark settings, which Airflow's logs and pages must not show.

A setting is a secret if its name suggests it, or if its value is a URL with a password. The
operator calls `mask_secrets` as soon as it has rendered its templates, because Airflow and the
Spark provider hide the values of only a few names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Final

from airflow.sdk.log import mask_secret

from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.plan.statements.source_options import suggests_secret

_NOT_A_SECRET: Final = re.compile(
    # Not secret: settings whose values are only paths and key names of Kubernetes secrets.
    r"^spark\.kubernetes\.(?:driver|executor)\.secret(?:s|KeyRef)\."
    r"|(?:file|path|location|dir|provider|class|type|name|alias|enabled|length|ratio|wait"
    r"|itemKey|mechanism)s?$",
    re.IGNORECASE,
)
_LOGIN_HEADER: Final = re.compile(r"(?:authorization|bearer|cookie)$", re.IGNORECASE)
"""The ends of names of HTTP headers with a login, such as OpenLineage's transport may have."""
_PASSWORD_IN_URL: Final = re.compile(r"://[^/@:\s]*:([^/@\s]+)@")
_TRUTHS: Final = ("true", "false")

log = logging.getLogger(__name__)


def mask_secrets(*given: object) -> None:
    """Make Airflow hide the secrets in these settings or environment variables."""
    for settings in given:
        if isinstance(settings, Mapping):  # a wrong type is an error that the task reports
            for _, secret in _secrets(settings):
                # Airflow hides a secret with several lines only if one message has all of them.
                mask_secret(keep_secret(secret))


def hide_given_secrets(arguments: SparkArguments, target: SparkTarget) -> bool:
    """Have Airflow hide secrets in arguments, and warn of those that other users can see.

    Return true if there are secrets. All users of this machine can list the arguments of
    `spark-submit`.
    """
    settings = {**(arguments.conf or {}), "repositories": arguments.repositories}
    variables = arguments.env_vars or {}
    mask_secrets(settings, variables)
    # On YARN and Kubernetes, the Spark provider turns `env_vars` into arguments.
    in_arguments = {**settings, **(variables if target.is_asked else {})}
    shown = sorted({name for name, _ in _secrets(in_arguments)})
    if shown:
        log.warning(
            "every user of this machine can read these settings while spark-submit runs, because"
            " they are its arguments: %s. See docs/operations/secrets.md for other places",
            ", ".join(shown),
        )
    return any(_secrets({**settings, **variables}))


def _secrets(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the name of a setting with each secret in its value."""
    for name, value in given.items():
        text = "" if value is None else str(value)
        if _is_secret(name) and text and text.lower() not in _TRUTHS:
            yield name, text
        else:
            yield from ((name, password) for password in _PASSWORD_IN_URL.findall(text))


def _is_secret(name: str) -> bool:
    is_suspect = suggests_secret(name) or _LOGIN_HEADER.search(name) is not None
    return is_suspect and _NOT_A_SECRET.search(name) is None
