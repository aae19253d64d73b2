"""Convert S3's errors to OSErrors with an errno, the store, the credentials and a remedy.

Errors are mapped by S3's codes and botocore's classes, never by message. `storage_errors` converts
each errno to one of our error classes. Only temporary failures can be retried.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.s3.client import NO_KEYS

if TYPE_CHECKING:
    from botocore import exceptions as boto

MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})
"""S3's codes for an object that does not exist."""

TAKEN: Final = frozenset({"412", "PreconditionFailed"})
"""S3's codes for an object that already exists."""

NO_UPLOAD: Final = "NoSuchUpload"
"""S3's code for an upload that was already completed or aborted."""

_RIGHTS: Final = (
    "Those credentials need s3:GetObject, PutObject, DeleteObject, AbortMultipartUpload and"
    " ListMultipartUploadParts on the objects, ListBucket and ListBucketMultipartUploads on the"
    " bucket; to read, GetObject and ListBucket are enough"
)
_KEYS: Final = "Give this process valid keys or another source of credentials"
_RENEW: Final = "The temporary credentials have expired: renew them and try again"
_BUSY: Final = "The store is overloaded, or has a temporary fault; try again later"
_GIVEN_UP: Final = (
    "The upload was aborted meanwhile by a cleaning, by another compaction, or by the bucket's rule"
    " AbortIncompleteMultipartUpload. Run the job again"
)
_SILENT: Final = (
    "S3 gives no reason. If temporary credentials have expired, renew them and try again. If not,"
    " check that fs.s3a.endpoint.region is the bucket's region"
)
_OR_KEYS: Final = (
    "Or the credentials are invalid, or this machine's clock is wrong: S3 does not say which"
)
# An answer to HEAD has no body, so only the HTTP status is known (HADOOP-18353).
_NUMBERS: Final[Mapping[str, tuple[int, str]]] = {
    "301": (errno.ENXIO, "Set fs.s3a.endpoint.region to the bucket's region"),
    "400": (errno.EAGAIN, _SILENT),
    "403": (errno.EACCES, f"{_RIGHTS}. {_OR_KEYS}"),
    "AccessDenied": (errno.EACCES, _RIGHTS),
    "AllAccessDisabled": (errno.EACCES, _RIGHTS),
    "MethodNotAllowed": (errno.EACCES, _RIGHTS),
    "InvalidAccessKeyId": (errno.EACCES, _KEYS),
    "SignatureDoesNotMatch": (errno.EACCES, _KEYS),
    "InvalidToken": (errno.EACCES, _KEYS),
    "ExpiredToken": (errno.EAGAIN, _RENEW),
    "ExpiredTokenException": (errno.EAGAIN, _RENEW),
    "RequestTimeTooSkewed": (errno.EAGAIN, "Correct this machine's clock"),
    "NoSuchBucket": (
        errno.ENXIO,
        "The bucket does not exist at this endpoint: check bucket and endpoint",
    ),
    "PermanentRedirect": (errno.ENXIO, "Set fs.s3a.endpoint.region to the bucket's region"),
    "AuthorizationHeaderMalformed": (errno.ENXIO, "Set fs.s3a.endpoint.region correctly"),
    NO_UPLOAD: (errno.EAGAIN, _GIVEN_UP),
    "NotImplemented": (
        errno.ENOTSUP,
        "The server must support conditional writes (If-None-Match) and multipart uploads",
    ),
    "ConditionalRequestConflict": (errno.EAGAIN, _BUSY),
    "InternalError": (errno.EAGAIN, _BUSY),
    "OperationAborted": (errno.EAGAIN, _BUSY),
    "RequestTimeout": (errno.EAGAIN, _BUSY),
    "ServiceUnavailable": (errno.EAGAIN, _BUSY),
    "SlowDown": (errno.EAGAIN, _BUSY),
    "Throttling": (errno.EAGAIN, _BUSY),
    "ThrottlingException": (errno.EAGAIN, _BUSY),
    "TooManyRequestsException": (errno.EAGAIN, _BUSY),
}
_PASSING: Final = frozenset({408, 409, 429, 500, 502, 503, 504})


def answer_errors() -> type[boto.ClientError]:
    """Return the exception of boto3, which may not be installed, for an error response."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    return ClientError  # type: ignore[no-any-return] # botocore has no types


def code_of(error: boto.ClientError) -> str:
    """Return S3's error code in an error response."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def s3_errors(path: str, source: str) -> Iterator[None]:
    """Turn botocore's exceptions inside the block into OSErrors with an errno.

    `path` is the object's URI, `source` that of the credentials. Raises FileNotFoundError,
    FileExistsError, or else an OSError whose error number shows whether a retry may help.
    """
    from botocore import exceptions as boto  # noqa: PLC0415 - see `answer_errors`

    try:
        yield
    except boto.ClientError as error:
        raise _of_answer(error, path, source) from error
    except (boto.NoCredentialsError, boto.PartialCredentialsError) as error:
        raise PermissionError(errno.EACCES, NO_KEYS, path) from error
    except boto.CredentialRetrievalError as error:
        text = f"credentials cannot be fetched now ({source}): {error}"
        raise OSError(errno.EAGAIN, text, path) from error
    except (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError) as error:
        text = f"{_one_line(error)}. Check fs.s3a.endpoint, and that the store is running"
        raise OSError(errno.ETIMEDOUT, text, path) from error
    except (boto.BotoCoreError, ValueError) as error:
        text = f"{_one_line(error)} (credentials: {source})"
        raise OSError(errno.EIO, text, path) from error


def _of_answer(error: boto.ClientError, path: str, source: str) -> OSError:
    code, status = code_of(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    said = f"S3 answered {code} to {error.operation_name} (credentials: {source})"
    if code in MISSING:
        return FileNotFoundError(errno.ENOENT, said, path)
    if code in TAKEN:
        return FileExistsError(errno.EEXIST, said, path)
    entry = _NUMBERS.get(code)
    if entry is None and status in _PASSING:
        entry = (errno.EAGAIN, _BUSY)
    number, remedy = entry or (errno.EIO, _one_line(error))
    return OSError(number, f"{said}. {remedy}", path)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
