"""How a client of hdfs-native is made: where it goes, as whom, and how long it tries.

Takes the scheme and authority of a location, and Hadoop's settings (`given_settings`); gives a
file system. Name services, mount tables, logins and encryption are hdfs-native's own business.

A client stays in its process: it has connections and a login.

Example:
    >>> client_settings({"dfs.ha.namenodes.lake": "nn1, nn2"})["dfs.ha.namenodes.lake"]
    'nn1,nn2'
    >>> client_settings({})["dfs.client.failover.max.attempts"]
    '5'
"""

from __future__ import annotations

import itertools
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError, StoreUnavailableError
from airflow_hiveacid.storage.stores.given_settings import (
    bytes_of,
    given_settings,
    number_of,
    without_observers,
)
from airflow_hiveacid.storage.stores.hadoop_settings import settings_folder, umask_of
from airflow_hiveacid.storage.stores.hdfs import ANSWER_S, HdfsHandler
from airflow_hiveacid.storage.stores.hdfs_client import place_of
from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_waits import within

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

_USER: Final = "HADOOP_USER_NAME"
_SPARK_USER: Final = "SPARK_USER"
_TOKENS: Final = "HADOOP_TOKEN_FILE_LOCATION"

_ATTEMPTS: Final = "dfs.client.failover.max.attempts"
_SLEEP_MS: Final = "dfs.client.failover.sleep.max.millis"
_ANSWER_MS: Final = "ipc.client.rpc-timeout.ms"
_LOGIN: Final = "hadoop.security.authentication"
_BY_ADDRESS: Final = "hadoop.security.token.service.use_ip"
_NAME_NODES: Final = "dfs.ha.namenodes."
_ADDRESS: Final = "dfs.namenode.rpc-address."
_CONNECT_S: Final = 5.0

# Pauses double from one second to fifteen: half a minute in all. Where there are several name nodes
# hdfs-native has Java's fifteen attempts, a minute for two: one may be about to become active.
_LONE_ATTEMPTS: Final = 5
_LONE_SLEEP_MS: Final = 15_000


def open_hdfs(scheme: str, authority: str) -> pafs.FileSystem:
    """The file system of a name node, a name service, a mount table; without authority the default.

    Nobody is asked anything yet, so a lone name node that is down is found out later.

    Raises:
        ConfigurationError: hdfs-native is missing, or the settings lack what it needs.
        StoreUnavailableError: Kerberos keeps silent.
    """
    settings = given_settings()
    place = place_of(scheme, authority, settings)
    _become_sparks_user(settings, os.environ)
    try:
        import hdfs_native  # noqa: PLC0415 - where no table lies on HDFS, it need not be there

        with hdfs_errors(place):
            told = _in_reach_first(place, client_settings(settings))
            make = partial(hdfs_native.Client, _by_token(place, settings), told)
            client = within(answer_s(settings), make)  # it may ask a KDC who we are
    except TimeoutError as error:
        raise StoreUnavailableError(location=place, action="open", reason=str(error)) from error
    except (ImportError, OSError) as error:
        folder = settings_folder()
        raise ConfigurationError(
            f"no client for {place}: {error}. It is the package hdfs-native; name services, mount"
            " tables and the default file system it takes from core-site.xml and hdfs-site.xml in"
            f" HADOOP_CONF_DIR, which is {folder or 'not set'}, and from spark.hadoop.*"
        ) from error
    sizes = {
        "replication": number_of(settings, "dfs.replication"),
        "block_size": bytes_of(settings, "dfs.blocksize"),
    }
    return pafs.PyFileSystem(
        HdfsHandler(
            place,
            client,
            umask_of(settings),
            # Java's client has its own defaults of these, hdfs-native the name node's.
            partial(hdfs_native.WriteOptions, **{k: v for k, v in sizes.items() if v}),
            answer_s(settings),
        )
    )


def client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """What hdfs-native is told beyond the files that it reads itself.

    All of ours: it takes values of these files as they stand there, with line ends and blanks. And
    no observer is asked: before its first change it takes from one whatever this knows.
    """
    told = {**settings, **without_observers(settings)}
    for name in settings:
        if name.startswith(_NAME_NODES):
            told[name] = ",".join(_names_in(settings[name]))
    if _most_name_nodes(settings) == 1:
        told.setdefault(_ATTEMPTS, str(_LONE_ATTEMPTS))
    return told


def _in_reach_first(place: str, told: dict[str, str]) -> dict[str, str]:
    """The settings, with name nodes last whose machines are off.

    For each of these hdfs-native waits as long as Linux does, two minutes; whoever refuses, or says
    that it is not active, is passed over at once.
    """
    service = place.removeprefix("hdfs://")
    nodes = _names_in(told.get(f"{_NAME_NODES}{service}", ""))
    silent = list(
        itertools.takewhile(lambda n: _is_silent(told.get(f"{_ADDRESS}{service}.{n}", "")), nodes)
    )
    if not silent:
        return told
    return told | {f"{_NAME_NODES}{service}": ",".join([*nodes[len(silent) :], *silent])}


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
    """How long one call may last, however many name nodes are asked.

    As long as one of them may keep silent (the site's own bound, if it has one) times their number;
    and as long as the site's own attempts take, if it says how many.
    """
    silent_ms = number_of(settings, _ANSWER_MS) or 0
    silent_s = (silent_ms / 1000 or ANSWER_S) * _most_name_nodes(settings)
    attempts = number_of(settings, _ATTEMPTS) or 0
    pause_ms = number_of(settings, _SLEEP_MS) or _LONE_SLEEP_MS
    return silent_s + attempts * pause_ms / 1000


def _most_name_nodes(settings: Mapping[str, str]) -> int:
    """How many name nodes the largest name service has."""
    services = [settings[name] for name in settings if name.startswith(_NAME_NODES)]
    return max([1, *(len(_names_in(names)) for names in services)])


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _become_sparks_user(settings: Mapping[str, str], environment: MutableMapping[str, str]) -> None:
    """Without Kerberos, be whom Spark's JVM beside us is: a container's process may be `yarn`'s."""
    if _SPARK_USER in environment and settings.get(_LOGIN, "simple") == "simple":
        environment.setdefault(_USER, environment[_SPARK_USER])


def _by_token(place: str, settings: Mapping[str, str]) -> str:
    """The place as tokens name it: by the name node's address, which hdfs-native does not look up.

    A name service's token has the service's name, and with Kerberos the name node itself says who
    it is, so nothing else depends on it.
    """
    host, colon, port = place.removeprefix("hdfs://").partition(":")
    is_named = place.startswith("hdfs://") and colon
    if (
        not is_named
        or _TOKENS not in os.environ
        or settings.get(_LOGIN, "simple") == "simple"
        or settings.get(_BY_ADDRESS, "true") != "true"
    ):
        return place
    try:
        return f"hdfs://{socket.gethostbyname(host)}:{port}"
    except OSError:
        return place  # whoever connects will say so
