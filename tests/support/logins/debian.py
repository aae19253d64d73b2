"""The paths of programs from Debian packages; a package may be installed or only unpacked.

Daemons are in folders that most users do not have in PATH. A user without root can unpack packages
(`dpkg -x`) and add their program folders to PATH. The module then finds the programs' libraries,
plugins and schemas in the folder with the unpacked packages.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import MissingProgramError

_DAEMONS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SYSTEM: Final = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Programs by name, and the root folder of their installed or unpacked packages."""

    paths: Mapping[str, str]
    root: Path

    def __getitem__(self, name: str) -> str:
        """Return the program's path."""
        return self.paths[name]

    @property
    def is_unpacked(self) -> bool:
        """True if the packages are unpacked in a user's folder, not installed."""
        return self.root != _SYSTEM

    @property
    def libraries(self) -> Path:
        """The folder with the libraries of the packages."""
        return self.root / "usr" / "lib" / (sysconfig.get_config_var("MULTIARCH") or "")

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment for the programs: our PATH, English messages, and UTC."""
        found = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **more}
        if self.is_unpacked:
            found["LD_LIBRARY_PATH"] = str(self.libraries)
        return found


def find_programs(packages: Mapping[str, str]) -> Programs:
    """Find programs; `packages` maps each program to its package.

    Raises:
        MissingProgramError: Programs are missing; the error lists all missing programs and
            packages.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_DAEMONS))
    found = {name: shutil.which(name, path=path) for name in packages}
    missing = [name for name, program in found.items() if program is None]
    if missing:
        wanted = " ".join(sorted({packages[name] for name in missing}))
        raise MissingProgramError(
            ", ".join(missing), f"install Debian's packages: apt-get install {wanted}"
        )
    paths = {name: str(program) for name, program in found.items()}
    return Programs(paths=paths, root=_root(Path(next(iter(paths.values())))))


def _root(program: Path) -> Path:
    folder = program.parent
    is_packaged = folder.parent.name == "usr" and folder.name in {"bin", "sbin"}
    return folder.parent.parent if is_packaged else _SYSTEM
