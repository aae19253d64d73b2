"""The requests to one S3 bucket, for objects and uploads; failures are OSErrors with an errno.

Errors are mapped by S3's codes and botocore's classes, never by message. `storage_errors` converts
each errno to one of our error classes. Only temporary failures can be retried.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_hiveacid.storage.stores.s3 import NO_KEYS, S3Client, content_md5

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


_MARK: Final = "hiveacid-attempt"
"""The entry of an object's metadata that identifies its writer."""

_PAGE: Final = 1000
"""The maximum number of keys in a page of a listing, or in a deletion."""

# S3's error code if another conditional write to the same key is in progress; try again.
_CONFLICT: Final = "ConditionalRequestConflict"
_CONFLICT_TRIES: Final = 4
_CONFLICT_PAUSE_S: Final = 0.5


class StoredObject(NamedTuple):
    """An object in the bucket.

    `mark` identifies its writer; None if it has none, or it was not read. `modified_s` is in whole
    seconds, as in HEAD requests.
    """

    key: str
    size_bytes: int
    modified_s: float
    tag: str = ""
    mark: str | None = None


class OpenUpload(NamedTuple):
    """An upload that is neither completed nor aborted; `path` is the path of its object."""

    path: str
    upload_id: str
    begun_s: float


class Part(NamedTuple):
    """One part of an upload, as S3 acknowledged it."""

    number: int
    tag: str


class S3Bucket:
    """The client of one bucket."""

    def __init__(self, client: S3Client) -> None:
        self._client, self._api, self.name = client, client.api, client.bucket

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"the client of s3a://{self.name} has secrets and must stay in its process")

    def errors(self, key: str) -> AbstractContextManager[None]:
        """Return `s3_errors` for a key of this bucket."""
        return s3_errors(f"s3a://{self.name}/{key}", self._client.source)

    # ---- looking ---------------------------------------------------------------------------------

    def look(self, key: str) -> StoredObject | None:
        """Return an object's metadata with tag and mark; None if the object does not exist."""
        try:
            with self.errors(key):
                answer = self._api.head_object(Bucket=self.name, Key=key)
        except FileNotFoundError:
            return None
        return StoredObject(
            key,
            answer["ContentLength"],
            _whole_seconds(answer["LastModified"]),
            answer["ETag"],
            answer["Metadata"].get(_MARK),
        )

    def has_any(self, prefix: str) -> bool:
        """Return True if an object has this key prefix."""
        with self.errors(prefix):
            page = self._api.list_objects_v2(Bucket=self.name, Prefix=prefix, MaxKeys=1)
        return bool(page.get("KeyCount", len(page.get("Contents", ()))))

    def below(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects with this key prefix, sorted by key; one request returns 1,000 objects."""
        for page in self._pages("list_objects_v2", prefix):
            for item in page.get("Contents", ()):
                modified_s = _whole_seconds(item["LastModified"])
                yield StoredObject(item["Key"], item["Size"], modified_s, item.get("ETag", ""))

    def children(self, prefix: str) -> Iterator[StoredObject | str]:
        """Yield the objects and the subdirectories (as prefixes) directly below a prefix."""
        for page in self._pages("list_objects_v2", prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", ()):
                yield item["Prefix"]
            for item in page.get("Contents", ()):
                yield StoredObject(item["Key"], item["Size"], _whole_seconds(item["LastModified"]))

    def uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Yield every open upload whose key has this prefix."""
        for page in self._pages("list_multipart_uploads", prefix):
            for item in page.get("Uploads", ()):
                yield OpenUpload(item["Key"], item["UploadId"], item["Initiated"].timestamp())

    def _pages(self, call: str, prefix: str, **more: str) -> Iterator[Mapping[str, Any]]:
        with self.errors(prefix):
            pages = self._api.get_paginator(call)
            yield from pages.paginate(
                Bucket=self.name, Prefix=prefix, PaginationConfig={"PageSize": _PAGE}, **more
            )

    # ---- objects ---------------------------------------------------------------------------------

    def read(self, key: str, start: int, length: int, tag: str | None = None) -> bytes:
        """Read a range of an object's bytes; with a tag, fail if the object was replaced."""
        condition = {} if tag is None else {"IfMatch": tag}
        with self.errors(key):
            answer = self._api.get_object(
                Bucket=self.name, Key=key, Range=f"bytes={start}-{start + length - 1}", **condition
            )
            content: bytes = answer["Body"].read()
        return content

    def read_whole(self, key: str) -> bytes:
        """Read a small object."""
        with self.errors(key):
            content: bytes = self._api.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def put(self, key: str, content: bytes, *, mark: str | None = None) -> None:
        """Create or replace an object; it appears whole or not at all."""
        with self.errors(key):
            self._put(key, content, mark)

    def put_once(self, key: str, content: bytes, mark: str) -> None:
        """Create an object, unless it has this mark; raise FileExistsError if it has another."""
        try:
            self._conditionally(key, partial(self._put, key, content, mark, IfNoneMatch="*"))
        except FileExistsError:
            if not self._is_marked(key, mark):
                raise

    def _put(self, key: str, content: bytes, mark: str | None, **condition: str) -> None:
        self._api.put_object(
            Bucket=self.name,
            Key=key,
            Body=content,
            ContentMD5=content_md5(content),
            Metadata=_marked(mark),
            **condition,
        )

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, a thousand per request; ignore missing objects."""
        for start in range(0, len(keys), _PAGE):
            some = [{"Key": key} for key in keys[start : start + _PAGE]]
            with self.errors(keys[start]):
                answer = self._api.delete_objects(
                    Bucket=self.name, Delete={"Objects": some, "Quiet": True}
                )
                failed = [e for e in answer.get("Errors", ()) if e.get("Code") not in MISSING]
                if failed:
                    raise answer_errors()({"Error": failed[0]}, "DeleteObjects")

    def delete_marked(self, key: str, mark: str) -> None:
        """Delete an object if it has this mark; otherwise do nothing."""
        if self._is_marked(key, mark):
            self.delete([key])

    # ---- uploads ---------------------------------------------------------------------------------

    def begin_upload(self, key: str, mark: str | None) -> str:
        """Begin an upload; return its ID. The object is invisible until `complete`."""
        with self.errors(key):
            answer = self._api.create_multipart_upload(
                Bucket=self.name, Key=key, Metadata=_marked(mark)
            )
        upload_id: str = answer["UploadId"]
        return upload_id

    def send_part(self, key: str, upload_id: str, number: int, content: bytes) -> Part:
        """Send one part of an upload with a digest; S3 checks the digest."""
        with self.errors(key):
            answer = self._api.upload_part(
                Bucket=self.name,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                Body=content,
                ContentMD5=content_md5(content),
            )
        return Part(number, answer["ETag"])

    def complete(
        self, key: str, upload_id: str, parts: Sequence[Part], *, mark: str | None, once: bool
    ) -> None:
        """Complete an upload, so that the object appears whole. A second call does nothing.

        If S3's answer to an earlier call was lost, the upload no longer exists, but its object
        does. The object's mark then shows whether the writer of this upload created the object.
        Raises FileExistsError if, with `once`, an object of another writer exists. Raises OSError
        if the upload was aborted earlier, or cannot be completed.
        """
        call = partial(
            self._api.complete_multipart_upload,
            Bucket=self.name,
            Key=key,
            UploadId=upload_id,
            MultipartUpload={
                "Parts": [{"PartNumber": part.number, "ETag": part.tag} for part in parts]
            },
            **({"IfNoneMatch": "*"} if once else {}),
        )
        try:
            self._conditionally(key, call)
        except OSError:
            if mark is None or not self._is_marked(key, mark):
                raise

    def give_up(self, key: str, upload_id: str) -> None:
        """Abort an upload, if it still exists."""
        with self.errors(key):
            try:
                self._api.abort_multipart_upload(Bucket=self.name, Key=key, UploadId=upload_id)
            except answer_errors() as error:
                if code_of(error) != NO_UPLOAD:
                    raise

    def _conditionally(self, key: str, call: Any) -> None:  # noqa: ANN401 - a call of boto3's
        for retries in range(_CONFLICT_TRIES - 1, -1, -1):
            with self.errors(key):
                try:
                    call()
                except answer_errors() as error:
                    if code_of(error) != _CONFLICT or not retries:
                        raise
                else:
                    return
            time.sleep(_CONFLICT_PAUSE_S)

    def _is_marked(self, key: str, mark: str) -> bool:
        stored_object = self.look(key)
        return stored_object is not None and stored_object.mark == mark


def _marked(mark: str | None) -> dict[str, str]:
    return {} if mark is None else {_MARK: mark}


def _whole_seconds(moment: datetime) -> float:
    """Round a time down to seconds, as in answers to HEAD; some stores list more precise times."""
    return float(int(moment.timestamp()))
