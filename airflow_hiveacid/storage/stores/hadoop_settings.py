"""Hadoop's client settings, and the umask; hdfs-native does not apply the umask itself.

The module reads `core-site.xml` and `hdfs-site.xml` in the directory that hdfs-native also uses.

Example:
    >>> f"{umask_of({'fs.permissions.umask-mode': 'u=rwx,g=rx,o='}):03o}"
    '027'
"""

from __future__ import annotations

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
    """Return the settings of this process's Hadoop client; empty if no directory is configured.

    `names` are the files to read; a later file overrides earlier files.
    """
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
    """Return the umask: the permission bits that new files and directories do not get.

    Raises:
        ConfigurationError: the umask is not octal, and does not have the form `u=rwx,g=rx,o=`.
    """
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
