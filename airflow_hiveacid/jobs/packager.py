"""How the rooms that run beside Spark and their libraries become one zip for `--py-files`.

Takes the files of the installed package (a wheel or a checkout) and of the installed `LIBRARIES`;
gives a zip that is the same, byte for byte, whenever its sources and the Python that builds it are
the same. A cluster then needs only what is native: pyspark, pandas, pyarrow, protobuf. Must not
import what it packs.

Beside each source lies its byte code: a process that imports from a zip cannot cache it, and
compiling hmsclient's generated 1.8 MB takes every driver 0.8 s instead of 0.06 s. Another Python
version skips the byte code (its magic number differs) and compiles the source.

Example:
    >>> application_path("merge").name
    'merge.py'
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import marshal
import os
import stat
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid import __version__
from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOMS: Final = ("format", "plan", "jobs", "metastore", "storage", "versions", "spark")
"""What the application imports of this package; no Airflow room is among them."""

LIBRARIES: Final = ("thrift", "hmsclient")
"""Distributions that travel in the zip because they have no native part that is needed."""

APPS: Final = "spark_apps"
"""Import name of the applications' package inside the zip."""

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_INSTALL_AGAIN: Final = "install airflow-provider-hiveacid again"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_UNIX: Final = 3
_UNCHECKED_HASH: Final = (1).to_bytes(4, "little")
# Later marshal formats write back references that depend on what else the process holds.
_MARSHAL_FORMAT: Final = 2


def applications_directory() -> Path:
    """Where the applications' mains are: inside the package in a wheel, beside it in a checkout.

    Raises:
        ConfigurationError: neither is there, so the installation is incomplete.
    """
    for candidate in (_PACKAGE / f"_{APPS}", _PACKAGE.parent / APPS):
        if candidate.is_dir():
            return candidate
    raise ConfigurationError(
        f"the Spark applications are missing beside {_PACKAGE.name}; {_INSTALL_AGAIN}"
    )


def application_path(kind: str) -> Path:
    """The main of one job, such as `merge`: the file that `spark-submit` runs.

    Raises:
        ConfigurationError: this installation has no such application.
    """
    path = applications_directory() / f"{kind}.py"
    if not path.is_file():
        raise ConfigurationError(
            f"this installation has no Spark application for {kind!r}; {_INSTALL_AGAIN}"
        )
    return path


def archive_members() -> Mapping[str, bytes]:
    """Every source file of the zip by its name in it, sorted by name.

    Raises:
        ConfigurationError: a library to be packed is not installed.
    """
    members = {f"{_PACKAGE.name}/__init__.py": (_PACKAGE / "__init__.py").read_bytes()}
    for room in ROOMS:
        members |= _python_files(_PACKAGE / room, under=f"{_PACKAGE.name}/{room}")
    # Python finds no package inside a zip unless it has this file, even if it is empty.
    members[f"{APPS}/__init__.py"] = b""
    members |= _python_files(applications_directory(), under=APPS)
    for library in LIBRARIES:
        members |= _library_files(library)
    return dict(sorted(members.items()))


def build_archive(out: Path) -> Path:
    """Write the zip to `out`, replacing what is there in one step, and return `out`.

    Raises:
        ConfigurationError: a library to be packed is not installed.
    """
    _write_archive(archive_members(), out)
    return out


def cached_archive(directory: Path | None = None) -> Path:
    """The zip for the code as it is now, built if no earlier process has built it.

    Its name carries a digest of its contents: other code is another file, so a running job never
    has its zip changed below it. Without `directory` it lies below the temporary directory, in a
    directory that belongs to this user alone.

    Raises:
        ConfigurationError: a library is not installed, or somebody else owns the cache directory.
    """
    members = archive_members()
    path = (directory or _private_directory()) / f"hiveacid-{__version__}-{_digest(members)}.zip"
    if not path.is_file():
        _write_archive(members, path)
    return path


def main(arguments: Sequence[str]) -> int:
    """Build the zip at the path given; answers the exit code."""
    match arguments:
        case [out]:
            path = build_archive(Path(out))
            sys.stdout.write(f"{path} ({path.stat().st_size} bytes)\n")
            return 0
        case _:
            sys.stderr.write("usage: python -m airflow_hiveacid.jobs.packager OUT.zip\n")
            return 2


def _python_files(directory: Path, *, under: str) -> dict[str, bytes]:
    return {
        f"{under}/{path.relative_to(directory).as_posix()}": path.read_bytes()
        for path in directory.rglob("*.py")
        if "__pycache__" not in path.parts
    }


def _library_files(name: str) -> dict[str, bytes]:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as exc:
        raise ConfigurationError(
            f"the library {name} is not installed here, so it cannot be packed for Spark;"
            " install it beside airflow-provider-hiveacid"
        ) from exc
    # A wheel may list scripts outside site-packages ("../../bin/x"); only its modules are wanted.
    return {
        file.as_posix(): Path(str(distribution.locate_file(file))).read_bytes()
        for file in distribution.files or ()
        if file.suffix == ".py" and file.parts[0] != ".."
    }


def _byte_code(name: str, source: bytes) -> bytes:
    """The contents of a `.pyc` file that is trusted without looking at its source (PEP 552)."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    return header + marshal.dumps(code, _MARSHAL_FORMAT)


def _digest(members: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, content in members.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _write_archive(members: Mapping[str, bytes], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, source in members.items():
                archive.writestr(_entry(name), source)
                archive.writestr(_entry(f"{name}c"), _byte_code(name, source))
        Path(partial).chmod(0o644)
        Path(partial).replace(out)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system, entry.external_attr = _UNIX, _MODE
    return entry


def _private_directory() -> Path:
    # What lies here is executed, so a directory that another user prepared must not be used.
    path = Path(tempfile.gettempdir()) / f"airflow-hiveacid-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise ConfigurationError(
            f"{path} is not a directory of this user alone; remove it, or set TMPDIR to a"
            " private directory"
        )
    return path


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
