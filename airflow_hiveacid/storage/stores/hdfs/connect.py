"""Create hdfs-native clients: choose the name nodes, the user and the retry limits.

hdfs-native itself handles name services, mount tables, logins and encryption. A client cannot be
sent to a different process, because it has connections and a login.

Example:
    >>> client_settings({"dfs.ha.namenodes.lake": "nn1, nn2"})["dfs.ha.namenodes.lake"]
    'nn1,nn2'
    >>> client_settings({})["dfs.client.failover.max.attempts"]
    '5'
    >>> root_uri("hdfs", "nn", {}), root_uri("hdfs", "lake", {"dfs.ha.namenodes.lake": "nn1,nn2"})
    ('hdfs://nn:8020', 'hdfs://lake')
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from functools import partial
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError, StoreUnavailableError
from airflow_hiveacid.storage.stores import hadoop_settings
from airflow_hiveacid.storage.stores.hdfs import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs.deadlines import within
from airflow_hiveacid.storage.stores.hdfs.handler import ANSWER_S, HdfsHandler
from airflow_hiveacid.storage.stores.token_file import VARIABLE as TOKENS

_USER: Final = "HADOOP_USER_NAME"
_SPARK_USER: Final = "SPARK_USER"

_ATTEMPTS: Final = "dfs.client.failover.max.attempts"
_SLEEP_MS: Final = "dfs.client.failover.sleep.max.millis"
_ANSWER_MS: Final = "ipc.client.rpc-timeout.ms"
_LOGIN: Final = "hadoop.security.authentication"
_BY_ADDRESS: Final = "hadoop.security.token.service.use_ip"
_NAME_NODES: Final = "dfs.ha.namenodes."
_ADDRESS: Final = "dfs.namenode.rpc-address."
_PORT: Final = 8020
_CONNECT_S: Final = 5.0

# With a single name node, the pauses double from one second up to fifteen, half a minute in all.
# With several, a standby may become active: fifteen attempts, like Java, take a minute with two.
_LONE_ATTEMPTS: Final = 5
_LONE_SLEEP_MS: Final = 15_000


def open_hdfs(scheme: str, authority: str) -> pafs.FileSystem:
    """Return the file system of a name node, a name service or a mount table.

    Without an authority, this is the default file system. No name node is called yet. Raises
    ConfigurationError if hdfs-native, or a setting that it needs, is missing. Raises
    StoreUnavailableError if the KDC does not respond.
    """
    settings = hadoop_settings.given_settings()
    root = root_uri(scheme, authority, settings)
    if _SPARK_USER in os.environ and settings.get(_LOGIN, "simple") == "simple":
        # Without Kerberos, act as the user of Spark's JVM: the process may run as `yarn`.
        os.environ.setdefault(_USER, os.environ[_SPARK_USER])
    try:
        import hdfs_native  # noqa: PLC0415 - it may be missing if no table is on HDFS

        with hdfs_errors(root):
            overrides = _in_reach_first(root, client_settings(settings))
            make = partial(hdfs_native.Client, _by_token(root, settings), overrides)
            client = within(answer_s(settings), make)  # the call may request a ticket from a KDC
    except TimeoutError as error:
        raise StoreUnavailableError(location=root, action="open", reason=str(error)) from error
    except (ImportError, OSError) as error:
        folder = hadoop_settings.settings_folder()
        raise ConfigurationError(
            f"no client for {root}: {error}. The client is part of the package hdfs-native. It"
            " reads name services, mount tables and the default file system from spark.hadoop.*,"
            " and from core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR"
            f" (now {folder or 'not set'})"
        ) from error
    sizes = {
        "replication": hadoop_settings.number_of(settings, "dfs.replication"),
        "block_size": hadoop_settings.bytes_of(settings, "dfs.blocksize"),
    }
    return pafs.PyFileSystem(
        HdfsHandler(
            root,
            client,
            hadoop_settings.umask_of(settings),
            # Java's client uses its own defaults, hdfs-native those of the name node.
            partial(hdfs_native.WriteOptions, **{k: v for k, v in sizes.items() if v}),
            answer_s(settings),
        )
    )


def root_uri(scheme: str, authority: str, settings: Mapping[str, str]) -> str:
    """Return the file system's URI; a host gets a port, or it would count as a name service."""
    start = f"{scheme}://"
    if not authority:
        default = settings.get("fs.defaultFS", "")
        authority = default.removeprefix(start).partition("/")[0] if start in default else ""
    is_service = f"dfs.ha.namenodes.{authority}" in settings
    if scheme == "hdfs" and authority and ":" not in authority and not is_service:
        authority = f"{authority}:{_PORT}"
    return f"{start}{authority or '/'}"


def client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return all settings for hdfs-native, which override those of files; none name observers."""
    overrides = {**settings, **hadoop_settings.without_observers(settings)}
    for name in settings:
        if name.startswith(_NAME_NODES):
            overrides[name] = ",".join(_names_in(settings[name]))
    if _most_name_nodes(settings) == 1:
        overrides.setdefault(_ATTEMPTS, str(_LONE_ATTEMPTS))
    return overrides


def _in_reach_first(root: str, given: dict[str, str]) -> dict[str, str]:
    # Move unresponsive name nodes from the start of the list to its end: for each, hdfs-native
    # would wait for Linux's timeout of two minutes. It skips a name node at once in only two cases:
    # the node refuses the connection, or replies that it is not active.
    service = root.removeprefix("hdfs://")
    nodes = _names_in(given.get(f"{_NAME_NODES}{service}", ""))
    silent = list(
        itertools.takewhile(lambda n: _is_silent(given.get(f"{_ADDRESS}{service}.{n}", "")), nodes)
    )
    if not silent:
        return given
    return given | {f"{_NAME_NODES}{service}": ",".join([*nodes[len(silent) :], *silent])}


def _is_silent(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except TimeoutError:
        return True
    except (OSError, ValueError):
        return False
    return False


def answer_s(settings: Mapping[str, str]) -> float:
    """Return the time limit of one call in seconds, for all name nodes together.

    The time limit of one name node (a site setting or our default) is multiplied by the number of
    name nodes. If the site sets a number of attempts, the pauses between attempts are added.
    """
    silent_ms = hadoop_settings.number_of(settings, _ANSWER_MS) or 0
    silent_s = (silent_ms / 1000 or ANSWER_S) * _most_name_nodes(settings)
    attempts = hadoop_settings.number_of(settings, _ATTEMPTS) or 0
    pause_ms = hadoop_settings.number_of(settings, _SLEEP_MS) or _LONE_SLEEP_MS
    return silent_s + attempts * pause_ms / 1000


def _most_name_nodes(settings: Mapping[str, str]) -> int:
    services = [settings[name] for name in settings if name.startswith(_NAME_NODES)]
    return max([1, *(len(_names_in(names)) for names in services)])


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _by_token(root: str, settings: Mapping[str, str]) -> str:
    # Name the node by its IP address, as its token does: hdfs-native resolves no host names when it
    # looks for a token. Kerberos needs none either, because the name node sends its principal.
    host, colon, port = root.removeprefix("hdfs://").partition(":")
    is_named = root.startswith("hdfs://") and colon
    if (
        not is_named
        or TOKENS not in os.environ
        or settings.get(_LOGIN, "simple") == "simple"
        or settings.get(_BY_ADDRESS, "true") != "true"
    ):
        return root
    try:
        return f"hdfs://{socket.gethostbyname(host)}:{port}"
    except OSError:
        return root  # the client will report the error when it connects
