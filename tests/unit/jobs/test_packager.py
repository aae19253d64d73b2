from __future__ import annotations

import ast
import errno
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import packager

_ROOT: Final = Path(packager.__file__).resolve().parents[2]

_IMPORT_ALL: Final = """
import importlib, zipimport
archive, rooms = sys.argv[1], sys.argv[2:]
seen = []
for name in sorted(zipimport.zipimporter(archive)._files):
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if name.endswith(".py") and any(module == r or module.startswith(r + ".") for r in rooms):
        assert archive in importlib.import_module(module).__file__, module
        seen.append(module)
print(len(seen))
"""


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packager.cached_archive(tmp_path_factory.mktemp("zip"))


def _from_zip(program: str, archive: Path, *arguments: str) -> str:
    """The output of a program for which all comes from the zip, the first on its path."""
    # -I and -S: no site-packages, no environment, no current directory.
    code = f"import sys; sys.path.insert(0, sys.argv[1])\n{program}"
    command = [sys.executable, "-I", "-S", "-c", code, str(archive), *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=archive.parent
    ).stdout.strip()


def test_packages_without_native_code_can_be_imported_from_the_zip_alone(archive: Path) -> None:
    rooms = [f"airflow_hiveacid.{room}" for room in ("format", "plan", "jobs", "metastore")]
    assert int(_from_zip(_IMPORT_ALL, archive, *rooms, "hmsclient")) > 20


def test_the_zip_contains_only_the_packages_applications_and_libraries_for_spark(
    archive: Path,
) -> None:
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    rooms = {
        n.split("/")[1] for n in names if n.startswith("airflow_hiveacid/") and n.count("/") > 1
    }
    assert rooms == set(packager.ROOMS)
    assert {n.split("/")[0] for n in names} == {
        "airflow_hiveacid",
        packager.APPS,
        *packager.LIBRARIES,
    }
    assert "spark_apps/clean.py" in names
    assert {Path(n).suffix for n in names} == {".py", ".pyc"}, "no native code"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (
            "from airflow_hiveacid.acid import Metastore; print(Metastore(uris=('h:1',)).uris)",
            "('h:1',)",
        ),
        ("from airflow_hiveacid import errors as e; e.VersionGoneError; print(1)", "1"),
        (
            "import importlib.util as u; print(u.find_spec('spark_apps.clean').origin)",
            "{zip}/spark_apps/clean.pyc",
        ),
    ],
)
def test_the_public_modules_and_the_applications_can_be_imported_from_the_zip(
    archive: Path, program: str, printed: str
) -> None:
    assert _from_zip(program, archive) == printed.format(zip=archive)


def test_every_library_in_the_zip_is_imported_by_the_provider() -> None:
    sources = [
        file
        for room in packager.ROOMS
        for file in (_ROOT / "airflow_hiveacid" / room).rglob("*.py")
    ]
    nodes = [node for file in sources for node in ast.walk(ast.parse(file.read_text()))]
    imported = {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}
    imported |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    assert {name.partition(".")[0] for name in imported} >= set(packager.LIBRARIES)


def test_the_zip_is_the_same_byte_for_byte_in_every_process(archive: Path, tmp_path: Path) -> None:
    program = f"from pathlib import Path; packager.cached_archive(Path({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", f"from airflow_hiveacid.jobs import packager; {program}"],
        check=True,
        cwd=_ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONHASHSEED": "1"},
    )
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def test_byte_code_of_a_different_python_version_is_ignored(archive: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(foreign, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(
                name, b"\x01\x02\r\n" + content[4:] if name.endswith(".pyc") else content
            )
    program = "import airflow_hiveacid.jobs.job as m; print(m.__file__)"
    assert _from_zip(program, foreign).endswith("job.py")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Less to pack: what these tests are about is where the zip goes, not what is in it."""
    members = {"airflow_hiveacid/__init__.py": b"x = 1\n"}
    monkeypatch.setattr(packager, "archive_members", lambda: members)
    return members


@pytest.mark.usefixtures("small")
def test_an_archive_is_built_once_for_the_same_code(tmp_path: Path) -> None:
    first = packager.cached_archive(tmp_path)
    written = first.stat().st_mtime_ns
    assert packager.cached_archive(tmp_path) == first
    assert first.stat().st_mtime_ns == written
    assert [p.name for p in tmp_path.iterdir()] == [first.name]


def test_changed_code_gets_a_new_archive_file(tmp_path: Path, small: dict[str, bytes]) -> None:
    before = packager.cached_archive(tmp_path)
    small["airflow_hiveacid/__init__.py"] = b"x = 2\n"
    assert packager.cached_archive(tmp_path) != before
    assert before.is_file()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kept", [0, 100, -10])
def test_a_truncated_cached_archive_is_rebuilt(tmp_path: Path, kept: int) -> None:
    path = packager.cached_archive(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    assert packager.cached_archive(tmp_path) == path
    assert path.read_bytes() == whole


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOSPC, errors.StoreUnavailableError), (errno.EROFS, errors.LocationPermissionError)],
)
def test_a_full_or_read_only_disk_is_reported_with_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[errors.HiveAcidError]
) -> None:
    def fail(*_: object, **__: object) -> tuple[int, str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", fail)
    with pytest.raises(error, match=rf"write {tmp_path}/hiveacid-.*\.zip.*TMPDIR"):
        packager.cached_archive(tmp_path)


@pytest.mark.usefixtures("small")
def test_the_complete_archive_is_synced_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    path = packager.cached_archive(tmp_path)
    assert synced == [path.stat().st_size]


def test_a_failed_build_of_an_archive_leaves_no_files(
    tmp_path: Path, small: dict[str, bytes]
) -> None:
    small["broken.py"] = b"def"
    with pytest.raises(SyntaxError):
        packager.cached_archive(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small")
def test_a_cache_directory_writable_by_other_users_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packager.tempfile, "gettempdir", lambda: str(tmp_path))
    planted = tmp_path / f"airflow-hiveacid-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.raises(errors.ConfigurationError, match="not a private directory of this user"):
        packager.cached_archive()


@pytest.mark.usefixtures("small")
def test_the_cache_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packager.tempfile, "gettempdir", lambda: str(tmp_path))
    made = packager.cached_archive().parent
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_missing_library_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packager, "LIBRARIES", ("no-such-library",))
    with pytest.raises(errors.ConfigurationError, match="no-such-library"):
        packager.archive_members()


def test_a_missing_application_is_reported_by_name() -> None:
    with pytest.raises(errors.ConfigurationError, match="'vacuum'"):
        packager.application_path("vacuum")


def test_the_applications_of_a_wheel_are_found_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "airflow_hiveacid" / "_spark_apps"
    inside.mkdir(parents=True)
    (inside / "merge.py").write_text("")
    monkeypatch.setattr(packager, "_PACKAGE", tmp_path / "airflow_hiveacid")
    assert packager.application_path("merge") == inside / "merge.py"


def test_the_zip_contains_every_package_that_its_modules_import() -> None:
    members = packager.archive_members()
    imported = {
        node.module.split(".")[1]
        for name, content in members.items()
        if name.endswith(".py") and name.startswith(("airflow_hiveacid/", f"{packager.APPS}/"))
        for node in ast.walk(ast.parse(content))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("airflow_hiveacid.")
    }
    assert {"spark", "storage"} < imported
    assert imported <= {*packager.ROOMS, *packager.MODULES}
