"""A real KMS of Hadoop, which keeps the keys of encryption zones; one that believes user names.

Maven brings it once; its keys lie in its folder, and it forgets everything with that.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from airflow_hiveacid.local.process import free_port
from tests.contract.stores.mini_hdfs import class_path
from tests.support.listening import until_listening

_MAIN: Final = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
_JARS: Final = ("hadoop-kms", "hadoop-common")
_LOG: Final = """log4j.rootLogger=WARN,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""


@dataclass(frozen=True, slots=True)
class MiniKms:
    """A server that runs."""

    port: int

    @property
    def provider(self) -> str:
        """What hadoop.security.key.provider.path says of it."""
        return f"kms://http@localhost:{self.port}/kms"

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[MiniKms]:
        """Run one as long as the block; its files and its log are in the folder."""
        conf, kms = folder / "conf", cls(free_port("127.0.0.1"))
        for place in (conf, folder / "temp", folder / "logs"):
            place.mkdir(parents=True)
        (conf / "password").touch(0o600)
        (conf / "password").write_text(secrets.token_hex(16))
        _write(
            conf / "kms-site.xml",
            {
                "hadoop.kms.key.provider.uri": f"jceks://file@{folder / 'keys'}",
                "hadoop.security.keystore.java-keystore-provider.password-file": "password",
                "hadoop.kms.authentication.type": "simple",
                "hadoop.kms.http.host": "127.0.0.1",
                "hadoop.kms.http.port": str(kms.port),
            },
        )
        _write(conf / "core-site.xml", {})  # it does not start without one
        rights = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")
        _write(conf / "kms-acls.xml", {f"default.key.acl.{right}": "*" for right in rights})
        (conf / "kms-log4j.properties").write_text(_LOG)
        command = [
            *("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-Djava.net.preferIPv4Stack=true", f"-Dkms.config.dir={conf}"),
            *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
            f"-Dlog4j.configuration=file:{conf / 'kms-log4j.properties'}",
            *(f"-Dkms.temp.dir={folder / 'temp'}", f"-Dkms.log.dir={folder / 'logs'}"),
            *("-cp", f"{conf}:{class_path('mini-kms', _JARS)}", _MAIN),
        ]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            until_listening(server, kms.port)
            yield kms
        finally:
            server.kill()
            server.wait()

    def make_key(self, name: str) -> None:
        """Make a key, as `hadoop key create` does."""
        body = {"name": name, "cipher": "AES/CTR/NoPadding", "length": 128}
        request = urllib.request.Request(
            f"http://localhost:{self.port}/kms/v1/keys?user.name=root",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
            assert answer.status == 201  # created


def _write(file: Path, settings: Mapping[str, str]) -> None:
    entries = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{entries}</configuration>\n")
