"""Knows where Debian's programs lie, installed or only unpacked, and which package has one.

Daemons lie where the path of most people does not lead. Whoever may install nothing can unpack the
packages (`dpkg -x`) and put the folders of their programs on the path: libraries, plugins and
schemas are then looked for beside them.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.errors import MissingProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAEMONS: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_SYSTEM: Final = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Programs of some packages, by name, and the folder that their packages were unpacked into."""

    paths: Mapping[str, str]
    root: Path

    def __getitem__(self, name: str) -> str:
        """The program's path."""
        return self.paths[name]

    @property
    def is_unpacked(self) -> bool:
        """Whether they lie in a folder of somebody's own, and not where packages are installed."""
        return self.root != _SYSTEM

    @property
    def libraries(self) -> Path:
        """Where their packages have libraries."""
        return self.root / "usr" / "lib" / (sysconfig.get_config_var("MULTIARCH") or "")

    def environment(self, **more: str) -> dict[str, str]:
        """What a process of theirs needs; nothing of ours besides, messages in English."""
        found = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC", **more}
        if self.is_unpacked:
            found["LD_LIBRARY_PATH"] = str(self.libraries)
        return found


def find_programs(packages: Mapping[str, str]) -> Programs:
    """Looks for programs, each with the package that has it.

    Raises:
        MissingProgramError: Some are missing; it names them all, and all their packages.
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
