"""Gives tests of stores HDFS twice, a client in memory and a real name node's, and an S3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import hdfs_native
import pytest
from botocore import endpoint
from pyarrow import fs as pafs

from airflow_hiveacid.storage.stores import filesystem, locations
from airflow_hiveacid.storage.stores.hdfs.connect import open_hdfs
from airflow_hiveacid.storage.stores.hdfs.handler import HdfsHandler
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.s3 import bucket as s3_bucket
from tests.contract.stores.hdfs_model import Entry, Model, Options
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.contract.stores.s3_faults import Faults
from tests.support.s3_lab import MotoS3

_numbers: Final = itertools.count(1)
_UMASK: Final = 0o022


@dataclass(frozen=True, slots=True, kw_only=True)
class Hdfs:
    """One HDFS, and a directory of it that is empty and one's own.

    `client` is what is below `fs`. `entry` makes an entry of an access control list, `options` say
    how a file is written.
    """

    fs: pafs.FileSystem
    client: Any
    store: str
    root: str
    entry: Callable[..., Any]
    options: Callable[..., Any]
    connect_as: Callable[[str], pafs.FileSystem]
    is_real: bool

    @property
    def uri(self) -> str:
        return f"{self.store}{self.root}"

    def path(self, uri: str) -> str:
        return uri.removeprefix(self.store)

    def of_user(self, name: str) -> pafs.FileSystem:
        return self.connect_as(name)

    def permission(self, path: str) -> int:
        found: int = self.client.get_file_info(path).permission
        return found

    def give_default_list(self, path: str, user: str) -> None:
        self.client.modify_acl_entries(path, [self.entry("user", "default", "rwx", user)])

    def open_for_writing(self, path: str) -> Any:  # noqa: ANN401 - the client's own
        return self.client.create(
            path, self.options(permission=0o644, overwrite=True, create_parent=True)
        )

    def check_writable(self, fs: pafs.FileSystem, path: str) -> None:
        """As the function of this name, for another user's client."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(filesystem, "open_location", lambda _: (fs, path))
            filesystem.check_writable(f"{self.store}{path}")


@pytest.fixture(params=["model", pytest.param("real", marks=pytest.mark.server)])
def hdfs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    made: Hdfs = request.getfixturevalue(f"{request.param}_hdfs")
    monkeypatch.setattr(locations, "_hadoop", lambda *_: made.fs)
    make = made.client.mkdirs
    make(made.root, 0o755, True)  # noqa: FBT003 - the client's own
    return made


@pytest.fixture
def model_hdfs() -> Hdfs:
    model = Model()

    def handler(client: Model) -> pafs.FileSystem:
        return pafs.PyFileSystem(HdfsHandler("hdfs://model", client, _UMASK, Options))

    return Hdfs(
        fs=handler(model),
        client=model,
        store="hdfs://model",
        root=f"/contract_{next(_numbers)}",
        entry=Entry,
        options=Options,
        connect_as=lambda user: handler(Model(model.tree, user)),
        is_real=False,
    )


@pytest.fixture
def real_hdfs(mini_hdfs: MiniHdfs, monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)

    def as_user(user: str) -> pafs.FileSystem:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HADOOP_USER_NAME", user)
            fs = open_hdfs("hdfs", mini_hdfs.authority)
            fs.get_file_info("/")  # a client is whom it was at its first call
            return fs

    return Hdfs(
        fs=open_hdfs("hdfs", mini_hdfs.authority),
        client=hdfs_native.Client(mini_hdfs.uri),
        store=mini_hdfs.uri,
        root=f"/contract_{next(_numbers)}",
        entry=hdfs_native.AclEntry,
        options=hdfs_native.WriteOptions,
        connect_as=as_user,
        is_real=True,
    )


@pytest.fixture(scope="session")
def mini_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniHdfs]:
    folder: Path = tmp_path_factory.mktemp("hdfs")
    with MiniHdfs.started(folder) as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoS3]:
    with MotoS3.started() as server:
        yield server


@pytest.fixture
def s3(moto: MotoS3, monkeypatch: pytest.MonkeyPatch) -> MotoS3:
    """An empty bucket, as a worker of Spark's meets it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3_bucket, "_CONFLICT_PAUSE_S", 0.0)
    # Between its attempts botocore waits for up to twenty seconds.
    monkeypatch.setattr(endpoint, "time", SimpleNamespace(sleep=lambda _: None))
    moto.empty()
    return moto


@pytest.fixture
def table(s3: MotoS3) -> str:
    return f"s3a://{s3.bucket}/w/t"


@pytest.fixture
def faults(s3: MotoS3) -> Iterator[Faults]:
    made = Faults()
    locations._s3.cache_clear()
    fs, _ = open_location(f"s3a://{s3.bucket}/x")
    made.install(fs.handler._bucket._api)
    yield made
    locations._s3.cache_clear()
