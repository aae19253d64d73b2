"""The identity of directories: whether two locations lead to one directory, or into each other.

A location may have several spellings: symbolic links and bind mounts on a local disk, schemes of
S3, addresses of one HDFS.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import PurePosixPath

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.locations import (
    HADOOP_SCHEMES,
    LOCAL_STORE,
    S3_SCHEMES,
    locate,
    scheme_of,
)

Identity = tuple[object, ...]
"""The identity of a directory; equal for all names of the directory."""


def identities(location: str) -> tuple[Identity, ...]:
    """Return the identities of a directory and of the directories above it, the nearest first.

    HDFS is identified by its scheme alone, because one name node has several addresses. So two
    directories on different clusters with equal paths count as one. Mounts of viewfs are unknown.
    """
    try:
        store, path = locate(location)
    except ConfigurationError:  # a store without a client, or a table without files
        return (("other", location.rstrip("/")),)
    path = posixpath.normpath(path)
    scheme = scheme_of(location)
    kind = next((min(group) for group in (HADOOP_SCHEMES, S3_SCHEMES) if scheme in group), store)
    if store != LOCAL_STORE:
        return tuple((kind, place) for place in (path, *_above(path)))
    # A link may lead into a directory that is not above the link itself.
    places = (path, *_above(path), *_above(_resolved(path)))
    return tuple(dict.fromkeys(map(_on_disk, places)))


def _above(path: str) -> list[str]:
    return [str(place) for place in PurePosixPath(path).parents if str(place) not in ("/", ".")]


def _on_disk(path: str) -> Identity:
    try:
        status = os.stat(path)  # noqa: PTH116 - the path may be one of another machine
    except (OSError, ValueError):
        return (LOCAL_STORE, _resolved(path))
    return (LOCAL_STORE, status.st_dev, status.st_ino)


def _resolved(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # such as a path with a NUL character, which another client wrote
        return path
