"""Credentials that lie in memory: who can open them, and what is read while they change."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hiveacid.storage.stores.token_file import TokenFile, scratch


def test_the_file_has_no_name_on_a_disk_and_is_its_users_alone() -> None:
    file = TokenFile()
    file.replace(b"secret")
    assert Path(file.path).read_bytes() == b"secret"
    assert str(Path(file.path).readlink()).startswith("/memfd:")
    assert stat.S_IMODE(Path(file.path).stat().st_mode) == 0o600


def test_who_began_to_read_reads_the_old_content_and_who_comes_later_the_new() -> None:
    file = TokenFile()
    file.replace(b"a" * 100)
    path = file.path
    with Path(path).open("rb", buffering=0) as begun:
        assert begun.read(10) == b"a" * 10
        file.replace(b"b")
        assert begun.read() == b"a" * 90
    assert Path(path).read_bytes() == b"b"


def test_another_process_reads_it_as_long_as_this_one_lives_and_inherits_nothing() -> None:
    file = TokenFile()
    file.replace(b"x")
    file.replace(b"secret")
    look = (
        "import os, sys; print(open(sys.argv[1]).read(),"
        " [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{f}')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look, file.path_for_others],
        capture_output=True,
        text=True,
        check=True,
        close_fds=False,
    )
    assert done.stdout.startswith("secret ")
    assert "memfd" not in done.stdout


def test_scratch_is_read_back_by_its_descriptor() -> None:
    descriptor, path = scratch()
    try:
        Path(path).write_bytes(b"secret")
        assert os.pread(descriptor, 100, 0) == b"secret"
    finally:
        os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        Path(path).read_bytes()
