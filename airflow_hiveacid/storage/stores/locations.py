"""Where a location lives: its store, the client of that, and the path on it.

Takes locations as the metastore writes them (`file:/warehouse/t`, `hdfs://host/t`, plain paths);
gives a store, which is a text that plans and tasks may carry, and a path; or the pyarrow file
system of a store, which stays in its process: it has connections, and may have secrets. Must not
look at what is there.

Example:
    >>> locate("hdfs://nn:8020/warehouse/t/p=a%2Fb")
    ('hdfs://nn:8020', '/warehouse/t/p=a%2Fb')
    >>> open_location("file:/warehouse/t")[1]
    '/warehouse/t'
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.given_settings import (
    VARIABLE,
    given_settings,
    without_observers,
)
from airflow_hiveacid.storage.stores.hdfs_connect import open_hdfs
from airflow_hiveacid.storage.stores.s3_client import open_client
from airflow_hiveacid.storage.stores.token_file import VARIABLE as TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)\Z", re.DOTALL)
HADOOP_SCHEMES: Final = frozenset({"hdfs", "viewfs"})
"""What Hadoop's own file systems are called in locations."""

S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
"""What S3 is called in locations."""

# Hadoop's names of stores whose own clients pyarrow brings; of these nothing is asked but to read.
_OBJECT_STORES: Final[Mapping[str, str]] = {
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
}


_S3: Final = "s3"

LOCAL_STORE: Final = "file://"
"""The store of this machine's own files."""


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """Find the file system of a location and the path on it, as `locate` does.

    Raises:
        ConfigurationError: the location is empty or relative, its scheme is unknown, or its client
            is missing.
    """
    store, path = locate(location)
    return client_of(store), path


def locate(location: str) -> tuple[str, str]:
    """Find the store of a location, for `client_of`, and the path there; no slash is at its end.

    The path is taken as it stands: the metastore does not escape what a URI would (Hadoop's Path),
    and partition directories carry `%2F` literally.

    Raises:
        ConfigurationError: as `open_location`.
    """
    scheme, authority, path = _split(location)
    if scheme == "file":
        return LOCAL_STORE, path
    if scheme in HADOOP_SCHEMES:
        return f"{scheme}://{authority}", path
    if scheme in S3_SCHEMES:
        return f"{_S3}://{authority}", f"{authority}{path}".rstrip("/")
    if scheme in _OBJECT_STORES:
        scheme = _OBJECT_STORES[scheme]
        _, root = _object_store(scheme, authority)
        return f"{scheme}://{authority}", f"{root}{path}".strip("/")
    raise ConfigurationError(
        f"location {location!r}: no file system for {scheme}://; use file, hdfs or s3"
    )


def client_of(store: str) -> pafs.FileSystem:
    """The client of a store; each process has its own, and no more than one.

    Raises:
        ConfigurationError: it is missing.
    """
    if store == LOCAL_STORE:
        return _local()
    scheme, _, authority = store.partition("://")
    if scheme in HADOOP_SCHEMES:
        given, tokens = os.environ.get(VARIABLE), os.environ.get(TOKENS)
        return _hadoop(scheme, authority, os.getpid(), given, tokens)
    if scheme == _S3:
        return _s3(authority, os.getpid(), os.environ.get(VARIABLE))
    return _object_store(scheme, authority)[0]


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
def _hadoop(
    scheme: str,
    authority: str,
    process_id: int,  # noqa: ARG001 - a forked process has none of the threads of its parent's
    given: str | None,  # noqa: ARG001 - settings that came later are another client's
    tokens: str | None,  # noqa: ARG001 - and so are tokens, since these go by the address
) -> pafs.FileSystem:
    """By hdfs-native where it is installed, which needs no JVM; else by libhdfs."""
    if importlib.util.find_spec("hdfs_native") is not None:
        return open_hdfs(scheme, authority)
    host, _, port = authority.partition(":")
    place = f"{scheme}://{host}" if host else "default"
    active = without_observers(given_settings())
    try:
        # Port 0 lets libhdfs read a name service from the Hadoop configuration.
        return pafs.HadoopFileSystem(
            place, int(port or 0), **({"extra_conf": active} if active else {})
        )
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"no {scheme} client for {authority or 'the default file system'}. Install the package"
            " hdfs-native, in the drivers' and executors' environment (and in Airflow's for"
            " sensors); or, for libhdfs, set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath"
            f" --glob), of which Arrow says: {error}"
        ) from error


@functools.lru_cache(maxsize=16)
def _s3(
    bucket: str,
    process_id: int,  # noqa: ARG001 - a forked process must not share its parent's connections
    given: str | None,  # noqa: ARG001 - settings that came later are another client's
) -> pafs.FileSystem:
    client = open_client(bucket, given_settings())
    # Behind the look for boto3, whose exceptions are named there.
    from airflow_hiveacid.storage.stores.s3 import S3Handler  # noqa: PLC0415
    from airflow_hiveacid.storage.stores.s3_bucket import S3Bucket  # noqa: PLC0415

    return pafs.PyFileSystem(S3Handler(S3Bucket(client)))


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
