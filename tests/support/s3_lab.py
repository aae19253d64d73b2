"""An S3 on this machine (moto), for tests; and what Hadoop's clients are told of it.

moto checks no signatures: any keys are valid. It is strict where it matters here: about names that
are taken, sizes of parts, and uploads that are open.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from wsgiref.types import WSGIApplication

import boto3

from airflow_hiveacid.local import process, releases, site
from airflow_hiveacid.local.distribution import METASTORE_S3A, SPARK_S3A
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import Access
from airflow_hiveacid.storage.stores.hadoop_settings import VARIABLE
from tests.support.chosen_versions import chosen
from tests.support.listening import until_listening

KEYS: Final = {"AWS_ACCESS_KEY_ID": "lab", "AWS_SECRET_ACCESS_KEY": "lab-secret"}
"""What a process finds in its environment."""


# Its web server and Python's each tell whoever asks (`Expect`) to go on, and the client by which
# Spark uploads what a driver needs takes the second time for the answer.
_SERVER: Final = """
import sys
from moto.server import main
from werkzeug.serving import WSGIRequestHandler
WSGIRequestHandler.handle_expect_100 = lambda _: True
main(sys.argv[1:])
"""


def machine() -> dict[str, str]:
    """The environment of a machine whose Spark has S3A's jars, and where AWS's tools find keys."""
    jars = os.pathsep.join(map(str, SPARK_S3A.fetch()))
    return {**KEYS, "SPARK_DIST_CLASSPATH": jars}


@functools.cache
def _client(endpoint: str) -> Any:  # noqa: ANN401 - boto3 has no types
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MotoS3:
    """A server with one bucket; `http` is werkzeug's, where it runs in this process."""

    endpoint: str
    bucket: str
    http: Any = None

    @property
    def settings(self) -> dict[str, str]:
        """As Hadoop's configuration says them; no secret is among them."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        """The same for `spark-submit`."""
        return {f"spark.hadoop.{name}": value for name, value in self.settings.items()}

    @property
    def environment(self) -> dict[str, str]:
        """By which a process of Python reaches it."""
        return {**KEYS, VARIABLE: json.dumps(self.settings)}

    @property
    def secrets(self) -> dict[str, str]:
        """The keys, as Hadoop's configuration says them."""
        return {
            "fs.s3a.access.key": KEYS["AWS_ACCESS_KEY_ID"],
            "fs.s3a.secret.key": KEYS["AWS_SECRET_ACCESS_KEY"],
        }

    @property
    def access(self) -> Access:
        """With which a metastore keeps its warehouse here."""
        return Access(
            settings={**self.settings, **self.secrets, **self.warehouse},
            class_path=METASTORE_S3A.fetch(),
        )

    @property
    def warehouse(self) -> dict[str, str]:
        """Where a metastore keeps its tables."""
        return {
            "metastore.warehouse.dir": f"s3a://{self.bucket}/warehouse",
            "metastore.warehouse.external.dir": f"s3a://{self.bucket}/external",
        }

    @contextmanager
    def metastore(self, folder: Path) -> Iterator[LocalMetastore]:
        """A metastore that keeps its warehouse here, and may have tables elsewhere."""
        config = site.LocalMetastoreConfig(
            version=chosen(releases.HIVE_4.version),
            data_dir=folder,
            access=self.access,
            extra_settings=self.warehouse,
            ends_with_parent=True,
        )
        with LocalMetastore(config) as found:
            yield found

    def client(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """boto3's, for looking behind the product's back."""
        return _client(self.endpoint)

    def objects(self) -> list[str]:
        """The keys of all objects."""
        page = self.client().list_objects_v2(Bucket=self.bucket)
        return [item["Key"] for item in page.get("Contents", ())]

    def uploads(self) -> list[str]:
        """The keys of the uploads that are open."""
        page = self.client().list_multipart_uploads(Bucket=self.bucket)
        return [item["Key"] for item in page.get("Uploads", ())]

    @contextmanager
    def behind(self, front: Callable[[WSGIApplication], WSGIApplication]) -> Iterator[None]:
        """Let something stand before the server, for every client, until the block ends."""
        server = self.http.app
        self.http.app = front(server)
        try:
            yield
        finally:
            self.http.app = server

    def empty(self) -> None:
        """Remove all there is."""
        while found := [{"Key": key} for key in self.objects()]:
            self.client().delete_objects(Bucket=self.bucket, Delete={"Objects": found})
        page = self.client().list_multipart_uploads(Bucket=self.bucket)
        for item in page.get("Uploads", ()):
            self.client().abort_multipart_upload(
                Bucket=self.bucket, Key=item["Key"], UploadId=item["UploadId"]
            )

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[MotoS3]:
        """Start one on a free port; it ends with the block."""
        from moto.server import ThreadedMotoServer  # noqa: PLC0415 - Airflow's environment has none

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
        server = ThreadedMotoServer(ip_address=site.HOST, port=0, verbose=False)
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield cls._with_bucket(f"http://{host}:{port}", server._server)
        finally:
            server.stop()

    @classmethod
    @contextmanager
    def beside(cls, python: Path, log: Path) -> Iterator[MotoS3]:
        """The same as a process of its own, of an environment that has moto.

        Args:
            python: that environment's.
            log: where it writes down each request.
        """
        port = process.free_port(site.HOST)
        with log.open("wb") as said:
            server = subprocess.Popen(
                [str(python), "-c", _SERVER, "--host", site.HOST, "--port", str(port)],
                stdout=said,
                stderr=said,
            )
        try:
            until_listening(server, port)
            yield cls._with_bucket(f"http://{site.HOST}:{port}")
        finally:
            server.terminate()
            server.wait()

    @classmethod
    def _with_bucket(cls, endpoint: str, http: Any = None) -> MotoS3:  # noqa: ANN401 - werkzeug's
        made = cls(endpoint=endpoint, bucket=f"lake-{uuid.uuid4().hex[:8]}", http=http)
        made.client().create_bucket(Bucket=made.bucket)
        return made
