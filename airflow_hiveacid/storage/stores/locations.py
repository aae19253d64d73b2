"""Split locations into a store and a path, open the stores' clients, and tell stores apart.

Locations are as the metastore writes them (`file:/warehouse/t`, `hdfs://host/t`, plain paths). A
store and a path are strings for plans and tasks; a file system has connections and perhaps secrets.
The module also finds out whether two locations lead to one directory, or into each other.

A new store needs only its traits here: no other module checks for specific stores.

Example:
    >>> locate("hdfs://nn:8020/warehouse/t/p=a%2Fb")
    ('hdfs://nn:8020', '/warehouse/t/p=a%2Fb')
    >>> open_location("file:/warehouse/t")[1]
    '/warehouse/t'
    >>> renames_directories("hdfs"), renames_directories("s3a")
    (True, False)
"""

from __future__ import annotations

import functools
import importlib.util
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores import hadoop_settings
from airflow_hiveacid.storage.stores.hdfs.connect import open_hdfs
from airflow_hiveacid.storage.stores.hdfs.handler import HDFS_NATIVE
from airflow_hiveacid.storage.stores.s3 import S3_BY_BOTO3, open_client
from airflow_hiveacid.storage.stores.token_file import VARIABLE as TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """The behaviour of a store when one client accesses it.

    `refuses_taken_names`: a directory cannot be renamed to an existing name. On other stores, the
    renamed directory replaces an existing empty directory, or is moved into the existing directory
    (HIVE-25600). `deletes_at_once`: no reader sees half of a directory that is being deleted.
    `reads_open_files`: flushed bytes can be read before the file is closed, even beyond the length
    in a listing. `renames`: files and directories are renamed in one step. Without, a file appears
    whole when it is closed, a directory one file at a time, and a task's file cannot be read before
    it is published. `keeps_directories`: an empty directory can exist. `lists_trees`: one call
    lists everything below a directory at any depth. `may_want_keys`: in an encryption zone, a
    client needs a key to create files, but not to create directories.
    """

    refuses_taken_names: bool
    deletes_at_once: bool
    reads_open_files: bool
    renames: bool = True
    keeps_directories: bool = True
    lists_trees: bool = False
    may_want_keys: bool = False


_LOCAL: Final = StoreTraits(refuses_taken_names=False, deletes_at_once=False, reads_open_files=True)
# hdfs-native calls `rename2`, and does not ask data nodes for the length of an open block.
_NATIVE: Final = StoreTraits(
    refuses_taken_names=True, deletes_at_once=True, reads_open_files=False, may_want_keys=True
)
# The traits of libhdfs, which calls `rename`, and of object stores that we only read.
_OTHER: Final = StoreTraits(refuses_taken_names=False, deletes_at_once=True, reads_open_files=True)
_MIGHT_RENAME: Final = frozenset({"abfs", "abfss"})
_S3_TRAITS: Final = StoreTraits(
    refuses_taken_names=True,
    deletes_at_once=False,
    reads_open_files=False,
    renames=False,
    keeps_directories=False,
    lists_trees=True,
)
_KNOWN: Final[Mapping[str, StoreTraits]] = {
    "local": _LOCAL,
    f"py::{HDFS_NATIVE}": _NATIVE,
    f"py::{S3_BY_BOTO3}": _S3_TRAITS,
}


def traits_of(fs: pafs.FileSystem) -> StoreTraits:
    """Return the traits of the store behind a file system."""
    return _KNOWN.get(fs.type_name, _OTHER)


def renames_directories(scheme: str) -> bool:
    """Return True if stores of this scheme rename, and so publish, a directory in one step."""
    return scheme == "file" or scheme in HADOOP_SCHEMES


def might_rename_directories(scheme: str) -> bool:
    """Return True if documentation suggests that stores of this scheme rename directories.

    They are untested. Azure's rename directories if their namespace is hierarchical, else pyarrow's
    client refuses. For Google's, it renames only files.
    """
    return scheme in _MIGHT_RENAME


def publishes_files(scheme: str) -> bool:
    """Return True if the driver publishes each file separately, unread before the commit."""
    return scheme in S3_SCHEMES


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)\Z", re.DOTALL)
HADOOP_SCHEMES: Final = frozenset({"hdfs", "viewfs"})
"""The schemes of Hadoop's own file systems in locations."""

S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})
"""The schemes of S3 in locations."""

# Read-only stores: their schemes in Hadoop and in pyarrow.
_OBJECT_STORES: Final = frozenset({"gs", "abfs", "abfss"})

_S3: Final = "s3"
_JVM_OPTIONS: Final = "LIBHDFS_OPTS"
_NO_SIGNALS: Final = "-Xrs"

LOCAL_STORE: Final = "file://"
"""The store of this machine's own files."""


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a location, and the path that `locate` returns.

    Raises ConfigurationError if the location is empty or relative, its scheme is unknown, or the
    store's client is missing.
    """
    store, path = locate(location)
    return client_of(store), path


def locate(location: str) -> tuple[str, str]:
    """Return a location's store and the path in it without a final slash.

    `client_of` takes the store. A `%2F` in the path is literal: the metastore does not escape paths
    like URIs (see Hadoop's class Path).
    """
    scheme, authority, path = _split(location)
    if scheme == "file":
        return LOCAL_STORE, path
    if scheme in HADOOP_SCHEMES:
        return f"{scheme}://{authority}", path
    if scheme in S3_SCHEMES:
        return f"{_S3}://{authority}", f"{authority}{path}".rstrip("/")
    if scheme in _OBJECT_STORES:
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
        settings, tokens = os.environ.get(hadoop_settings.VARIABLE), os.environ.get(TOKENS)
        return _hadoop(scheme, authority, os.getpid(), settings, tokens)
    if scheme == _S3:
        return _s3(authority, os.getpid(), os.environ.get(hadoop_settings.VARIABLE))
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
    active = hadoop_settings.without_observers(hadoop_settings.given_settings())
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
    # Without -Xrs, the JVM replaces the handler of SIGTERM and ends the process. Then Airflow could
    # not call `on_kill`, and a killed task would leave its Spark driver running.
    options = os.environ.get(_JVM_OPTIONS, "").split()
    if _NO_SIGNALS not in options:
        os.environ[_JVM_OPTIONS] = " ".join([*options, _NO_SIGNALS])


@functools.lru_cache(maxsize=16)
def _s3(
    bucket: str,
    process_id: int,  # noqa: ARG001 - a forked process must not share its parent's connections
    given: str | None,  # noqa: ARG001 - changed settings need another client
) -> pafs.FileSystem:
    client = open_client(bucket, hadoop_settings.given_settings())
    # These modules use boto3's exceptions, and `open_client` says if it is missing.
    from airflow_hiveacid.storage.stores.s3.bucket import S3Bucket  # noqa: PLC0415
    from airflow_hiveacid.storage.stores.s3.handler import S3Handler  # noqa: PLC0415

    return pafs.PyFileSystem(S3Handler(S3Bucket(client)))


@functools.lru_cache(maxsize=16)
def _object_store(scheme: str, authority: str) -> tuple[pafs.FileSystem, str]:
    # pyarrow derives the bucket or container from the authority (`container@account.host`).
    try:
        fs, root = pafs.FileSystem.from_uri(f"{scheme}://{authority}")
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(f"no client for {scheme}://{authority}: {error}") from error
    return fs, root.rstrip("/")


# ---- the identity of directories -----------------------------------------------------------------
# A location may have several spellings: symbolic links and bind mounts on a local disk, schemes of
# S3, addresses of one HDFS.

Identity = tuple[object, ...]
"""The identity of a directory; equal for all names of the directory."""


def identity(location: str) -> Identity:
    """Return the identity of a directory, as `identities` does, without those above it."""
    try:
        scheme, _, path = _split(location)
    except ConfigurationError:
        return identities(location)[0]
    return _on_disk(posixpath.normpath(path)) if scheme == "file" else identities(location)[0]


def identities(location: str) -> tuple[Identity, ...]:
    """Return the identities of a directory and of the directories above it, the nearest first.

    HDFS is identified by its scheme alone, because one name node has several addresses. So two
    directories on different clusters with equal paths count as one. Mounts of viewfs are unknown.
    """
    try:
        scheme, authority, path = _split(location)
    except ConfigurationError:  # a table without files
        return (("other", location.rstrip("/")),)
    if scheme != "file":
        place = path if scheme in HADOOP_SCHEMES else f"{authority}{path}"
        # All schemes of one group get the same name.
        kind = next((min(g) for g in (HADOOP_SCHEMES, S3_SCHEMES) if scheme in g), scheme)
        place = posixpath.normpath(place)
        return tuple((kind, each) for each in (place, *_above(place)))
    path = posixpath.normpath(path)
    # A link may lead into a directory that is not above the link itself.
    places = (path, *_above(path), *_above(_resolved(path)))
    return tuple(dict.fromkeys(map(_on_disk, places)))


def is_within(location: str, directory: str) -> bool:
    """Return whether a location is certainly a directory or in it, by whatever name.

    Two addresses of a store may be one, but are not taken for one.
    """
    try:
        is_one_store = _split(location)[:2] == _split(directory)[:2]
    except ConfigurationError:  # a table without files
        is_one_store = False
    return is_one_store and identities(directory)[0] in identities(location)


def directories_around(location: str) -> list[str]:
    """Return a location and all directories above it; of a local link, also those of its target."""
    scheme, authority, path = _split(location)
    if scheme != "file":
        return [f"{scheme}://{authority}{place}" for place in (path, *PurePosixPath(path).parents)]
    paths = dict.fromkeys((path, *_above(path), _resolved(path), *_above(_resolved(path))))
    return [f"{scheme}:{place}" for place in paths]


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
