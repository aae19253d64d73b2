"""Knows how to run statements in Trino 483 against a metastore.

Trino needs Java 25, which is looked for in `$JAVA25_HOME`, else among the system's JVMs; a user may
have none. Tables have to be made by somebody else: on a 4.x metastore Trino makes no ACID tables
(trinodb/trino#24454).

Example:
    with TrinoJudge("thrift://127.0.0.1:9083") as trino:
        trino.execute("delete from db.t where id = 7")
        rows = trino.execute("select * from db.t")
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.judges.engine import SqlEngine
from tests.judges.installation import InstallationError, Judge, installation
from tests.judges.line_process import LineProcess

VERSION: Final = "483"
_FLAGS: Final = (
    "--add-modules=jdk.incubator.vector",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)


def why_not() -> str | None:
    """Why Trino cannot run here; None where it can."""
    try:
        Judge.TRINO.tool("javac")
    except InstallationError as error:
        return str(error)
    return None


class TrinoJudge(SqlEngine):
    """Trino in a process of its own. Not for several threads at once.

    Args:
        properties: Further ones of the catalog; no secrets, which are in nobody's arguments.
    """

    def __init__(
        self,
        metastore_uri: str,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 2048,
    ) -> None:
        work_dir = Path(tempfile.mkdtemp(prefix="trino-judge-"))
        process = LineProcess(
            "judge.TrinoServer",
            java=Judge.TRINO.tool("java"),
            class_path=installation(Judge.TRINO).class_path(),
            work_dir=work_dir,
            timezone="UTC",
            heap_mb=heap_mb,
            flags=_FLAGS,
            arguments=(
                metastore_uri,
                str(work_dir),
                *(f"{name}={value}" for name, value in (properties or {}).items()),
            ),
        )
        super().__init__(process, work_dir)
