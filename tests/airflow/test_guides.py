"""The guides' commands, run one after the other as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kerberos_lab import USER, KerberosLab
from short_jvms import ENVIRONMENT

REPOSITORY = Path(__file__).resolve().parents[2]


def script_of(guide: str) -> str:
    text = (REPOSITORY / "docs" / "guides" / guide).read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


@pytest.mark.server
def test_the_guide_for_hdfs_behind_kerberos_runs_as_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with KerberosLab(tmp_path / "lab") as lab:
        variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "AIRFLOW_HOME": str(work / "airflow"),
            "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(REPOSITORY / ".venv-spark" / "bin"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "SPARK_LOCAL_IP": "127.0.0.1",
            # What a machine of a realm has in /etc/krb5.conf.
            "KRB5_CONFIG": str(lab.kdc.configuration),
            "JAVA_TOOL_OPTIONS": lab.hdfs.jvm_flag,
            **ENVIRONMENT,
            "HADOOP_CONF_DIR": str(lab.hdfs.conf),
            "METASTORE": lab.metastore.uri,
            "SERVICE": f"hive/_HOST@{lab.kdc.config.realm}",
            "PRINCIPAL": lab.kdc.principal(USER),
            "KEYTAB": str(lab.kdc.keytab(USER)),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script_of("hdfs-kerberos.md")],  # noqa: S607
            cwd=work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        (work / "said.log").write_text(done.stdout)
        assert done.returncode == 0, done.stdout[-4000:]
        assert "Reached a Hive 4 metastore" in done.stdout
        assert done.stdout.count("Grace") >= 1
        assert "There is no ticket: run kinit" in done.stdout
        # XComs are in Airflow's database, specs in its temporary files and in Spark's command.
        lab.folder = tmp_path
        assert lab.leaks() == []


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
