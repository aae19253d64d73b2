"""An encryption zone of a real HDFS with a real KMS: both clients see rows, the disk sees none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError, StoreUnavailableError
from airflow_hiveacid.storage.stores import filesystem
from airflow_hiveacid.storage.stores.hdfs import connect as hdfs_connect
from airflow_hiveacid.storage.stores.hdfs.handler import PIECE_BYTES
from tests.contract.stores.mini_hdfs import JARS, MiniHdfs, class_path
from tests.contract.stores.mini_kms import MiniKms
from tests.contract.stores.name_node_calls import make_zone

pytestmark = [pytest.mark.server, pytest.mark.clusters]

_KEY = "hadoop.security.key.provider.path"
_ROWS = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"the end"


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MiniHdfs, MiniKms]]:
    """A name node whose /zone is one."""
    with MiniKms.started(tmp_path_factory.mktemp("kms")) as kms:
        kms.make_key("rows")
        settings = [f"{_KEY}={kms.provider}"]
        with MiniHdfs.started(tmp_path_factory.mktemp("hdfs"), settings) as hdfs:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(hdfs_connect.hadoop_settings, "given_settings", dict)
                patch.setenv("HADOOP_USER_NAME", "root")
                filesystem.make_directory(hdfs_connect.open_hdfs("hdfs", hdfs.authority), "/zone")
            make_zone(hdfs.authority, "/zone", "rows")
            yield hdfs, kms


def client(
    hdfs: MiniHdfs, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> pafs.FileSystem:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_USER_NAME", "root")
    monkeypatch.setattr(hdfs_connect.hadoop_settings, "given_settings", lambda: settings)
    return hdfs_connect.open_hdfs("hdfs", hdfs.authority)


def as_java_sees(hdfs: MiniHdfs, conf: Path, *command: str, text: bytes = b"") -> bytes:
    """What Hadoop's own command says, which asks the name node for the KMS."""
    (conf / "core-site.xml").write_text("<configuration/>")  # it does not start without one
    done = subprocess.run(
        [
            *("java", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{conf}:{class_path('mini-hdfs', JARS)}"),
            *("org.apache.hadoop.fs.FsShell", "-D", f"fs.defaultFS={hdfs.uri}", *command),
        ],
        input=text,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


def test_python_and_java_can_read_an_encryption_zone_whose_files_are_encrypted_on_disk(
    zone: tuple[MiniHdfs, MiniKms], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hdfs, kms = zone
    fs = client(hdfs, monkeypatch, {_KEY: kms.provider})
    filesystem.write_bytes(fs, "/zone/t/_tmp/delta/f", _ROWS)
    filesystem.rename_directory(fs, "/zone/t/_tmp/delta", "/zone/t/delta_0000001_0000001_0000")
    written = "/zone/t/delta_0000001_0000001_0000/f"
    assert filesystem.read_bytes(fs, written) == _ROWS
    with fs.open_input_file(written) as stream:
        stream.seek(PIECE_BYTES + 3)
        assert stream.read(300) == _ROWS[PIECE_BYTES + 3 :][:300]
    assert as_java_sees(hdfs, tmp_path, "-cat", written) == _ROWS
    raw = as_java_sees(hdfs, tmp_path, "-cat", f"/.reserved/raw{written}")
    assert len(raw) == len(_ROWS)
    assert _ROWS[:64] not in raw
    as_java_sees(hdfs, tmp_path, "-put", "-", "/zone/t/java", text=_ROWS)
    assert filesystem.read_bytes(fs, "/zone/t/java") == _ROWS


def test_a_missing_kms_setting_is_reported_before_any_file_is_written(
    zone: tuple[MiniHdfs, MiniKms], monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs, _ = zone
    fs = client(hdfs, monkeypatch, {})
    filesystem.make_directory(fs, "/zone/silent")
    monkeypatch.setattr(
        "airflow_hiveacid.storage.stores.filesystem.open_location",
        lambda location: (fs, location.removeprefix(hdfs.uri)),
    )
    with pytest.raises(ConfigurationError, match=_KEY.replace(".", r"\.")) as caught:
        filesystem.check_writable(f"{hdfs.uri}/zone/silent")
    assert "encryption zone" in str(caught.value)
    assert fs.get_file_info(pafs.FileSelector("/zone/silent")) == []


def test_an_unreachable_kms_causes_a_retryable_error(
    zone: tuple[MiniHdfs, MiniKms], monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs, _ = zone
    fs = client(hdfs, monkeypatch, {_KEY: "kms://http@localhost:1/kms"})
    with pytest.raises(StoreUnavailableError):
        filesystem.write_bytes(fs, "/zone/late", b"rows")
