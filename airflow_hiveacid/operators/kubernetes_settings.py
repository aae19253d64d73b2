"""Spark's settings of a submission to Kubernetes: what we have to have there.

Example:
    >>> driver_of("etl", "hiveacid-1-0123456789ab")
    'etl:hiveacid-1-0123456789ab-driver'
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.operators.kubernetes import DRIVER, EXECUTOR, LABEL
from airflow_hiveacid.operators.result_file import ResultFile

if TYPE_CHECKING:
    from collections.abc import Mapping

_SETTINGS: Final = "spark.kubernetes."
NAMESPACE: Final = f"{_SETTINGS}namespace"
_POD_NAME: Final = f"{_SETTINGS}driver.pod.name"
_UPLOADS: Final = f"{_SETTINGS}file.upload.path"
_WAITS: Final = f"{_SETTINGS}submission.waitAppCompletion"

log = logging.getLogger(__name__)


def driver_of(namespace: str, tag: str) -> str:
    """The ID of the driver's pod of an attempt, known before anybody has submitted it."""
    return f"{namespace}:{_driver_name(tag)}"


def own_settings(
    given: Mapping[str, object],
    tag: str,
    *,
    namespace: str,
    result_uri: str,
    is_cluster: bool,
) -> dict[str, object]:
    """Spark's settings of a submission, with what we have to have on Kubernetes.

    Pods have the label of their attempt. A driver in the cluster is called by it, so that nobody
    has to read its name in the output of `spark-submit`; what is uploaded for it goes beside its
    result, unless told otherwise, and is removed with that: Spark itself removes nothing.
    """
    settings = {**given, NAMESPACE: namespace}
    for role in (DRIVER, EXECUTOR) if is_cluster else (EXECUTOR,):
        settings[f"{_SETTINGS}{role}.label.{LABEL}"] = tag
    if not is_cluster:
        return settings
    if _POD_NAME in given:
        # A name that is always the same is refused while the pod of the last try is there.
        log.warning("%s=%s is not used: pods have names of their own", _POD_NAME, given[_POD_NAME])
    settings[_POD_NAME] = _driver_name(tag)
    settings[_WAITS] = "false"
    settings.setdefault(_UPLOADS, _for_hadoop(ResultFile(uri=result_uri).uploads))
    return settings


def _driver_name(tag: str) -> str:
    return f"{tag}-driver"


def _for_hadoop(uri: str) -> str:
    # Hadoop knows S3 by this name alone.
    return f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri
