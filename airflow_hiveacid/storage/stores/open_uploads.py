"""Uploads that nobody has completed: no listing of files tells of them, and they cost space.

Takes a location on a store that knows uploads (`traits.publishes_files`); `give_up_all` any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.plan.cleaning import LeftUpload
from airflow_hiveacid.storage.stores.filesystem import storage_errors
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.stores.traits import publishes_files

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_uploads(location: str) -> tuple[LeftUpload, ...]:
    """All of them below a location, whoever began them.

    Raises:
        LocationPermissionError: they may not be listed.
        StorageError: listing failed otherwise.
    """
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
    """Have uploads forgotten; those that are gone already are no error.

    Raises:
        LocationPermissionError: they may not be given up.
        StorageError: one is still there.
    """
    fs, root = open_location(location)
    with storage_errors("give up uploads below", location):
        each_in_threads(lambda u: fs.handler.give_up(f"{root}/{u.path}", u.upload_id), uploads)


def give_up_all(location: str) -> None:
    """Have every upload below a location forgotten; where a store knows none, there is none.

    Raises:
        LocationPermissionError: they may not be listed, or given up.
        StorageError: one is still there.
    """
    if publishes_files(scheme_of(location)):
        give_up(location, open_uploads(location))
