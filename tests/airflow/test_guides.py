"""The guides' commands, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def script_of(guide: str) -> str:
    text = (REPOSITORY / "docs" / "guides" / guide).read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


@pytest.mark.server
def test_the_guide_for_ldap_runs_as_written(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    try:
        done = run("bash", "-euo", "pipefail", "-c", script_of("ldap.md"))
    finally:
        run(sys.executable, "-m", "airflow_hiveacid.local", "down")
    assert done.returncode == 0, done.stdout
    assert "Reached a Hive 4 metastore" in done.stdout
    assert "demo.customers: write IDs" in done.stdout
    assert "MetastoreLoginError: no login at metastore" in done.stdout
    password = (tmp_path / "metastore.password").read_text().strip()
    assert password not in done.stdout
    logs = (tmp_path / "build").rglob("*.log*")
    assert [log for log in logs if password in log.read_text(errors="replace")] == []
