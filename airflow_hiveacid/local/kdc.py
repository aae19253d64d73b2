"""Knows how to run a private Kerberos realm below a metastore, from Debian's packages.

Takes a folder, gives a realm with a KDC on a port of its own, keytabs and tickets. Nothing of the
system's Kerberos is read or written, and nobody has to be root: a process takes part in the realm
by the variable KRB5_CONFIG, a JVM by `java.security.krb5.conf`. Keys are random and lie in
keytabs of mode 0600.
"""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.local.daemon import Daemon
from airflow_hiveacid.local.debian import Programs, find_programs
from airflow_hiveacid.local.errors import LocalServerError
from airflow_hiveacid.local.lifetime import Server
from airflow_hiveacid.local.openssl import private_folder
from airflow_hiveacid.local.progress import Progress, log_progress
from airflow_hiveacid.local.site import HOST

if TYPE_CHECKING:
    from pathlib import Path

REALM: Final = "HIVEACID.TEST"
_PACKAGES: Final = {
    "krb5kdc": "krb5-kdc",
    "kdb5_util": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "kinit": "krb5-user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalKdcConfig:
    """What to start, and where.

    Attributes:
        data_dir: Everything the realm keeps; made when missing.
        realm: Its name.
        ticket_life: The longest life of a ticket, as Kerberos writes it.
        ends_with_parent: See `LocalMetastoreConfig`.
    """

    data_dir: Path
    realm: str = REALM
    ticket_life: str = "10h"
    ends_with_parent: bool = False


class LocalKdc(Server):
    """One realm with its KDC. Mutable: it follows the life of a process."""

    def __init__(self, config: LocalKdcConfig, *, progress: Progress = log_progress) -> None:
        self.config = config
        self._progress = progress
        self._daemon = Daemon(
            "a KDC",
            config.data_dir,
            ends_with_parent=config.ends_with_parent,
            progress=progress,
        )

    @property
    def configuration(self) -> Path:
        """The file that KRB5_CONFIG has to name for whoever takes part."""
        return self.config.data_dir / "krb5.conf"

    @property
    def log_file(self) -> Path:
        """What the KDC says, each request among it."""
        return self.config.data_dir / "kdc.log"

    def principal(self, name: str) -> str:
        """The whole name of one of this realm."""
        return f"{name}@{self.config.realm}"

    def is_running(self) -> bool:
        """Tells whether the KDC runs, whoever started it."""
        return self._daemon.port is not None

    def start(self) -> None:
        """Starts the KDC, or finds the one that runs here; makes the realm the first time.

        Raises:
            MissingProgramError: A program is not installed; it names all packages that miss.
            LocalServerError: The realm could not be made.
            ServerStartError: The KDC died or did not answer in time.
        """
        programs = find_programs(_PACKAGES)
        private_folder(self.config.data_dir)
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
        """Ends the KDC in this folder, whoever started it; nothing when there is none."""
        self._daemon.stop()

    def keytab(self, name: str) -> Path:
        """The keytab of a principal, which is made if it is new.

        Raises:
            LocalServerError: Kerberos refused.
        """
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
        """Lets kadmin.local do one thing, and gives what it says; no secret may be in it.

        Raises:
            LocalServerError: It refused.
        """
        said = self._run("kadmin.local", "-r", self.config.realm, "-q", query)
        # It ends with 0 whatever happens; what it complains about comes with its own name.
        complaint = next((line for line in said.splitlines() if _is_complaint(line)), None)
        if complaint is not None:
            raise LocalServerError(f"kadmin.local {query.split(maxsplit=1)[0]}: {complaint}")
        return said

    def fetch_tickets(self, name: str, cache: Path, *, life: str | None = None) -> None:
        """Fills a ticket cache with a principal's keytab, as `kinit` does.

        Raises:
            LocalServerError: Kerberos refused.
        """
        keytab = self.keytab(name)
        bound = () if life is None else ("-l", life)
        self._run("kinit", *bound, "-k", "-t", str(keytab), "-c", f"FILE:{cache}", name)

    @property
    def _is_made(self) -> Path:
        return self.config.data_dir / "made"

    def _write_configuration(self, port: int, programs: Programs) -> None:
        data, realm, life = self.config.data_dir, self.config.realm, self.config.ticket_life
        plugins = programs.libraries / "krb5" / "plugins"
        base = f"\n  plugin_base_dir = {plugins}" if programs.is_unpacked else ""
        modules = f"[dbmodules]\n  db_module_dir = {plugins}/kdb\n" if programs.is_unpacked else ""
        # By TCP alone, and no name is looked up: what is reached here is this machine.
        self.configuration.write_text(
            f"""[libdefaults]
  default_realm = {realm}
  default_ccache_name = FILE:{data}/tickets
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  forwardable = true
  ticket_lifetime = {life}{base}
[realms]
  {realm} = {{
    kdc = {HOST}:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
        )
        (data / "kdc.conf").write_text(
            f"""[kdcdefaults]
  kdc_listen = {HOST}:{port}
  kdc_tcp_listen = {HOST}:{port}
[realms]
  {realm} = {{
    database_name = {data}/principals
    key_stash_file = {data}/stash
    acl_file = {data}/acl
    max_life = {life}
    max_renewable_life = 7d
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
{modules}[logging]
  kdc = FILE:{self.log_file}
  default = FILE:{self.log_file}
"""
        )

    def _make_realm(self) -> None:
        self._progress(f"making the Kerberos realm {self.config.realm}")
        for left in self.config.data_dir.glob("principals*"):
            left.unlink()  # of a realm that was cut short
        for keytab in self.config.data_dir.glob("*.keytab"):
            keytab.unlink()
        (self.config.data_dir / "acl").touch()
        # Asked for, so that it is no argument; the stash holds the key, nobody needs the words.
        words = secrets.token_urlsafe(24)
        arguments = ("-r", self.config.realm, "create", "-s")
        self._run("kdb5_util", *arguments, text=f"{words}\n{words}\n")
        self._is_made.touch()

    def _environment(self, programs: Programs) -> dict[str, str]:
        data = self.config.data_dir
        return programs.environment(
            KRB5_CONFIG=str(self.configuration),
            KRB5_KDC_PROFILE=str(data / "kdc.conf"),
            KRB5RCACHEDIR=str(data),
        )

    def _run(self, program: str, *arguments: str, text: str = "") -> str:
        programs = find_programs(_PACKAGES)
        done = subprocess.run(
            [programs[program], *arguments],
            input=text,
            capture_output=True,
            text=True,
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
