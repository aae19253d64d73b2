"""Knows how to talk to a Java server of this folder: one JSON object a line, rows and an end back.

The other side is `LineServer.java`. The server ends when its input does, so that a test run that is
killed leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Row = list[Any]

# Hive reaches into these; Java 17 closed them.
_OPEN_PACKAGES: Final = tuple(
    f"--add-opens={package}=ALL-UNNAMED"
    for package in (
        *("java.base/java.io", "java.base/java.lang", "java.base/java.lang.reflect"),
        *("java.base/java.math", "java.base/java.net", "java.base/java.nio"),
        *("java.base/java.text", "java.base/java.time", "java.base/java.util"),
        *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic"),
        *("java.base/java.util.regex", "java.base/sun.nio.ch", "java.sql/java.sql"),
        "java.base/jdk.internal.loader",
    )
)
_JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")
_LOG_LINES: Final = 30


class JudgeError(Exception):
    """Hive refused or failed a request.

    `kind` is the Java class of the exception, empty when the process itself ended.
    """

    def __init__(self, message: str, *, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class LineProcess:
    """One server process. Not for several threads at once."""

    def __init__(
        self,
        main_class: str,
        *,
        java: str,
        class_path: str,
        work_dir: Path,
        timezone: str,
        heap_mb: int,
        flags: Sequence[str] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        """Starts the process and waits until it says that it is ready."""
        self._log = work_dir / "judge.log"
        self._log_start = 0
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                (
                    java,
                    f"-Xmx{heap_mb}m",
                    f"-Duser.timezone={timezone}",
                    f"-Djava.io.tmpdir={work_dir}",
                    *_JVM_FLAGS,
                    *_OPEN_PACKAGES,
                    *flags,
                    main_class,
                    *arguments,
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=work_dir,
                env={**os.environ, "CLASSPATH": class_path},
                encoding="utf-8",
            )
        self._answer()

    def request(self, request: Mapping[str, Any]) -> tuple[list[Row], dict[str, Any]]:
        """Sends one request and returns its rows, in the server's order, and its result.

        Raises:
            JudgeError: Hive failed, or the process ended.
        """
        self.send(request)
        return self._answer()

    def send(self, request: Mapping[str, Any]) -> None:
        """Sends a request whose answer does not matter, such as one that never ends.

        Raises:
            JudgeError: The process has ended.
        """
        if self._process.stdin is None or self._process.poll() is not None:
            raise self._ended()
        self._log_start = self._log.stat().st_size
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Ends the process at once, whatever it does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the process and waits for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _answer(self) -> tuple[list[Row], dict[str, Any]]:
        rows: list[Row] = []
        for line in self._process.stdout or ():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise JudgeError(f"the judge answered with something else: {line!r}") from error
            if isinstance(value, list):
                rows.append(value)
            elif "error" in value:
                raise JudgeError(value["error"] + self._causes(), kind=value["type"])
            else:
                return rows, value
        raise self._ended()

    def _causes(self) -> str:
        """Names what the log says about the request: a failed task's error is nowhere else."""
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        causes = [line for line in lines if line.startswith("Caused by: ")]
        return "".join(f"\n  {cause}" for cause in dict.fromkeys(causes[-_LOG_LINES:]))

    def _ended(self) -> JudgeError:
        status = self._process.wait()
        end = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return JudgeError(f"the judge's process ended with status {status}:\n" + "\n".join(end))
