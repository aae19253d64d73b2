"""Where a location lives: the file system behind a URI, and the path on it.

Takes locations as the metastore writes them (`file:/warehouse/t`, `hdfs://host/t`, plain paths);
gives a pyarrow file system and a path. Must not look at what is there.

Example:
    >>> open_location("file:/warehouse/t/p=a%2Fb")[1]
    '/warehouse/t/p=a%2Fb'
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)\Z", re.DOTALL)
# Hadoop's names of stores whose own clients pyarrow brings.
_OBJECT_STORES: Final[Mapping[str, str]] = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
}


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """Find the file system of a location and the path on it, without a trailing slash.

    The path is taken as it stands: the metastore does not escape what a URI would (Hadoop's Path),
    and partition directories carry `%2F` literally.

    Raises:
        ConfigurationError: the location is empty or relative, its scheme is unknown, or its client
            is missing.
    """
    scheme, authority, path = _split(location)
    if scheme == "file":
        return _local(), path
    if scheme in ("hdfs", "viewfs"):
        return _hadoop(scheme, authority), path
    if scheme in _OBJECT_STORES:
        fs, root = _object_store(_OBJECT_STORES[scheme], authority)
        return fs, f"{root}{path}".strip("/")
    raise ConfigurationError(
        f"location {location!r}: no file system for {scheme}://; use file, hdfs or s3"
    )


def scheme_of(location: str) -> str:
    """The scheme of a location, in lower case; `file` where it names none.

    Raises:
        ConfigurationError: the location is empty or relative.
    """
    return _split(location)[0]


def _split(location: str) -> tuple[str, str, str]:
    match = _SCHEME.match(location)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", location)
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = f"{slash}{path}"
    if not rest.startswith("/") or (scheme == "file" and authority not in ("", "localhost")):
        raise ConfigurationError(f"location {location!r} is not an absolute path or URI")
    return scheme, authority, re.sub("/{2,}", "/", rest).rstrip("/") or "/"


@functools.lru_cache(maxsize=1)
def _local() -> pafs.FileSystem:
    return pafs.LocalFileSystem()


@functools.lru_cache(maxsize=16)
def _hadoop(scheme: str, authority: str) -> pafs.FileSystem:
    host, _, port = authority.partition(":")
    try:
        # Port 0 lets libhdfs read a name service from the Hadoop configuration.
        return pafs.HadoopFileSystem(f"{scheme}://{host}" if host else "default", int(port or 0))
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"no {scheme} client for {authority or 'the default file system'}: {error}."
            " Set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)"
        ) from error


@functools.lru_cache(maxsize=16)
def _object_store(scheme: str, authority: str) -> tuple[pafs.FileSystem, str]:
    """The client of a store, and what its paths begin with: a bucket, or the container of Azure.

    Which part of the authority that is, the client says: `container@account.host` in Azure's URIs.
    """
    try:
        fs, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}")
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(f"no client for {scheme}://{authority}: {error}") from error
    return fs, root.rstrip("/")
