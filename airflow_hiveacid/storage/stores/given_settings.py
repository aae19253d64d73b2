"""Settings of stores that Spark has and Python's clients want, handed to every Python process.

The driver gives what its Hadoop configuration says, once (`spark.store_settings`); a worker finds
it in its environment. Nothing that could be a secret is among it: only the names below travel. What
`core-site.xml` and `hdfs-site.xml` say where HADOOP_CONF_DIR leads counts where nothing was given.

Example:
    >>> own = {"fs.s3a.endpoint": "http://s3", "fs.s3a.secret.key": "x", "fs.s3a.access.key": "y"}
    >>> travelling(own)
    {'fs.s3a.endpoint': 'http://s3', 'hiveacid.s3.keys.in.jvm': 'true'}
    >>> bytes_of({"dfs.blocksize": "64m"}, "dfs.blocksize")
    67108864
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.hadoop_settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "HIVEACID_STORE_SETTINGS"
"""The environment variable that workers find them in, as JSON."""

JVM_KEYS: Final = "hiveacid.s3.keys.in.jvm"
"""Set where Spark has keys for S3 that do not travel."""

UNTESTED_STORES: Final = "hiveacid.untested.stores"
"""Names schemes, with commas between, of stores that nobody has tried: their tables may be changed
all the same, by whoever wants to try. Nothing is named by default."""

_OURS: Final = r"hiveacid\.untested\.stores"
_OF_S3: Final = (
    r"fs\.s3a\.(bucket\..+\.)?"
    r"(endpoint|endpoint\.region|path\.style\.access|connection\.ssl\.enabled)"
)
_OF_HDFS: Final = (
    r"fs\.(defaultFS|permissions\.umask-mode|viewfs\.mounttable\..+)"
    r"|dfs\.(nameservices|replication|blocksize|ha\.namenodes\..+|namenode\.rpc-address\..+)"
    r"|dfs\.client\.(failover\..+|use\.datanode\.hostname|socket-timeout)"
    r"|dfs\.client\.block\.write\.replace-datanode-on-failure\..+"
    r"|dfs\.data\.transfer\.protection|ipc\.client\.rpc-timeout\.ms"
    r"|hadoop\.security\.(authentication|key\.provider\.path|token\.service\.use_ip)"
)
_KEYS: Final = r"fs\.s3a\.(bucket\..+\.)?(access|secret)\.key"
_TRAVELS: Final = re.compile(rf"({_OF_S3}|{_OF_HDFS}|{_OURS})\Z")
_KEY: Final = re.compile(rf"{_KEYS}\Z")
JAVA_PATTERN: Final = f"^({_OF_S3}|{_OF_HDFS}|{_OURS}|{_KEYS})$"
"""What a JVM is asked for: the names that travel, and those of keys, whose values stay there."""

_PROVIDER: Final = "dfs.client.failover.proxy.provider."
_OF_OBSERVERS: Final = "ObserverRead"
_OF_THE_ACTIVE: Final = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"

_NUMBER: Final = re.compile(r"[0-9]+\Z")
_SIZE: Final = re.compile(r"([0-9]+)([kmgtpe]?)b?\Z")
_POWERS: Final[Mapping[str, int]] = {
    letter: 10 * power for power, letter in enumerate(("", "k", "m", "g", "t", "p", "e"))
}


def travelling(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of Hadoop's settings that are handed on, sorted by name; no secret is among them."""
    found = {name: settings[name] for name in sorted(settings) if _TRAVELS.match(name)}
    if any(_KEY.match(name) for name in settings):
        found[JVM_KEYS] = "true"
    return found


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of this process: what was given, above what its own files say.

    Raises:
        ConfigurationError: a file is there and cannot be read, or what was given is no JSON.
    """
    text = environment.get(VARIABLE, "{}")
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} is no JSON: {error}") from error
    return travelling(read_settings(environment)) | {str(k): str(v) for k, v in given.items()}


def untested_stores(settings: Mapping[str, str]) -> frozenset[str]:
    """The schemes that `UNTESTED_STORES` names, in lower case."""
    named = settings.get(UNTESTED_STORES, "").split(",")
    return frozenset(name.strip().lower() for name in named) - {""}


def without_observers(settings: Mapping[str, str]) -> dict[str, str]:
    """What makes clients of HDFS ask active name nodes alone; nothing where they do so anyway.

    An observer lags behind the active one, and shows a client that client's own changes at best
    (HDFS-12943). A list of it may lack what another process has published and committed: rows that
    a reader would miss, and that a compaction and a cleaning after it would remove for good.
    """
    return {
        name: _OF_THE_ACTIVE
        for name, value in settings.items()
        if name.startswith(_PROVIDER) and _OF_OBSERVERS in value
    }


def number_of(settings: Mapping[str, str], name: str) -> int | None:
    """A setting that is a number; None if it is not said.

    Raises:
        ConfigurationError: it is none.
    """
    text = settings.get(name)
    if text is None:
        return None
    if _NUMBER.match(text) is None:
        raise ConfigurationError(f"Hadoop's setting {name} is {text!r}; write a whole number")
    return int(text)


def bytes_of(settings: Mapping[str, str], name: str) -> int | None:
    """A setting that is a size, such as `128m`, in bytes; None if it is not said.

    Raises:
        ConfigurationError: it is none.
    """
    text = settings.get(name)
    if text is None:
        return None
    match = _SIZE.match(text.lower())
    if match is None:
        raise ConfigurationError(f"Hadoop's setting {name} is {text!r}; write a size such as 128m")
    return int(match[1]) << _POWERS[match[2]]
