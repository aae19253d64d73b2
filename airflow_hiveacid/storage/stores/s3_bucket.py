"""One bucket of S3: objects by their keys, and uploads that nobody has completed.

Takes boto3's client; gives what S3 answers, every failure as an OSError with a number. Must not
know what an object is for.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow_hiveacid.storage.stores.s3_client import content_md5
from airflow_hiveacid.storage.stores.s3_errors import (
    MISSING,
    NO_UPLOAD,
    answer_errors,
    code_of,
    s3_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from airflow_hiveacid.storage.stores.s3_client import S3Client

_MARK: Final = "hiveacid-attempt"
"""The entry of an object's metadata that says whose it is."""

_PAGE: Final = 1000
"""How many keys a list, or a deletion, has at most."""

# S3 asks whoever meets another conditional write of that name to come again.
_CONFLICT: Final = "ConditionalRequestConflict"
_CONFLICT_TRIES: Final = 4
_CONFLICT_PAUSE_S: Final = 0.5


class StoredObject(NamedTuple):
    """An object; `mark` is whose it is, where that was said and asked for.

    `modified_s` is in whole seconds: the same, whoever was asked for it.
    """

    key: str
    size_bytes: int
    modified_s: float
    tag: str = ""
    mark: str | None = None


class OpenUpload(NamedTuple):
    """An upload that was begun and neither completed nor given up; the path is the key's."""

    path: str
    upload_id: str
    begun_s: float


class Part(NamedTuple):
    """One part of an upload, as S3 acknowledged it."""

    number: int
    tag: str


class S3Bucket:
    """What is asked of one bucket."""

    def __init__(self, client: S3Client) -> None:
        self._client, self._api, self.name = client, client.api, client.bucket

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"the client of s3a://{self.name} has secrets and stays in its process")

    def errors(self, key: str) -> AbstractContextManager[None]:
        """See `s3_errors`."""
        return s3_errors(f"s3a://{self.name}/{key}", self._client.source)

    # ---- looking ---------------------------------------------------------------------------------

    def look(self, key: str) -> StoredObject | None:
        """An object, with its tag and mark; None if there is none.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        try:
            with self.errors(key):
                found = self._api.head_object(Bucket=self.name, Key=key)
        except FileNotFoundError:
            return None
        return StoredObject(
            key,
            found["ContentLength"],
            _whole_seconds(found["LastModified"]),
            found["ETag"],
            found["Metadata"].get(_MARK),
        )

    def has_any(self, prefix: str) -> bool:
        """Whether there is an object whose key begins so.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        with self.errors(prefix):
            page = self._api.list_objects_v2(Bucket=self.name, Prefix=prefix, MaxKeys=1)
        return bool(page.get("KeyCount", len(page.get("Contents", ()))))

    def below(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key begins so, by key; a call for each thousand.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        for page in self._pages("list_objects_v2", prefix):
            for item in page.get("Contents", ()):
                modified_s = _whole_seconds(item["LastModified"])
                yield StoredObject(item["Key"], item["Size"], modified_s, item.get("ETag", ""))

    def children(self, prefix: str) -> Iterator[StoredObject | str]:
        """Objects directly below a prefix that ends in a slash, and the prefixes below it.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
        for page in self._pages("list_objects_v2", prefix, Delimiter="/"):
            for item in page.get("CommonPrefixes", ()):
                yield item["Prefix"]
            for item in page.get("Contents", ()):
                yield StoredObject(item["Key"], item["Size"], _whole_seconds(item["LastModified"]))

    def uploads(self, prefix: str) -> Iterator[OpenUpload]:
        """Every open upload to a key that begins so.

        Raises:
            OSError: nobody may look, or the store did not answer.
        """
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
        """Read some bytes of an object; with a tag, of no other one that has taken its name.

        Raises:
            FileNotFoundError: it is not there.
            OSError: reading failed, or it is another one by now.
        """
        condition = {} if tag is None else {"IfMatch": tag}
        with self.errors(key):
            answer = self._api.get_object(
                Bucket=self.name, Key=key, Range=f"bytes={start}-{start + length - 1}", **condition
            )
            content: bytes = answer["Body"].read()
        return content

    def read_whole(self, key: str) -> bytes:
        """Read a small object.

        Raises:
            FileNotFoundError: it is not there.
            OSError: reading failed.
        """
        with self.errors(key):
            content: bytes = self._api.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def put(self, key: str, content: bytes, *, mark: str | None = None) -> None:
        """Make an object, whole or not at all, in place of one that is there.

        Raises:
            OSError: it cannot be made.
        """
        with self.errors(key):
            self._api.put_object(
                Bucket=self.name,
                Key=key,
                Body=content,
                ContentMD5=content_md5(content),
                Metadata=_marked(mark),
            )

    def put_once(self, key: str, content: bytes, mark: str) -> None:
        """Make an object where none is; one with this mark is ours, from a call before.

        Raises:
            FileExistsError: somebody else's is there.
            OSError: it cannot be made.
        """

        def call() -> None:
            self._api.put_object(
                Bucket=self.name,
                Key=key,
                Body=content,
                ContentMD5=content_md5(content),
                Metadata=_marked(mark),
                IfNoneMatch="*",
            )

        try:
            self._conditionally(key, call)
        except FileExistsError:
            if not self._is_marked(key, mark):
                raise

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, a thousand a call; those that are gone are no error.

        Raises:
            OSError: one cannot be deleted.
        """
        for at in range(0, len(keys), _PAGE):
            some = [{"Key": key} for key in keys[at : at + _PAGE]]
            with self.errors(keys[at]):
                answer = self._api.delete_objects(
                    Bucket=self.name, Delete={"Objects": some, "Quiet": True}
                )
                failed = [e for e in answer.get("Errors", ()) if e.get("Code") not in MISSING]
                if failed:
                    raise answer_errors()({"Error": failed[0]}, "DeleteObjects")

    def delete_marked(self, key: str, mark: str) -> None:
        """Delete an object if it has this mark; another, or none, is left alone.

        Raises:
            OSError: it cannot be deleted.
        """
        if self._is_marked(key, mark):
            self.delete([key])

    # ---- uploads ---------------------------------------------------------------------------------

    def begin_upload(self, key: str, mark: str | None) -> str:
        """Begin an upload; gives its ID. Until it is completed, nobody sees anything of it.

        Raises:
            OSError: it cannot be begun.
        """
        with self.errors(key):
            answer = self._api.create_multipart_upload(
                Bucket=self.name, Key=key, Metadata=_marked(mark)
            )
        upload_id: str = answer["UploadId"]
        return upload_id

    def send_part(self, key: str, upload_id: str, number: int, content: bytes) -> Part:
        """Send one part; S3 compares it with its digest.

        Raises:
            OSError: it did not arrive.
        """
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
        """Complete an upload: the object is there, whole. Doing it again is no error.

        An answer may have been lost, so that the upload is gone and its object there: the object's
        mark tells whether it is that of this upload's writer.

        Raises:
            FileExistsError: with `once`, somebody else's object is there.
            OSError: it was given up before, or cannot be completed.
        """

        def call() -> None:
            self._api.complete_multipart_upload(
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
        """Have an upload forgotten; one that is gone already is no error.

        Raises:
            OSError: it is still there.
        """
        with self.errors(key):
            try:
                self._api.abort_multipart_upload(Bucket=self.name, Key=key, UploadId=upload_id)
            except answer_errors() as error:
                if code_of(error) != NO_UPLOAD:
                    raise

    def _conditionally(self, key: str, call: Any) -> None:  # noqa: ANN401 - a call of boto3's
        for left in range(_CONFLICT_TRIES - 1, -1, -1):
            with self.errors(key):
                try:
                    call()
                except answer_errors() as error:
                    if code_of(error) != _CONFLICT or not left:
                        raise
                else:
                    return
            time.sleep(_CONFLICT_PAUSE_S)

    def _is_marked(self, key: str, mark: str) -> bool:
        found = self.look(key)
        return found is not None and found.mark == mark


def _marked(mark: str | None) -> dict[str, str]:
    return {} if mark is None else {_MARK: mark}


def _whole_seconds(moment: datetime) -> float:
    """A time of an object: HEAD tells no finer one, while some stores' lists do."""
    return float(int(moment.timestamp()))
