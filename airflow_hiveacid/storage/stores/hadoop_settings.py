"""Hadoop's client settings, the umask, and the settings that Python workers get from Spark.

`core-site.xml` and `hdfs-site.xml` are read where hdfs-native reads them, which applies no umask.
Settings of the driver's Hadoop configuration (`spark.engine.session`) take precedence; workers get
those below, none of them secret, in an environment variable.

Example:
    >>> f"{umask_of({'fs.permissions.umask-mode': 'u=rwx,g=rx,o='}):03o}"
    '027'
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from airflow_hiveacid.format.errors import ConfigurationError

_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_UMASK: Final = "fs.permissions.umask-mode"
_DEFAULT_UMASK: Final = "022"
_OCTAL: Final = re.compile(r"[0-7]{1,4}\Z")
_RIGHTS: Final = re.compile(r"([ugoa]+)=([rwx]*)\Z")
_SHIFTS: Final[Mapping[str, tuple[int, ...]]] = {"u": (6,), "g": (3,), "o": (0,), "a": (6, 3, 0)}
_BITS: Final[Mapping[str, int]] = {"r": 4, "w": 2, "x": 1}
_ALL: Final = 0o777


def read_settings(
    environment: Mapping[str, str] = os.environ, names: Sequence[str] = _FILES
) -> dict[str, str]:
    """Return this process's Hadoop settings, if any; a later file overrides earlier ones."""
    folder = settings_folder(environment)
    settings: dict[str, str] = {}
    for file in () if folder is None else map(folder.joinpath, names):
        try:
            root = ET.parse(file).getroot()  # noqa: S314 - the site's own settings
        except FileNotFoundError:
            continue
        except (OSError, ET.ParseError) as error:
            raise ConfigurationError(f"cannot read Hadoop's settings in {file}: {error}") from error
        for entry in root.iterfind("property"):
            name, value = entry.findtext("name"), entry.findtext("value")
            if name and value:
                settings[name.strip()] = value.strip()
    return settings


def settings_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return HADOOP_CONF_DIR, or else HADOOP_HOME/etc/hadoop; None if neither is set."""
    if "HADOOP_CONF_DIR" in environment:
        return Path(environment["HADOOP_CONF_DIR"])
    if "HADOOP_HOME" in environment:
        return Path(environment["HADOOP_HOME"], "etc", "hadoop")
    return None


def umask_of(settings: Mapping[str, str]) -> int:
    """Return the permission bits that new files do not get, or raise ConfigurationError."""
    text = settings.get(_UMASK, _DEFAULT_UMASK)
    if _OCTAL.match(text):
        return int(text, 8) & _ALL
    permissions = 0
    for part in text.split(","):
        match = _RIGHTS.match(part.strip())
        if match is None:
            raise ConfigurationError(
                f"Hadoop's setting {_UMASK} is {text!r}; write it in octal digits (027), or as the"
                " allowed rights (u=rwx,g=rx,o=)"
            )
        rights = sum(_BITS[letter] for letter in set(match[2]))
        for user_class in match[1]:
            for shift in _SHIFTS[user_class]:
                permissions |= rights << shift
    return _ALL & ~permissions


VARIABLE: Final = "HIVEACID_STORE_SETTINGS"
"""The environment variable with the settings for Python workers, as JSON."""

JVM_KEYS: Final = "hiveacid.s3.keys.in.jvm"
"""The setting that tells Python workers that Spark has S3 keys; the keys are not passed."""

UNTESTED_STORES: Final = "hiveacid.untested.stores"
"""The setting with the schemes of untested stores, separated by commas. Tables on these stores may
be changed. By default, the setting is empty."""

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
"""The settings to look up in the JVM: settings for the workers, and S3 keys, which stay in the
JVM."""

_PROVIDER: Final = "dfs.client.failover.proxy.provider."
_OF_OBSERVERS: Final = "ObserverRead"
_OF_THE_ACTIVE: Final = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"

_NUMBER: Final = re.compile(r"[-+]?[0-9]+\Z")
_SIZE: Final = re.compile(r"([0-9]+)([kmgtpe]?)b?\Z")
_POWERS: Final[Mapping[str, int]] = {
    letter: 10 * power for power, letter in enumerate(("", "k", "m", "g", "t", "p", "e"))
}


def travelling(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the Hadoop settings to pass to Python workers, sorted by name, without secrets."""
    worker_settings = {name: settings[name] for name in sorted(settings) if _TRAVELS.match(name)}
    if any(_KEY.match(name) for name in settings):
        worker_settings[JVM_KEYS] = "true"
    return worker_settings


def given_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings, the driver's before those of files, or raise ConfigurationError."""
    text = environment.get(VARIABLE, "{}")
    try:
        overrides = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{VARIABLE} is not JSON: {error}") from error
    return travelling(read_settings(environment)) | {str(k): str(v) for k, v in overrides.items()}


def untested_stores(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the schemes in the setting `UNTESTED_STORES`, in lower case."""
    schemes = settings.get(UNTESTED_STORES, "").split(",")
    return frozenset(name.strip().lower() for name in schemes) - {""}


def without_observers(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings that make HDFS clients avoid observers; empty if none are configured.

    An observer lags behind the active name node (HDFS-12943), so its listing may lack files that
    another process has committed: readers would miss rows, and compaction would remove them.
    """
    return {
        name: _OF_THE_ACTIVE
        for name, value in settings.items()
        if name.startswith(_PROVIDER) and _OF_OBSERVERS in value
    }


def number_of(settings: Mapping[str, str], name: str) -> int | None:
    """Return a setting's value; None if it is not set or negative, which means no limit."""
    text = settings.get(name)
    if text is None:
        return None
    if _NUMBER.match(text) is None:
        raise ConfigurationError(f"Hadoop's setting {name} is {text!r}; write a whole number")
    return int(text) if int(text) >= 0 else None


def bytes_of(settings: Mapping[str, str], name: str) -> int | None:
    """Return the value of a size setting, such as `128m`, in bytes; None if it is not set."""
    text = settings.get(name)
    if text is None:
        return None
    match = _SIZE.match(text.lower())
    if match is None:
        raise ConfigurationError(f"Hadoop's setting {name} is {text!r}; write a size such as 128m")
    return int(match[1]) << _POWERS[match[2]]
