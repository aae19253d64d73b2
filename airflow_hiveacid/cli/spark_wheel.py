"""The wheel for Spark's environment: this package with the requirements of Spark, without Airflow.

Its code is that of the installed package. It has a name and a directory of its own, which a `.pth`
file adds to the end of Python's path, so the two wheels have no file in common
(docs/decisions/packages.md).

Example:
    >>> wheel_name("0.1.0")
    'hiveacid_spark-0.1.0-py3-none-any.whl'
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import sys
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from airflow_hiveacid import __version__, supported_versions
from airflow_hiveacid.jobs.packager import APPS, applications_directory, files_below, zip_entry

NAME: Final = "hiveacid-spark"
"""The name of the distribution, also for `pip uninstall`."""

_MAJOR, _MINOR = map(int, supported_versions.PYSPARK.versions[-1].split("."))
PYSPARK: Final = f"pyspark>={supported_versions.PYSPARK.versions[0]},<{_MAJOR}.{_MINOR + 1}"
"""The supported versions of PySpark, as pip takes them."""

LIBRARIES: Final = (
    "fastavro[snappy]>=1.13",
    "hdfs-native>=0.14.7,<0.15",
    "hmsclient>=0.1.1",
    "pandas<3",
    "protobuf>=4.25",
    "pyarrow>=26.0.1",
    "pyorc>=0.12",
    "thrift>=0.21",
)
"""The Python packages that driver and executors need; see `spark-runtime` in pyproject.toml."""

FOR_COMMANDS: Final = ("rich>=13",)
"""The Python packages that only the commands of `python -m airflow_hiveacid` need."""

FOR_S3: Final = ("boto3>=1.36",)
"""The Python packages that driver and executors need for S3: the extra `s3`."""

_PROVIDER: Final = "airflow-provider-hiveacid"
_FOLDER: Final = NAME.replace("-", "_")
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_LICENSES: Final = ("LICENSE", "NOTICE")
# The applications get the name below which an installed package looks for them.
_LEFT_OUT: Final = frozenset({"__pycache__", "example_dags", f"_{APPS}"})
_WHEEL: Final = """\
Wheel-Version: 1.0
Generator: airflow-provider-hiveacid
Root-Is-Purelib: true
Tag: py3-none-any
"""


def build_spark_wheel(directory: Path, *, version: str | None = None) -> Path:
    """Write the wheel into `directory`, and return its path.

    Without `version`, the version contains a digest of the code: pip replaces no wheel of the same
    version.
    """
    files = _files()
    version = version or f"{__version__}+c{_digest(files)}"
    info = f"{_FOLDER}-{version}.dist-info"
    files |= {
        f"{_FOLDER}.pth": f"{_FOLDER}\n".encode(),
        f"{info}/METADATA": _metadata(version).encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
        **{f"{info}/licenses/{name}": text for name, text in _licenses().items()},
    }
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / wheel_name(version)
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(zip_entry(name), content)
    return path


def wheel_name(version: str) -> str:
    """Return the file name of the wheel of a version."""
    return f"{_FOLDER}-{version}-py3-none-any.whl"


def _files() -> dict[str, bytes]:
    package = f"{_FOLDER}/{_PACKAGE.name}"
    everything = partial(files_below, pattern="*", left_out=_LEFT_OUT)
    applications = everything(applications_directory(), f"{package}/_{APPS}")
    return everything(_PACKAGE, package) | applications


def _licenses() -> dict[str, bytes]:
    """Return the texts of the licence, from the checkout or from the installed provider."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file():
        return {name: (checkout / name).read_bytes() for name in _LICENSES}
    try:
        distribution = importlib.metadata.distribution(_PROVIDER)
    except importlib.metadata.PackageNotFoundError:
        distribution = importlib.metadata.distribution(NAME)
    return {
        file.name: Path(str(distribution.locate_file(file))).read_bytes()
        for file in distribution.files or ()
        if file.name in _LICENSES and ".dist-info" in file.parts[0]
    }


def _metadata(version: str) -> str:
    lines = (
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version}",
        f"Summary: {_PROVIDER} for the Python environment of Spark, without Airflow.",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in _LICENSES),
        "Requires-Python: >=3.11",
        *(f"Requires-Dist: {package}" for package in (PYSPARK, *LIBRARIES, *FOR_COMMANDS)),
        "Provides-Extra: s3",
        *(f"Requires-Dist: {package}; extra == 's3'" for package in FOR_S3),
    )
    return "\n".join(lines) + "\n"


def _record(files: Mapping[str, bytes], name: str) -> str:
    lines = [f"{file},sha256={_hash(content)},{len(content)}" for file, content in files.items()]
    return "\n".join((*lines, f"{name},,")) + "\n"


def _hash(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _digest(files: Mapping[str, bytes]) -> str:
    text = "\n".join(f"{name} {_hash(content)}" for name, content in files.items())
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main(arguments: Sequence[str]) -> int:
    """Write the wheel of this version into the given directory, and return the exit code."""
    match arguments:
        case [directory]:
            sys.stdout.write(f"{build_spark_wheel(Path(directory), version=__version__)}\n")
            return 0
        case _:
            sys.stderr.write("usage: python -m airflow_hiveacid.cli.spark_wheel DIRECTORY\n")
            return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
