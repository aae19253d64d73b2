"""A private Kerberos realm for a metastore, from Debian's packages.

Input is a folder. Output is a realm with a KDC on its own port, keytabs, and tickets. The module
does not change the system's Kerberos configuration, and does not need root. A process selects the
realm with KRB5_CONFIG, and a JVM with `java.security.krb5.conf`. Keys are random and stored in
keytabs of mode 0600.
"""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import LocalServerError, Progress, Server, log_progress
from airflow_hiveacid.local.site import HOST
from tests.support.logins import daemon, debian, openssl

REALM: Final = "HIVEACID.TEST"
_PACKAGES: Final = {
    "krb5kdc": "krb5-kdc",
    "kdb5_util": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "kinit": "krb5-user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalKdcConfig:
    """The location and name of a Kerberos realm.

    Attributes:
        data_dir: The realm's files; created if missing.
        realm: The realm's name.
        ticket_life: The maximum lifetime of a ticket, in Kerberos' notation.
        ends_with_parent: See `LocalMetastoreConfig`.
    """

    data_dir: Path
    realm: str = REALM
    ticket_life: str = "10h"
    ends_with_parent: bool = False


class LocalKdc(Server):
    """One realm with its KDC; mutable, because the object tracks the KDC's process."""

    def __init__(self, config: LocalKdcConfig, *, progress: Progress = log_progress) -> None:
        self.config = config
        self._progress = progress
        self._daemon = daemon.Daemon(
            "a KDC",
            config.data_dir,
            ends_with_parent=config.ends_with_parent,
            progress=progress,
        )

    @property
    def configuration(self) -> Path:
        """The Kerberos configuration, for KRB5_CONFIG of processes that use the realm."""
        return self.config.data_dir / "krb5.conf"

    @property
    def log_file(self) -> Path:
        """The KDC's output, including each request."""
        return self.config.data_dir / "kdc.log"

    def principal(self, name: str) -> str:
        """Return the full name of a principal of this realm."""
        return f"{name}@{self.config.realm}"

    def is_running(self) -> bool:
        """Return True if the KDC runs, even if a different program has started it."""
        return self._daemon.port is not None

    def start(self) -> None:
        """Start the KDC, unless it already runs; create the realm at the first start."""
        programs = debian.find_programs(_PACKAGES)
        openssl.private_folder(self.config.data_dir)
        if self.is_running():
            return
        port = self._daemon.choose_port()
        self._write_configuration(port, programs)
        if not self._is_made.is_file():
            self._make_realm()
        self._daemon.start(
            [programs["krb5kdc"], "-n", "-r", self.config.realm],
            self._environment(programs),
            port=port,
            log=self.config.data_dir / "kdc.out",
        )

    def stop(self) -> None:
        """Stop the KDC in this folder, if any, even if a different program has started it."""
        self._daemon.stop()

    def keytab(self, name: str) -> Path:
        """Return the keytab of a principal; create the principal if it does not exist."""
        file = self.config.data_dir / f"{name.replace('/', '_')}.keytab"
        if not file.is_file():
            known = self.administer(f"list_principals {name}").splitlines()
            if self.principal(name) not in known:
                self.administer(f"addprinc -randkey {name}")
            scratch = file.with_name(f"{file.name}.new")
            scratch.unlink(missing_ok=True)
            self.administer(f'ktadd -k "{scratch}" {name}')
            scratch.chmod(0o600)
            scratch.replace(file)
        return file

    def administer(self, query: str) -> str:
        """Return the output of one query in kadmin.local; the query must not contain a secret."""
        said = self._run("kadmin.local", "-r", self.config.realm, "-q", query)
        # kadmin.local always exits with 0; an error message starts with the program or query name.
        complaint = next((line for line in said.splitlines() if _is_complaint(line)), None)
        if complaint is not None:
            raise LocalServerError(f"kadmin.local {query.split(maxsplit=1)[0]}: {complaint}")
        return said

    def fetch_tickets(self, name: str, cache: Path, *, life: str | None = None) -> None:
        """Fill a ticket cache from a principal's keytab, as `kinit` does."""
        keytab = self.keytab(name)
        bound = () if life is None else ("-l", life)
        self._run("kinit", *bound, "-k", "-t", str(keytab), "-c", f"FILE:{cache}", name)

    @property
    def _is_made(self) -> Path:
        return self.config.data_dir / "made"

    def _write_configuration(self, port: int, programs: debian.Programs) -> None:
        data, plugins = self.config.data_dir, programs.libraries / "krb5" / "plugins"
        values = {
            "data": data,
            "realm": self.config.realm,
            "life": self.config.ticket_life,
            "host": HOST,
            "port": port,
            "log": self.log_file,
            "base": f"\n  plugin_base_dir = {plugins}" if programs.is_unpacked else "",
            "modules": f"[dbmodules]\n  db_module_dir = {plugins}/kdb\n"
            if programs.is_unpacked
            else "",
        }
        # All processes are on this machine. So clients use only TCP, and need no DNS.
        daemon.fill("krb5.conf", self.configuration, values)
        daemon.fill("kdc.conf", data / "kdc.conf", values)

    def _make_realm(self) -> None:
        self._progress(f"creating the Kerberos realm {self.config.realm}")
        for left in self.config.data_dir.glob("principals*"):
            left.unlink()  # an interrupted attempt may have left files
        for keytab in self.config.data_dir.glob("*.keytab"):
            keytab.unlink()
        (self.config.data_dir / "acl").touch()
        # The master password is passed by standard input, not as an argument. The password is not
        # stored, because the stash file contains the key.
        words = secrets.token_urlsafe(24)
        arguments = ("-r", self.config.realm, "create", "-s")
        self._run("kdb5_util", *arguments, text=f"{words}\n{words}\n")
        self._is_made.touch()

    def _environment(self, programs: debian.Programs) -> dict[str, str]:
        data = self.config.data_dir
        return programs.environment(
            KRB5_CONFIG=str(self.configuration),
            KRB5_KDC_PROFILE=str(data / "kdc.conf"),
            KRB5RCACHEDIR=str(data),
        )

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        programs = debian.find_programs(_PACKAGES)
        done = subprocess.run(
            [programs[program], *arguments],
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=self.config.data_dir,
            env=self._environment(programs),
        )
        if done.returncode != 0:
            raise LocalServerError(f"{program} failed: {done.stderr.strip()}")
        return done.stdout + done.stderr


def _is_complaint(line: str) -> bool:
    head, colon, _ = line.partition(": ")
    return bool(colon) and head.rpartition("/")[2] in {"kadmin.local", *_QUERIES}


_QUERIES: Final = (
    "add_principal",
    "addprinc",
    "change_password",
    "delete_principal",
    "get_principal",
    "ktadd",
    "modify_principal",
)
