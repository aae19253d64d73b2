"""Looks for secrets where they must not be: files of any kind, and command lines of any process.

Logs, event logs and XComs, which are in Airflow's database, are files that stay (`files_with`). Job
descriptions are files that go with their task, so they are looked at while it runs (`run_looking`).
"""

from __future__ import annotations

import base64
import fnmatch
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus

_LOOK_S: Final = 0.2
_GIVE_UP_S: Final = 900.0


def run_looking(
    script: str,
    secrets: Callable[[], Sequence[bytes]],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
) -> tuple[str, list[str]]:
    """What a script says, and where a secret stood meanwhile: command lines, job descriptions.

    Args:
        script: for bash.
        secrets: asked for at each look, as the script may make them.
        cwd: where it runs.
        env: all that it knows, but for a folder beside the log for what is temporary.
        log: of all that it says.
    """
    scratch = log.parent / "scratch"
    scratch.mkdir()
    seen: set[str] = set()
    with log.open("wb") as output:
        running = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607
            cwd=cwd,
            env={**env, "TMPDIR": str(scratch)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        give_up_s = time.monotonic() + _GIVE_UP_S
        try:
            while running.poll() is None:
                now = secrets()
                seen |= command_lines_with(now)
                seen |= {
                    name for one in scratch.glob("hiveacid-*") for name in files_with(one, now)
                }
                assert time.monotonic() < give_up_s, log.read_text(errors="replace")[-4000:]
                time.sleep(_LOOK_S)
        finally:
            running.kill()
            running.wait()
    said = log.read_text(errors="replace")
    assert running.returncode == 0, said[-4000:]
    return said, sorted(seen)


def forms_of(secret: bytes) -> Iterator[bytes]:
    """How a secret may stand in a text."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    yield base64.b64encode(secret).rstrip(b"=")
    yield base64.urlsafe_b64encode(secret).rstrip(b"=")
    yield quote(secret, safe="").encode()
    yield quote_plus(secret).encode()
    yield repr(secret).encode()[2:-1]
    # Within other bytes base64 begins at any of three places; the middle is what stays.
    for shift in (1, 2):
        yield base64.b64encode(b"\0" * shift + secret)[4:-4]


def command_lines_with(secrets: Sequence[bytes]) -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if any(secret in line for secret in secrets):
            found.add(line.decode(errors="replace"))
    return found


def files_with(folder: Path, words: Sequence[bytes]) -> list[str]:
    """Names of files, below a folder, in which one of the words stands; some may just be going."""
    return [
        str(file.relative_to(folder))
        for file, content in files_below(folder)
        if any(word in content for word in words)
    ]


def files_below(folder: Path, pattern: str = "*") -> Iterator[tuple[Path, bytes]]:
    """Files below a folder and what is in them, while others come and go: so do whole folders.

    `Path.rglob` ends with an error when a folder goes between its being named and its being read.
    """

    def look_again(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error  # nobody has looked there

    for place, _, names in os.walk(folder, onerror=look_again):
        for name in fnmatch.filter(names, pattern):
            file = Path(place, name)
            with suppress(FileNotFoundError):
                if file.is_file():
                    yield file, file.read_bytes()
