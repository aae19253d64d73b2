"""The guides' commands, run one after the other as they stand there."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.local.distribution import SPARK_S3A
from tests.support.kerberos_lab import FOLDERS, USER, KerberosLab, keys_of
from tests.support.login_lab import LoginLab
from tests.support.mini_yarn import MiniYarn, YarnLogin, outside
from tests.support.s3_lab import MotoS3
from tests.support.secret_search import files_with, forms_of, run_looking
from tests.support.short_jvms import ENVIRONMENT, SHORT_LIVED
from tests.support.spark_cluster import standalone_cluster

REPOSITORY = Path(__file__).resolve().parents[2]
_SPARK: Final = REPOSITORY / ".venv-spark"


def script_of(guide: str) -> str:
    text = (REPOSITORY / "docs" / "guides" / guide).read_text()
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


@pytest.mark.server
@pytest.mark.long
def test_every_command_of_the_guide_for_hdfs_with_kerberos_runs(tmp_path: Path) -> None:
    work, events = tmp_path / "work", tmp_path / "events"
    work.mkdir()
    events.mkdir()
    with KerberosLab(tmp_path / "lab") as lab:
        variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "AIRFLOW_HOME": str(work / "airflow"),
            "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(REPOSITORY / ".venv-spark" / "bin"),
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
            "SPARK_LOCAL_IP": "127.0.0.1",
            **ENVIRONMENT,
            **small_drivers(events),
            # What a machine of a realm has in /etc/krb5.conf.
            "KRB5_CONFIG": str(lab.kdc.configuration),
            "JAVA_TOOL_OPTIONS": lab.hdfs.jvm_flag,
            "HADOOP_CONF_DIR": str(lab.hdfs.conf),
            "METASTORE": lab.metastore.uri,
            "SERVICE": f"hive/_HOST@{lab.kdc.config.realm}",
            "PRINCIPAL": lab.kdc.principal(USER),
            "KEYTAB": str(lab.kdc.keytab(USER)),
        }
        keys = keys_of(lab.kdc.keytab(USER).read_bytes())
        secrets = [form for key in keys for form in forms_of(key)]
        said, seen = run_looking(
            script_of("hdfs-kerberos.md"),
            lambda: secrets,
            cwd=work,
            env=variables,
            log=work / "said.log",
        )
        assert "Reached a Hive 4 metastore" in said
        assert said.count("Grace") >= 1
        assert "There is no ticket: run kinit" in said
        assert files_with(events, [b"SparkListenerApplicationStart"])
        assert files_with(work / "airflow", [b'"committed"'])
        assert seen == []
        # XComs are in Airflow's database, specs in its temporary files and in Spark's command.
        lab.folder = tmp_path
        assert lab.leaks() == []


@pytest.mark.server
@pytest.mark.clusters
def test_every_command_of_the_guide_for_yarn_with_kerberos_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(KerberosLab(tmp_path / "lab"))
        monkeypatch.setenv("KRB5_CONFIG", str(lab.kdc.configuration))
        lab.as_superuser(FOLDERS)
        login = YarnLogin(hdfs=lab.hdfs, user=USER)
        yarn = stack.enter_context(MiniYarn.started(lab.folder / "yarn", lab.hdfs.uri, login))
        jars = next(_SPARK.glob("lib/python3*/site-packages/pyspark/jars"))
        (lab.folder / "events").mkdir()
        small = small_drivers(lab.folder / "events") | {"SPARK_DRIVER_MEMORY": "512m"}
        # No host of a driver's: it runs in a container.
        flags = re.sub(r'"-Dspark\.driver\.\w+=[^"]*" ?', "", small["SPARK_SUBMIT_OPTS"])
        more = {"yarn.jars": f"local:{jars}/*", "executor.instances": "1", "executor.cores": "1"}
        flags += "".join(f' "-Dspark.{name}={value}"' for name, value in more.items())
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script_of("yarn-kerberos.md")],  # noqa: S607
            cwd=work,
            env={
                **machine_without_keys(lab.folder),
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(REPOSITORY),
                "AIRFLOW_HOME": str(work / "airflow"),
                "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(_SPARK / "bin"),
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
                **small,
                "SPARK_SUBMIT_OPTS": flags,
                **login.environment,
                "HADOOP_CONF_DIR": str(yarn.conf),
                "METASTORE": lab.metastore.uri,
                "SERVICE": f"hive/_HOST@{lab.kdc.config.realm}",
                "PRINCIPAL": lab.kdc.principal(USER),
                "KEYTAB": str(lab.kdc.keytab(USER)),
                "RESULTS": f"{lab.hdfs.uri}/results",
                "NODE_PYTHON": str(_SPARK / "bin" / "python"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        (work / "said.log").write_text(done.stdout)
        assert done.returncode == 0, done.stdout[-4000:]
        assert done.stdout.count("Grace") >= 1
        (app,) = yarn.applications()
        assert (app["user"], app["finalStatus"]) == (USER, "SUCCEEDED")
        # XComs are in Airflow's database, specs in its temporary files and in Spark's command.
        lab.folder = tmp_path
        assert yarn.keep_secrets() > 0
        assert outside(lab.leaks()) == []


@pytest.mark.server
@pytest.mark.long
def test_every_command_of_the_guide_for_ldap_runs(tmp_path: Path) -> None:
    work, events, lab_folder = (tmp_path / name for name in ("work", "events", "lab"))
    for folder in (work, events, lab_folder):
        folder.mkdir()
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "AIRFLOW_HOME": str(work / "airflow"),
        "AIRFLOW__HIVEACID__SPARK_BIN_DIR": str(_SPARK / "bin"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "SPARK_LOCAL_IP": "127.0.0.1",
        **ENVIRONMENT,
        **small_drivers(events),
    }

    with LoginLab(lab_folder) as lab:
        server, password = lab.server("LDAP in TLS", "4.0.1"), lab.directory.password_file
        variables |= {
            "METASTORE": server.uri,
            "PASSWORD": str(password),
            "AUTHORITY": str(lab.certificates.authority),
        }
        # In clear, and as a directory is told them.
        secret = password.read_bytes().strip()
        secrets = [secret, base64.b64encode(secret), lab.certificates.store_password().encode()]
        said, seen = run_looking(
            script_of("ldap.md"),
            lambda: secrets,
            cwd=work,
            env=variables,
            log=tmp_path / "said.log",
        )
    assert "Reached a Hive 4 metastore" in said
    assert "delta_0000001_0000001_0000" in said
    assert "MetastoreLoginError: cannot log in to metastore" in said
    assert files_with(events, [b"SparkListenerApplicationStart"])
    # XComs are in Airflow's database.
    assert files_with(work / "airflow", [b'"committed"'])
    assert seen == []
    # The directory's own database, and what opens the metastore's keystore in its own settings.
    own = re.compile(r"(\.password|\.mdb|-site\.xml)\Z")
    found = [name for name in files_with(tmp_path, secrets) if not own.search(name)]
    assert found == []
    (tmp_path / "planted").write_bytes(b"x" + secret)
    assert "planted" in files_with(tmp_path, secrets)


# ---- S3 ------------------------------------------------------------------------------------------


@pytest.mark.server
@pytest.mark.clusters
def test_every_command_of_the_guide_for_s3_runs(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    work, events, worker = lab / "work", lab / "events", lab / "worker"
    for folder in (work, events, worker / "conf"):
        folder.mkdir(parents=True)
    of_jobs, of_workers = (key_file(tmp_path, name) for name in ("jobs", "workers"))
    # What the guide says of each machine of Spark.
    (worker / "conf" / "spark-env.sh").write_text(f". {of_workers}\n")
    secrets = [secret_in(file).encode() for file in (of_jobs, of_workers)]
    with contextlib.ExitStack() as stack:
        s3 = stack.enter_context(MotoS3.beside(_SPARK / "bin" / "python", lab / "s3.log"))
        metastore = stack.enter_context(s3.metastore(lab / "metastore"))
        machine = machine_without_keys(lab)
        (home,) = _SPARK.glob("lib/python3*/site-packages/pyspark")
        of_worker = {**machine, "SPARK_CONF_DIR": str(worker / "conf")}
        master = stack.enter_context(standalone_cluster(home, worker, of_worker, cores=2))
        said, seen = run_looking(
            script_of("s3.md"),
            lambda: secrets,
            cwd=work,
            log=lab / "said.log",
            env={
                **machine,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(REPOSITORY),
                "AIRFLOW_HOME": str(work / "airflow"),
                "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
                **small_drivers(events),
                "ENDPOINT": s3.endpoint,
                "REGION": "us-east-1",
                "BUCKET": s3.bucket,
                "KEYS": str(of_jobs),
                "METASTORE": metastore.uri,
                "MASTER": master,
                "SPARK": str(_SPARK),
                "S3A": str(folder_of_jars(lab / "s3a")),
            },
        )
        lines = [line.rstrip(",") for line in said.splitlines() if line.startswith('{"id": ')]
        rows = [list(json.loads(line).values()) for line in lines]
        assert sorted(rows) == [[1, "Ada"], [2, "Grace Hopper"], [3, "Edsger"], [4, "Barbara"]], (
            said
        )
        below = "warehouse/on_s3.db/customers/"
        kept = {key.removeprefix(below).split("/")[0] for key in s3.objects() if below in key}
        (base,) = kept - {"", "_hiveacid"}
        assert re.fullmatch(r"base_0000002_v\d+", base)
        assert base in said  # by `inspect`
        assert s3.uploads() == []
        (rule,) = s3.client().get_bucket_lifecycle_configuration(Bucket=s3.bucket)["Rules"]
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "versioning: off" in said
    assert "no credentials are found where Python looks for them" in said
    # Jobs ran where the guide says, and their event logs can be read: Spark had the driver's keys.
    for words in (b"SparkListenerExecutorAdded", b'"fs.s3a.secret.key":"*********(redacted)"'):
        assert files_with(events, [words]), words
    # XComs are in Airflow's database.
    assert files_with(work / "airflow", [b'"committed"'])
    assert seen == []
    assert files_with(lab, secrets) == []
    (lab / "planted").write_bytes(b"x" + secrets[1])
    assert files_with(lab, secrets) == ["planted"]


def key_file(folder: Path, name: str) -> Path:
    """A file as the guide has it, of keys that nobody else has."""
    file = folder / f"{name}.keys"
    file.touch(mode=0o600)
    file.write_text(f"AWS_ACCESS_KEY_ID={name}\nAWS_SECRET_ACCESS_KEY=canary{uuid.uuid4().hex}\n")
    return file


def secret_in(file: Path) -> str:
    return file.read_text().strip().rpartition("=")[2]


def folder_of_jars(folder: Path) -> Path:
    folder.mkdir()
    for jar in SPARK_S3A.fetch():
        (folder / jar.name).symlink_to(jar)
    return folder


def machine_without_keys(lab: Path) -> dict[str, str]:
    """The environment of a process on a machine where AWS's tools find nothing by themselves."""
    own = ("AIRFLOW_", "AWS_", "PYTHON", "SPARK_", "HADOOP_")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(own)},
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_SHARED_CREDENTIALS_FILE": str(lab / "none"),
        "AWS_CONFIG_FILE": str(lab / "none"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **ENVIRONMENT,
    }


def small_drivers(events: Path) -> dict[str, str]:
    """What a machine with two cores adds to the guide, and event logs in clear."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        # Spark 4 compresses them otherwise, and nothing would be found in there.
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{events}",
    }
    flags = " ".join(f'"-D{name}={value}"' for name, value in settings.items())
    return {"SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} {flags}", "SPARK_DRIVER_MEMORY": "768m"}
