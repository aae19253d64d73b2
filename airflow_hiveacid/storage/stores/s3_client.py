"""How a client of S3 is made: where it goes, with whose credentials, and how long it tries.

Takes a bucket and Hadoop's settings of S3A (`given_settings`); gives boto3's client. Credentials
come from where AWS's own tools look in this process: the environment, a file, a web identity, a
container's or an instance's role. They never travel with a plan.

A client stays in its process: it has connections and secrets.

Example:
    >>> own = {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}
    >>> endpoint_of("lake", own), endpoint_of("lake", {})
    ('http://minio:9000', None)
    >>> region_of("lake", {"fs.s3a.endpoint": "https://s3.eu-west-1.amazonaws.com"})
    'eu-west-1'
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.given_settings import JVM_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

S3_BY_BOTO3: Final = "s3-boto3"
"""What pyarrow calls the type of this file system, behind `py::`."""

NO_KEYS: Final = (
    "no credentials are found where Python looks for them: set AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY in the environment of the driver and of the executors"
    " (spark.executorEnv.*, spark.yarn.appMasterEnv.*, a Kubernetes secret), or give them an"
    " instance profile, a web identity or a credentials file"
)
"""What to do where there are none."""

_AWS: Final = re.compile(
    r"(?:https?://)?s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?/?"
)
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ANY_REGION: Final = "us-east-1"
# Together with the attempts they bound a call: five minutes where nobody answers at all.
_CONNECT_S: Final = 10
_ANSWER_S: Final = 60
_ATTEMPTS: Final = 5
_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class S3Client:
    """boto3's client of one bucket; `source` says where its credentials come from."""

    bucket: str
    api: Any
    source: str


def open_client(bucket: str, settings: Mapping[str, str]) -> S3Client:
    """The client of a bucket. Nobody is asked anything yet.

    Raises:
        ConfigurationError: boto3 is missing, there are no credentials, or a setting is wrong.
    """
    try:
        import boto3  # noqa: PLC0415 - where no table lies on S3, it need not be there
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"no client for s3a://{bucket}: {error}. It is the package boto3, in the drivers' and"
            " executors' environment (and in Airflow's for sensors)"
        ) from error
    try:
        session = boto3.Session()
        found = session.get_credentials()
        if found is None:
            raise ConfigurationError(_no_keys(bucket, settings))
        api = session.client(
            "s3",
            endpoint_url=endpoint_of(bucket, settings),
            region_name=region_of(bucket, settings),
            config=Config(
                connect_timeout=_CONNECT_S,
                read_timeout=_ANSWER_S,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                max_pool_connections=_CONNECTIONS,
                s3={"addressing_style": "path" if is_path_style(bucket, settings) else "auto"},
                # Servers that are not AWS's may not know the checksums that new clients add; ours
                # say Content-MD5, deletions as `_say_md5` has it.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(
            f"no client for s3a://{bucket}: {error}. Its settings are those of S3A (fs.s3a.*), its"
            " credentials those that AWS's tools find in this process"
        ) from error
    api.meta.events.register("before-call.s3.DeleteObjects", _say_md5)
    return S3Client(bucket=bucket, api=api, source=str(found.method))


def content_md5(content: bytes) -> str:
    """The digest by which S3 sees that all has arrived, as its header Content-MD5 says it."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _say_md5(params: dict[str, Any], **_: object) -> None:
    """Give a request the digest that every S3 knows, in place of the checksum of new clients.

    S3 takes no deletion of several objects without one. By AWS either will do (DeleteObjects in its
    reference); servers of before 2025 know Content-MD5 alone, and answer MissingContentMD5 to
    boto3's CRC32 (boto/boto3#4400).
    """
    params["headers"]["Content-MD5"] = content_md5(params["body"])
    checksum = params["context"].get("checksum", {})
    for name in ("request_algorithm", "request_algorithm_header"):
        checksum.pop(name, None)


def endpoint_of(bucket: str, settings: Mapping[str, str]) -> str | None:
    """Where the store is, as a URL; None for AWS itself."""
    endpoint = setting_of(bucket, settings, "endpoint")
    if not endpoint or "://" in endpoint:
        return endpoint or None
    is_clear = (setting_of(bucket, settings, "connection.ssl.enabled") or "").lower() == "false"
    return f"{'http' if is_clear else 'https'}://{endpoint}"


def is_path_style(bucket: str, settings: Mapping[str, str]) -> bool:
    """Whether a bucket's name is in the path of a request rather than in the host's name."""
    return (setting_of(bucket, settings, "path.style.access") or "").lower() == "true"


def region_of(bucket: str, settings: Mapping[str, str]) -> str:
    """The region that requests are signed for: the setting's, the endpoint's, the environment's."""
    match = _AWS.fullmatch(setting_of(bucket, settings, "endpoint") or "")
    named = setting_of(bucket, settings, "endpoint.region") or (match[1] if match else None)
    return named or next((os.environ[n] for n in _REGIONS if os.environ.get(n)), _ANY_REGION)


def setting_of(bucket: str, settings: Mapping[str, str], name: str) -> str | None:
    """A setting of S3A: the bucket's own before that of all, trimmed as Hadoop trims it."""
    found = settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}")
    return found and found.strip()


def _no_keys(bucket: str, settings: Mapping[str, str]) -> str:
    only_jvm = (
        " (Spark has keys in fs.s3a.access.key and fs.s3a.secret.key: they stay in its JVM, since"
        " they would be in clear in its event log)"
        if JVM_KEYS in settings
        else ""
    )
    return f"no client for s3a://{bucket}: {NO_KEYS}{only_jvm}"
