"""Credentials that lie in memory: who can open them, and what is read while they change."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.storage.stores.token_file import TokenFile, scratch

# Where they lie, by Linux's own name of it.
KINDS = {"memfd": "/memfd:", "built without": "/dev/shm/#", "forbidden": "/dev/shm/#"}  # noqa: S108 - no file is made there by name


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python that has files of the kernel's own, or not; and where it has them."""

    def forbid(_: str) -> int:
        raise PermissionError(errno.EACCES, "vm.memfd_noexec")

    if request.param == "built without":
        monkeypatch.delattr(os, "memfd_create")
    elif request.param == "forbidden":
        monkeypatch.setattr(os, "memfd_create", forbid)
    return KINDS[request.param]


def test_a_token_file_has_no_name_on_disk_and_only_its_user_can_open_it(place: str) -> None:
    file = TokenFile()
    file.replace(b"secret")
    assert Path(file.path).read_bytes() == b"secret"
    assert str(Path(file.path).readlink()).startswith(place)
    assert not Path(str(Path(file.path).readlink()).removesuffix(" (deleted)")).exists()
    assert stat.S_IMODE(Path(file.path).stat().st_mode) == 0o600


@pytest.mark.usefixtures("place")
def test_an_open_reader_gets_the_old_content_and_a_later_reader_the_new_content() -> None:
    file = TokenFile()
    file.replace(b"a" * 100)
    path = file.path
    with Path(path).open("rb", buffering=0) as begun:
        assert begun.read(10) == b"a" * 10
        file.replace(b"b")
        assert begun.read() == b"a" * 90
    assert Path(path).read_bytes() == b"b"


def test_a_different_process_can_read_a_token_file_but_does_not_inherit_it(
    place: str,
) -> None:
    file = TokenFile()
    file.replace(b"x")
    file.replace(b"secret")
    look = (
        "import os, sys; print(open(sys.argv[1]).read(),"
        " [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{f}')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look, file.path],
        capture_output=True,
        text=True,
        check=True,
        close_fds=False,
    )
    assert done.stdout.startswith("secret ")
    assert place not in done.stdout


@pytest.mark.usefixtures("place")
def test_a_scratch_file_is_read_by_its_descriptor_and_disappears_when_closed() -> None:
    descriptor, path = scratch()
    try:
        Path(path).write_bytes(b"secret")
        assert os.pread(descriptor, 100, 0) == b"secret"
    finally:
        os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        Path(path).read_bytes()


def test_a_system_without_unnamed_files_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "O_TMPFILE")
    with pytest.raises(OSError, match="only Linux"):
        TokenFile()
