"""Split locations into a store and a path, and open the stores' clients.

The module takes locations as the metastore writes them (`file:/warehouse/t`, `hdfs://host/t`, plain
paths). The module returns a store and a path as strings, so that plans and tasks can contain them.
The module also returns the pyarrow file system of a store. A file system is never sent to another
process, because it has connections and perhaps secrets. The module must not access files.

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
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.given_settings import (
    VARIABLE,
    given_settings,
    without_observers,
)
from airflow_hiveacid.storage.stores.hdfs.connect import open_hdfs
from airflow_hiveacid.storage.stores.s3.client import open_client
from airflow_hiveacid.storage.stores.token_file import VARIABLE as TOKENS

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)\Z", re.DOTALL)
HADOOP_SCHEMES: Final = frozenset({"hdfs", "viewfs"})
"""The schemes of Hadoop's own file systems in locations."""

S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
"""The schemes of S3 in locations."""

# Read-only stores: the schemes in Hadoop, and the corresponding schemes in pyarrow.
_OBJECT_STORES: Final[Mapping[str, str]] = {
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
}


_S3: Final = "s3"
_JVM_OPTIONS: Final = "LIBHDFS_OPTS"
_NO_SIGNALS: Final = "-Xrs"

LOCAL_STORE: Final = "file://"
"""The store of this machine's own files."""


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a location, and the path that `locate` returns.

    Raises:
        ConfigurationError: the location is empty or relative, its scheme is unknown, or the store's
            client is missing.
    """
    store, path = locate(location)
    return client_of(store), path


def locate(location: str) -> tuple[str, str]:
    """Return a location's store and the path in it without a final slash.

    Pass the store to `client_of`. The path is not decoded, because the metastore does not escape
    paths like URIs (see Hadoop's class Path). So a `%2F` in the name of a partition directory is
    literal.
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
    """Return the client of a store; each process creates and keeps its own client."""
    if store == LOCAL_STORE:
        return _local()
    scheme, _, authority = store.partition("://")
    if scheme in HADOOP_SCHEMES:
        settings, tokens = os.environ.get(VARIABLE), os.environ.get(TOKENS)
        return _hadoop(scheme, authority, os.getpid(), settings, tokens)
    if scheme == _S3:
        return _s3(authority, os.getpid(), os.environ.get(VARIABLE))
    return _object_store(scheme, authority)[0]


def scheme_of(location: str) -> str:
    """Return the scheme of a location in lower case; `file` if it has none."""
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
    process_id: int,  # noqa: ARG001 - a forked process lacks its parent's threads
    given: str | None,  # noqa: ARG001 - changed settings need another client
    tokens: str | None,  # noqa: ARG001 - changed tokens also need another client
) -> pafs.FileSystem:
    """Return hdfs-native's client; if hdfs-native is not installed, return libhdfs's client."""
    if importlib.util.find_spec("hdfs_native") is not None:
        return open_hdfs(scheme, authority)
    host, _, port = authority.partition(":")
    name_node = f"{scheme}://{host}" if host else "default"
    active = without_observers(given_settings())
    _leave_signals_to_python()
    try:
        # Port 0 lets libhdfs read a name service from the Hadoop configuration.
        return pafs.HadoopFileSystem(
            name_node, int(port or 0), **({"extra_conf": active} if active else {})
        )
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"no {scheme} client for {authority or 'the default file system'}. Install the package"
            " hdfs-native, in the drivers' and executors' environment (and in Airflow's for"
            " sensors); or, for libhdfs, set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath"
            f" --glob). Arrow reports: {error}"
        ) from error


def _leave_signals_to_python() -> None:
    """Start the JVM of libhdfs with -Xrs.

    Otherwise, the JVM replaces the handler of SIGTERM and ends the process. Then Airflow could not
    call `on_kill`, and a killed task would leave its Spark driver running.
    """
    options = os.environ.get(_JVM_OPTIONS, "").split()
    if _NO_SIGNALS not in options:
        os.environ[_JVM_OPTIONS] = " ".join([*options, _NO_SIGNALS])


@functools.lru_cache(maxsize=16)
def _s3(
    bucket: str,
    process_id: int,  # noqa: ARG001 - a forked process must not share its parent's connections
    given: str | None,  # noqa: ARG001 - changed settings need another client
) -> pafs.FileSystem:
    client = open_client(bucket, given_settings())
    # These modules use boto3's exceptions. So import these modules only after `open_client` has
    # found boto3.
    from airflow_hiveacid.storage.stores.s3.bucket import S3Bucket  # noqa: PLC0415
    from airflow_hiveacid.storage.stores.s3.handler import S3Handler  # noqa: PLC0415

    return pafs.PyFileSystem(S3Handler(S3Bucket(client)))


@functools.lru_cache(maxsize=16)
def _object_store(scheme: str, authority: str) -> tuple[pafs.FileSystem, str]:
    """Return the client of a store, and the prefix of its paths: the bucket or container.

    pyarrow derives the prefix from the authority (`container@account.host` in Azure's URIs).
    """
    try:
        fs, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}")
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(f"no client for {scheme}://{authority}: {error}") from error
    return fs, root.rstrip("/")
