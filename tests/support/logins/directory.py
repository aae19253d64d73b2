"""A private LDAP directory for a metastore, from Debian's package slapd.

Input is a folder. Output is an LDAP server with one user. The server listens on its own port of
localhost. The server does not need root. Passwords are generated and stored in files of mode 0600.
A password is never in an argument or a log.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_hiveacid.local.process import LocalServerError, Progress, Server, log_progress
from airflow_hiveacid.local.site import HOST
from tests.support.logins import daemon, debian, openssl

PEOPLE: Final = "ou=people,dc=hiveacid,dc=test"
_SUFFIX: Final = "dc=hiveacid,dc=test"
_PACKAGES: Final = {"slapd": "slapd", "slapadd": "slapd"}
_SCHEMAS: Final = ("core", "cosine", "inetorgperson")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDirectoryConfig:
    """The location and user of an LDAP directory.

    Attributes:
        data_dir: The directory's files; created if missing.
        user: The only user who can log in.
        ends_with_parent: See `LocalMetastoreConfig`.
    """

    data_dir: Path
    user: str = "etl"
    ends_with_parent: bool = False


class LocalDirectory(Server):
    """One LDAP server (slapd); mutable, because the object tracks its process."""

    def __init__(self, config: LocalDirectoryConfig, *, progress: Progress = log_progress) -> None:
        self.config = config
        self._progress = progress
        self._daemon = daemon.Daemon(
            "slapd",
            config.data_dir,
            ends_with_parent=config.ends_with_parent,
            progress=progress,
        )

    @property
    def password_file(self) -> Path:
        """The file with the user's password."""
        return self.config.data_dir / f"{self.config.user}.password"

    @property
    def log_file(self) -> Path:
        """The server's output."""
        return self.config.data_dir / "slapd.log"

    @property
    def uri(self) -> str:
        """The server's address."""
        port = self._daemon.port
        if port is None:
            raise LocalServerError(f"no LDAP directory runs in {self.config.data_dir}")
        return f"ldap://{HOST}:{port}"

    def is_running(self) -> bool:
        """Return True if the server runs, even if a different program has started it."""
        return self._daemon.port is not None

    def start(self) -> None:
        """Start the server, unless it already runs; create the entries at the first start."""
        programs = debian.find_programs(_PACKAGES)
        openssl.private_folder(self.config.data_dir)
        if self.is_running():
            return
        self._write_configuration(programs)
        if not (self.config.data_dir / "made").is_file():
            self._fill(programs)
        self._serve(programs)

    def stop(self) -> None:
        """Stop the server in this folder, if any, even if a different program has started it."""
        self._daemon.stop()

    def _write_configuration(self, programs: debian.Programs) -> None:
        data, root = self.config.data_dir, programs.root
        includes = "".join(f'include "{root}/etc/ldap/schema/{name}.schema"\n' for name in _SCHEMAS)
        # The directory has no administrator, so no administrator's password exists.
        values = {"includes": includes, "data": data, "root": root, "suffix": _SUFFIX}
        daemon.fill("slapd.conf", data / "slapd.conf", values)

    def _fill(self, programs: debian.Programs) -> None:
        self._progress("creating an LDAP directory")
        data, user = self.config.data_dir, self.config.user
        # An interrupted attempt may have left entries.
        shutil.rmtree(data / "entries", ignore_errors=True)
        (data / "entries").mkdir()
        password = secrets.token_urlsafe(18)
        openssl.write_private(self.password_file, f"{password}\n")
        hidden = base64.b64encode(password.encode()).decode()
        entries = f"""dn: {_SUFFIX}
objectClass: dcObject
objectClass: organization
o: people of this machine
dc: hiveacid

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: uid={user},{PEOPLE}
objectClass: inetOrgPerson
uid: {user}
cn: {user}
sn: {user}
userPassword:: {hidden}
"""
        done = subprocess.run(
            [programs["slapadd"], "-f", str(data / "slapd.conf")],
            input=entries,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=data,
            env=programs.environment(),
        )
        if done.returncode != 0:
            raise LocalServerError(f"slapadd failed: {done.stderr.strip()}")
        (data / "made").touch()

    def _serve(self, programs: debian.Programs) -> None:
        port = self._daemon.choose_port()
        listening = ("-h", f"ldap://{HOST}:{port}")
        arguments = [programs["slapd"], "-f", str(self.config.data_dir / "slapd.conf"), *listening]
        self._daemon.start(
            [*arguments, "-d", "0"],  # stays in the foreground, and prints only errors
            programs.environment(),
            port=port,
            log=self.log_file,
        )
