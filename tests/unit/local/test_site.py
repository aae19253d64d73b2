from __future__ import annotations

import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hiveacid.local.site import (
    Access,
    Language,
    LocalMetastoreConfig,
    PostgresDatabase,
    fingerprint,
    settings,
    write_conf,
)
from tests.support.logins.access_kinds import http

POSTGRES = PostgresDatabase(
    host="127.0.0.1", port=5433, name="hms", user="hive", password="s3cret<&>"
)


@pytest.fixture(params=["4.0.1", "3.1.3"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> LocalMetastoreConfig:
    return LocalMetastoreConfig(version=request.param, data_dir=tmp_path)


def read_site(conf: Path, name: str = "metastore-site.xml") -> dict[str, str]:
    root = ET.parse(conf / name).getroot()
    return {entry.findtext("name", ""): entry.findtext("value", "") for entry in root}


def test_the_written_site_files_contain_exactly_the_settings(config: LocalMetastoreConfig) -> None:
    config = replace(config, database=POSTGRES, extra_settings={"a.b": "x < y & z"})
    conf = write_conf(config, port=9083)
    assert read_site(conf) == read_site(conf, "hive-site.xml") == settings(config, port=9083)


def test_transactions_without_heartbeats_time_out_on_both_versions(
    config: LocalMetastoreConfig,
) -> None:
    found = settings(replace(config, txn_timeout_s=20, housekeeping_interval_s=2), port=1)
    assert found["metastore.txn.timeout"] == "20000ms"
    if config.version == "4.0.1":
        assert found["metastore.housekeeping.threads.on"] == "true"
        assert found["metastore.acid.housekeeper.interval"] == "2000ms"
        assert "AcidHouseKeeperService" not in found["metastore.task.threads.always"]
    else:
        assert found["metastore.timedout.txn.reaper.interval"] == "2000ms"
        assert "AcidHouseKeeperService" in found["metastore.task.threads.always"]
        assert "AcidOpenTxnsCounterService" in found["metastore.task.threads.always"]


def test_hives_initiator_and_cleaner_are_off_by_default(config: LocalMetastoreConfig) -> None:
    found = settings(config, port=1)
    assert found["metastore.compactor.initiator.on"] == "false"
    assert found["metastore.compactor.cleaner.on"] == "false"
    found = settings(replace(config, initiator_on=True, cleaner_on=True), port=1)
    assert found["metastore.compactor.initiator.on"] == "true"
    assert found["metastore.compactor.cleaner.on"] == "true"


def test_managed_and_external_tables_have_separate_warehouse_directories(
    config: LocalMetastoreConfig,
) -> None:
    found = settings(config, port=1)
    assert found["metastore.warehouse.dir"] == config.warehouse.as_uri()
    assert found["metastore.warehouse.external.dir"] != found["metastore.warehouse.dir"]


def test_extra_settings_override_the_defaults(config: LocalMetastoreConfig) -> None:
    config = replace(config, extra_settings={"metastore.txn.timeout": "7s"})
    assert settings(config, port=1)["metastore.txn.timeout"] == "7s"


def test_only_the_owner_can_read_the_file_with_the_password(config: LocalMetastoreConfig) -> None:
    conf = config.data_dir / "conf"
    conf.mkdir()
    (conf / "metastore-site.xml").touch(mode=0o644)
    write_conf(replace(config, database=POSTGRES), port=1)
    assert stat.S_IMODE((conf / "metastore-site.xml").stat().st_mode) == 0o600


def test_the_repr_of_a_configuration_contains_no_password(config: LocalMetastoreConfig) -> None:
    assert POSTGRES.password not in repr(replace(config, database=POSTGRES))


def test_the_fingerprint_depends_on_settings_but_not_on_the_port_or_the_password(
    config: LocalMetastoreConfig,
) -> None:
    postgres = replace(config, database=POSTGRES)
    same = replace(postgres, port=9083, database=replace(POSTGRES, password="other"))
    assert fingerprint(same) == fingerprint(postgres)
    assert fingerprint(replace(postgres, txn_timeout_s=1)) != fingerprint(postgres)
    assert fingerprint(postgres) != fingerprint(config)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": "2.3.9"}, "2.3.9"),
        ({"data_dir": Path("build")}, "data_dir"),
        ({"port": 70_000}, "port"),
        ({"txn_timeout_s": 0}, "txn_timeout_s"),
        ({"heap_mb": -1}, "heap_mb"),
    ],
)
def test_an_invalid_value_is_refused_with_its_name(
    config: LocalMetastoreConfig, change: dict[str, object], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        replace(config, **change)


def test_a_login_adds_its_own_settings_to_the_site_files(config: LocalMetastoreConfig) -> None:
    access = Access(
        language=Language.SASL,
        settings={"metastore.sasl.enabled": "true", "some.password": "hidden"},
        core_settings={"hadoop.security.authentication": "kerberos"},
        jvm_flags=("-Djava.security.krb5.conf=/k",),
    )
    guarded = replace(config, access=access)
    conf = write_conf(guarded, port=1)
    assert read_site(conf)["metastore.sasl.enabled"] == "true"
    assert read_site(conf, "core-site.xml") == dict(access.core_settings)
    assert fingerprint(guarded) != fingerprint(config)
    assert "hidden" not in repr(guarded)
    assert read_site(write_conf(config, port=1), "core-site.xml") == {}
    other = replace(access, settings={**access.settings, "some.password": "other"})
    assert fingerprint(replace(config, access=other)) == fingerprint(guarded)


def test_a_login_that_a_release_does_not_support_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not support this login and would accept every user"):
        LocalMetastoreConfig(version="3.1.3", data_dir=tmp_path, access=http())
