"""The Spark settings of a submission to Kubernetes: the user's settings and our own.

Example:
    >>> driver_of("etl", "hiveacid-1-0123456789ab")
    'etl:hiveacid-1-0123456789ab-driver'
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.operators.submission.clusters.kubernetes import DRIVER, EXECUTOR, LABEL
from airflow_hiveacid.operators.submission.result_file import ResultFile

_SETTINGS: Final = "spark.kubernetes."
NAMESPACE: Final = f"{_SETTINGS}namespace"
_POD_NAME: Final = f"{_SETTINGS}driver.pod.name"
_UPLOADS: Final = f"{_SETTINGS}file.upload.path"
_WAITS: Final = f"{_SETTINGS}submission.waitAppCompletion"

log = logging.getLogger(__name__)


def driver_of(namespace: str, tag: str) -> str:
    """Return the ID that an attempt's driver pod will have."""
    return f"{namespace}:{_driver_name(tag)}"


def own_settings(
    given: Mapping[str, object],
    tag: str,
    *,
    namespace: str,
    result_uri: str,
    is_cluster: bool,
) -> dict[str, object]:
    """Return the Spark settings of a submission to Kubernetes: the user's settings and our own.

    Pods have the label of their attempt. We choose the name of the driver's pod from the attempt,
    so we need not read the name from the output of `spark-submit`. By default, `spark-submit`
    uploads files for the driver to a directory next to the result's directory. Spark never removes
    the uploaded files, so we remove them with the result.
    """
    settings = {**given, NAMESPACE: namespace}
    for role in (DRIVER, EXECUTOR) if is_cluster else (EXECUTOR,):
        settings[f"{_SETTINGS}{role}.label.{LABEL}"] = tag
    if not is_cluster:
        return settings
    if _POD_NAME in given:
        # With a fixed name, Kubernetes would refuse the pod while the last try's pod exists.
        log.warning("%s=%s is ignored: each pod gets a unique name", _POD_NAME, given[_POD_NAME])
    settings[_POD_NAME] = _driver_name(tag)
    settings[_WAITS] = "false"
    settings.setdefault(_UPLOADS, _for_hadoop(ResultFile(uri=result_uri).uploads))
    return settings


def _driver_name(tag: str) -> str:
    return f"{tag}-driver"


def _for_hadoop(uri: str) -> str:
    # For S3, Hadoop supports only the scheme s3a.
    return f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri
