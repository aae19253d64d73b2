"""Secrets in the user's Spark settings, which Airflow's logs and pages must not show.

Input is the operator's rendered arguments. Airflow hides every value that is passed to
`mask_secret`. Without this module, Airflow and the Spark provider hide the values of only a few
names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from airflow.sdk.log import mask_secret

from airflow_hiveacid.plan.statements.source_options import suggests_secret

if TYPE_CHECKING:
    from airflow_hiveacid.operators.submission.spark_arguments import SparkArguments
    from airflow_hiveacid.operators.submission.spark_target import SparkTarget

_NOT_A_SECRET: Final = re.compile(
    # Not secret: settings whose values are only paths and key names of Kubernetes secrets.
    r"^spark\.kubernetes\.(?:driver|executor)\.secret(?:s|KeyRef)\."
    r"|(?:file|path|location|dir|provider|class|type|name|alias|enabled|length|ratio|wait"
    r"|itemKey|mechanism)s?$",
    re.IGNORECASE,
)
_TRUTHS: Final = ("true", "false")

log = logging.getLogger(__name__)


def mask_secrets(*given: object) -> None:
    """Make Airflow hide the secrets in these settings or environment variables."""
    for one in given:
        if isinstance(one, Mapping):  # the task itself reports a wrong type
            for value in _secrets(one).values():
                mask_secret(value)


def hide_given_secrets(arguments: SparkArguments, target: SparkTarget) -> None:
    """Make Airflow hide the secrets in `conf` and `env_vars`; warn of secrets that users can see.

    All users of this machine can list the arguments of `spark-submit`.
    """
    variables = _secrets(arguments.env_vars)
    settings = _secrets(arguments.conf)
    mask_secrets(arguments.conf, arguments.env_vars)
    # On YARN and Kubernetes, the Spark provider turns `env_vars` into arguments.
    shown = sorted({*settings, *(variables if target.is_asked else ())})
    if shown:
        log.warning(
            "every user of this machine can read these settings while spark-submit runs, because"
            " they are its arguments: %s. See docs/security.md for other places",
            ", ".join(shown),
        )


def _secrets(given: Mapping[str, object] | None) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in (given or {}).items()
        if value not in (None, "")
        and suggests_secret(name)
        and not _NOT_A_SECRET.search(name)
        and str(value).lower() not in _TRUTHS
    }
