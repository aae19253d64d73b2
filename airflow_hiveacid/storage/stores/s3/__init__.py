"""Access to S3 through boto3; uploads are completed right before a commit.

This module creates S3 clients: it chooses the endpoint, the credentials and the retry limits.
Credentials come from the same sources as in AWS tools: the environment, a file, a web identity, a
container role or an instance role.

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.hadoop_settings import JVM_KEYS

S3_BY_BOTO3: Final = "s3-boto3"
"""The type name of this file system; pyarrow adds the prefix `py::`."""

NO_KEYS: Final = (
    "no credentials are found where Python looks for them: set AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY in the environment of the driver and of the executors"
    " (spark.executorEnv.*, spark.yarn.appMasterEnv.*, a Kubernetes secret), or give them an"
    " instance profile, a web identity or a credentials file"
)
"""The message and remedy for missing credentials."""

_AWS: Final = re.compile(
    r"(?:https?://)?s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?/?"
)
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ANY_REGION: Final = "us-east-1"
# With these limits, a call takes at most five minutes if the store does not answer at all.
_CONNECT_S: Final = 10
_ANSWER_S: Final = 60
_ATTEMPTS: Final = 5
_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class S3Client:
    """boto3's client for one bucket; `source` says where its credentials come from."""

    bucket: str
    api: Any
    source: str


def open_client(bucket: str, settings: Mapping[str, str]) -> S3Client:
    """Return a bucket's client, without a request; raise ConfigurationError if it cannot be."""
    try:
        import boto3  # noqa: PLC0415 - it may be missing if no table is on S3
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"no client for s3a://{bucket}: {error}. Install the package boto3 in the drivers' and"
            " executors' environment (and in Airflow's for sensors)"
        ) from error
    try:
        session = boto3.Session()
        credentials = session.get_credentials()
        if credentials is None:
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
                # S3 servers other than AWS may not support the checksums that new clients add. Our
                # requests have Content-MD5 instead. `_say_md5` adds this header to deletions.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(
            f"no client for s3a://{bucket}: {error}. Check S3A's settings (fs.s3a.*), and the"
            " credentials that AWS's tools find in this process"
        ) from error
    api.meta.events.register("before-call.s3.DeleteObjects", _say_md5)
    return S3Client(bucket=bucket, api=api, source=str(credentials.method))


def content_md5(content: bytes) -> str:
    """Return the digest for the header Content-MD5; S3 checks this digest."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _say_md5(params: dict[str, Any], **_: object) -> None:
    # S3 requires a digest in a request that deletes several objects. Servers from before 2025
    # support only Content-MD5, and answer MissingContentMD5 to boto3's CRC32 (boto/boto3#4400).
    params["headers"]["Content-MD5"] = content_md5(params["body"])
    checksum = params["context"].get("checksum", {})
    for name in ("request_algorithm", "request_algorithm_header"):
        checksum.pop(name, None)


def endpoint_of(bucket: str, settings: Mapping[str, str]) -> str | None:
    """Return the URL of the store; None for AWS itself."""
    endpoint = setting_of(bucket, settings, "endpoint")
    if not endpoint or "://" in endpoint:
        return endpoint or None
    is_clear = (setting_of(bucket, settings, "connection.ssl.enabled") or "").lower() == "false"
    return f"{'http' if is_clear else 'https'}://{endpoint}"


def is_path_style(bucket: str, settings: Mapping[str, str]) -> bool:
    """Return True if the bucket is in the path of a request's URL, not in the host name."""
    return (setting_of(bucket, settings, "path.style.access") or "").lower() == "true"


def region_of(bucket: str, settings: Mapping[str, str]) -> str:
    """Return the region for signatures, from the setting, the endpoint or the environment."""
    match = _AWS.fullmatch(setting_of(bucket, settings, "endpoint") or "")
    region = setting_of(bucket, settings, "endpoint.region") or (match[1] if match else None)
    return region or next((os.environ[n] for n in _REGIONS if os.environ.get(n)), _ANY_REGION)


def setting_of(bucket: str, settings: Mapping[str, str], name: str) -> str | None:
    """Return an S3A setting without surrounding blanks; the bucket's setting takes precedence."""
    setting = settings.get(f"fs.s3a.bucket.{bucket}.{name}") or settings.get(f"fs.s3a.{name}")
    return setting and setting.strip()


def _no_keys(bucket: str, settings: Mapping[str, str]) -> str:
    only_jvm = (
        " (Spark has keys in fs.s3a.access.key and fs.s3a.secret.key: they stay in its JVM, because"
        " its event log would show them in clear text)"
        if JVM_KEYS in settings
        else ""
    )
    return f"no client for s3a://{bucket}: {NO_KEYS}{only_jvm}"
