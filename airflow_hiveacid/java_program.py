"""The Java program that Hadoop's and Spark's scripts run on this machine, and its version.

Example:
    >>> version_in('openjdk version "17.0.9" 2023-10-17'), version_in('java version "1.8.0_392"')
    (17, 8)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from typing import Final

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java(environment: Mapping[str, str]) -> str | None:
    """Return the path of `$JAVA_HOME/bin/java` or, without JAVA_HOME, of the `java` on PATH."""
    home = environment.get("JAVA_HOME")
    path = environment.get("PATH", os.defpath)
    return shutil.which(f"{home}/bin/java" if home else "java", path=path)


def version_in(output: str) -> int | None:
    """Return the major version in the output of `java -version`, or None."""
    match = _VERSION.search(output)
    return None if match is None else int(match[1])
