"""Pack the subpackages that run in Spark, and their libraries, into a zip for `--py-files`.

With the zip, a cluster needs only native packages: pyspark, pandas, pyarrow, protobuf. Equal
sources give the same bytes with the same Python version. `operators.spark_app` passes the zip to
`spark-submit`.

The zip contains byte code for each source file, because Python does not cache that of modules in a
zip, and the import of hmsclient (1.8 MB) would take each driver 0.8 s instead of 0.06 s. A
different Python version ignores the byte code and compiles the source.

Example:
    >>> application_path("merge").name
    'merge.py'
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import importlib.util
import marshal
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from airflow_hiveacid import __version__
from airflow_hiveacid.format import errors

ROOMS: Final = (
    "format",
    "plan",
    "jobs",
    "metastore",
    "storage",
    "versions",
    "maintenance",
    "reading",
    "writing",
    "spark",
)
"""The subpackages that the application imports; none of them imports Airflow."""

MODULES: Final = ("__init__", "acid", "errors", "lazy_names", "supported_versions")
"""The top-level modules that users' programs import, and those that these need."""

LIBRARIES: Final = ("thrift", "hmsclient")
"""Distributions that are packed into the zip; they have no native code."""

APPS: Final = "spark_apps"
"""The package name of the applications in the zip."""

_CACHE: Final = frozenset({"__pycache__"})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_INSTALL_AGAIN: Final = "install airflow-provider-hiveacid again"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_UNIX: Final = 3
_UNCHECKED_HASH: Final = (1).to_bytes(4, "little")
# In later marshal formats, the bytes also depend on how often the process refers to an object. Then
# equal sources could give different bytes.
_MARSHAL_FORMAT: Final = 2


def applications_directory() -> Path:
    """Return the directory of the application scripts, in a wheel or in a checkout."""
    for candidate in (_PACKAGE / f"_{APPS}", _PACKAGE.parent / APPS):
        if candidate.is_dir():
            return candidate
    raise errors.ConfigurationError(
        f"the Spark applications are missing beside {_PACKAGE.name}; {_INSTALL_AGAIN}"
    )


def application_path(kind: str) -> Path:
    """Return the script that `spark-submit` runs for a kind of job, such as `merge`."""
    path = applications_directory() / f"{kind}.py"
    if not path.is_file():
        raise errors.ConfigurationError(
            f"this installation has no Spark application for {kind!r}; {_INSTALL_AGAIN}"
        )
    return path


def archive_members() -> Mapping[str, bytes]:
    """Return a mapping from names in the zip to the contents of source files, sorted by name."""
    members = {
        f"{_PACKAGE.name}/{module}.py": (_PACKAGE / f"{module}.py").read_bytes()
        for module in MODULES
    }
    for room in ROOMS:
        members |= files_below(_PACKAGE / room, f"{_PACKAGE.name}/{room}")
    # Python finds a package inside a zip only if this file exists; the file may be empty.
    members[f"{APPS}/__init__.py"] = b""
    members |= files_below(applications_directory(), APPS)
    for library in LIBRARIES:
        members |= _library_files(library)
    return dict(sorted(members.items()))


def cached_archive(directory: Path | None = None) -> Path:
    """Return the zip for the current code; build the zip if it does not exist.

    The zip's name contains a digest of its contents. So changed code gets a new zip, and the zip of
    a running job never changes. By default, the zip is written to this user's private directory in
    the temporary directory.
    """
    members = archive_members()
    path = (directory or private_directory()) / f"hiveacid-{__version__}-{_digest(members)}.zip"
    # After a full disk or a crash, the file may be truncated.
    if not zipfile.is_zipfile(path):
        with scratch_errors(str(path)):
            _write_archive(members, path)
    return path


def files_below(
    directory: Path, name: str, *, pattern: str = "*.py", left_out: frozenset[str] = _CACHE
) -> dict[str, bytes]:
    """Return the contents of the files below a directory; a key is `name/`, then the path below it.

    Files whose path contains a folder or file of `left_out` are left out.
    """
    paths = ((path, path.relative_to(directory)) for path in sorted(directory.rglob(pattern)))
    return {
        f"{name}/{relative.as_posix()}": path.read_bytes()
        for path, relative in paths
        if path.is_file() and left_out.isdisjoint(relative.parts)
    }


def _library_files(name: str) -> dict[str, bytes]:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as exc:
        raise errors.ConfigurationError(
            f"the library {name} is not installed here, so it cannot be packed for Spark;"
            " install it in the same environment as airflow-provider-hiveacid"
        ) from exc
    # A wheel may list scripts outside site-packages ("../../bin/x"); only modules are needed.
    return {
        file.as_posix(): Path(str(distribution.locate_file(file))).read_bytes()
        for file in distribution.files or ()
        if file.suffix == ".py" and file.parts[0] != ".."
    }


def _byte_code(name: str, source: bytes) -> bytes:
    """Return the contents of a `.pyc` file that is not checked against its source (PEP 552)."""
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
                archive.writestr(zip_entry(name), source)
                archive.writestr(zip_entry(f"{name}c"), _byte_code(name, source))
            archive.close()  # writes the zip's directory, which must be on the disk too
            file.flush()
            os.fsync(file.fileno())
        Path(partial).chmod(0o644)
        Path(partial).replace(out)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def zip_entry(name: str) -> zipfile.ZipInfo:
    """Return the entry of a file in a zip whose bytes depend only on the files' contents."""
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system, entry.external_attr = _UNIX, _MODE
    return entry


def private_directory() -> Path:
    """Return this user's directory for files that jobs execute or load; create it if missing.

    Raises ConfigurationError if it belongs to a different user, or others can write to it.
    """
    with scratch_errors():
        path = Path(tempfile.gettempdir()) / f"airflow-hiveacid-{os.getuid()}"
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise errors.ConfigurationError(
            f"{path} is not a private directory of this user; remove it, or set TMPDIR to a"
            " private directory"
        )
    return path


@contextmanager
def scratch_errors(directory: str | None = None) -> Iterator[None]:
    """Raise typed errors if the `with` block cannot write to `directory`, by default TMPDIR.

    Raises LocationPermissionError if this process has no permission to write to `directory`. Raises
    StoreUnavailableError if writing failed for a different reason, such as a full disk.
    """
    try:
        yield
    except OSError as error:
        where = directory or _temporary_directory()
        reason = (
            f"{error.strerror or error}. Nothing was written to any table. Temporary files of this"
            " process go to TMPDIR: free space there, or set TMPDIR to another directory"
        )
        if error.errno in _DENIED:
            raise errors.LocationPermissionError(
                location=where, action="write", reason=reason
            ) from error
        raise errors.StoreUnavailableError(location=where, action="write", reason=reason) from error


def _temporary_directory() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "the temporary directory"
