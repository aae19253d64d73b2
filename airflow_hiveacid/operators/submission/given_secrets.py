"""Secrets among the user's settings of Spark, which Airflow's logs must not show.

Input is the operator's rendered arguments. Airflow hides what `mask_secret` has been told. The
Spark provider hides the values of a few names in the command that it logs, but not all.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from airflow.sdk.log import mask_secret

from airflow_hiveacid.plan.source_options import suggests_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.operators.submission.spark_arguments import SparkArguments
    from airflow_hiveacid.operators.submission.spark_target import SparkTarget

_NOT_A_SECRET: Final = re.compile(
    r"(?:file|path|location|dir|provider|class|type|name|alias|enabled)s?$", re.IGNORECASE
)
_TRUTHS: Final = ("true", "false")

log = logging.getLogger(__name__)


def hide_given_secrets(arguments: SparkArguments, target: SparkTarget) -> None:
    """Have Airflow hide the secrets in `conf` and `env_vars`, and warn of those that users can see.

    All users of this machine can list the arguments of `spark-submit`.
    """
    variables = _secrets(arguments.env_vars)
    settings = _secrets(arguments.conf)
    for value in (*settings.values(), *variables.values()):
        mask_secret(value)
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
        if suggests_secret(name)
        and not _NOT_A_SECRET.search(name)
        and str(value).lower() not in _TRUTHS
    }
