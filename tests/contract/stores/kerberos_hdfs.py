"""A real HDFS that wants Kerberos: block tokens, and protected calls and data.

Nobody is root: data nodes listen on ports of their own, and say who they are by SASL. Takes a realm
of `LocalKdc`, whose folder holds the keytabs; gives the server, and a folder for HADOOP_CONF_DIR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.support.logins.kdc import LocalKdc

SERVICE: Final = "hdfs/localhost"
"""Name node and data node; who has logged in with its key is the superuser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosHdfs:
    """A server that runs.

    Attributes:
        server: it, and its process.
        kdc: whose principals it lets in.
        folder: of the server, with its log.
        client: what a client's core-site.xml has to say, by name.
        conf: a folder with that file.
    """

    server: MiniHdfs
    kdc: LocalKdc
    folder: Path
    client: Mapping[str, str]
    conf: Path

    @property
    def uri(self) -> str:
        return self.server.uri

    @property
    def environment(self) -> dict[str, str]:
        """What takes part in realm and HDFS, and has no ticket yet."""
        return {
            "HADOOP_CONF_DIR": str(self.conf),
            "KRB5_CONFIG": str(self.kdc.configuration),
            "KRB5CCNAME": "FILE:/nowhere/cache",
        }

    @property
    def jvm_flag(self) -> str:
        """What a JVM needs beside `conf`."""
        return f"-Djava.security.krb5.conf={self.kdc.configuration}"

    @classmethod
    @contextmanager
    def started(
        cls,
        folder: Path,
        kdc: LocalKdc,
        *,
        protection: str = "privacy",
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[KerberosHdfs]:
        """Run one as long as the block.

        Args:
            folder: for its files; made if missing.
            kdc: a realm that runs.
            protection: of calls and of data: authentication, integrity or privacy.
            settings: others of the server's.
        """
        principal, keytab = kdc.principal(SERVICE), kdc.keytab(SERVICE)
        client = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protection,
            "dfs.data.transfer.protection": protection,
            "dfs.namenode.kerberos.principal": principal,
        }
        server = {
            **client,
            "dfs.namenode.keytab.file": str(keytab),
            "dfs.datanode.kerberos.principal": principal,
            "dfs.datanode.keytab.file": str(keytab),
            "dfs.block.access.token.enable": "true",
            "dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
            "dfs.web.authentication.kerberos.principal": principal,
            "dfs.web.authentication.kerberos.keytab": str(keytab),
            # Else data nodes want HTTPS, or ports below 1024, beside the login by SASL.
            "ignore.secure.ports.for.testing": "true",
            # The metastore makes directories in the name of whom it serves.
            "hadoop.proxyuser.hive.users": "*",
            "hadoop.proxyuser.hive.hosts": "*",
            **(settings or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)
        words = [f"{name}={value}" for name, value in server.items()]
        flags = [f"-Djava.security.krb5.conf={kdc.configuration}"]
        conf = folder / "conf"
        conf.mkdir(exist_ok=True)
        with MiniHdfs.started(folder, words, flags) as hdfs:
            _write_site(conf / "core-site.xml", {**client, "fs.defaultFS": hdfs.uri})
            yield cls(server=hdfs, kdc=kdc, folder=folder, client=client, conf=conf)


def _write_site(file: Path, settings: Mapping[str, str]) -> None:
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>{''.join(lines)}</configuration>\n")
