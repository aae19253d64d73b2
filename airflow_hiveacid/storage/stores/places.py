"""The identity of directories: whether two locations lead to one directory, or into each other.

The module takes locations, and returns identities to compare. A location may have several
spellings: symbolic links and bind mounts on a local disk, schemes of S3, addresses of one HDFS. The
module must not depend on the content of directories.
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
    kind = next((min(known) for known in (HADOOP_SCHEMES, S3_SCHEMES) if scheme in known), store)
    paths = [path, *(str(p) for p in PurePosixPath(path).parents if str(p) not in ("/", "."))]
    return tuple(_on_disk(p) if store == LOCAL_STORE else (kind, p) for p in paths)


def _on_disk(path: str) -> Identity:
    try:
        found = os.stat(path)  # noqa: PTH116 - the path may be one of another machine
    except (OSError, ValueError):
        return (LOCAL_STORE, os.path.realpath(path))
    return (LOCAL_STORE, found.st_dev, found.st_ino)
