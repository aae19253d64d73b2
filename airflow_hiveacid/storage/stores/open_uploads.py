"""Incomplete uploads; they occupy space, although no file listing shows them.

`give_up_all` accepts any location; the other functions need a location on a store with uploads
(`traits.publishes_files`).
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hiveacid.format.records.cleaning import LeftUpload
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.traits import publishes_files


def open_uploads(location: str) -> tuple[LeftUpload, ...]:
    """Return all open uploads of all writers below a location."""
    fs, root = open_location(location)
    with storage_errors("list the uploads of", location):
        return tuple(
            LeftUpload(
                path=upload.path.removeprefix(f"{root}/"),
                upload_id=upload.upload_id,
                begun_s=upload.begun_s,
            )
            for upload in fs.handler.open_uploads(root)
        )


def give_up(location: str, uploads: Sequence[LeftUpload]) -> None:
    """Abort these uploads; ignore uploads that no longer exist."""
    fs, root = open_location(location)
    with storage_errors("abort uploads below", location):
        each_in_threads(lambda u: fs.handler.give_up(f"{root}/{u.path}", u.upload_id), uploads)


def give_up_all(location: str) -> None:
    """Abort every upload below a location; do nothing on a store without uploads."""
    if publishes_files(scheme_of(location)):
        give_up(location, open_uploads(location))
