"""Certificates and signed tokens, created with the `openssl` program.

The certificates are for localhost and for tests only, and have their own certificate authority.
Private keys and tokens are stored in files of mode 0600.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from ssl import CERT_REQUIRED, PROTOCOL_TLS_SERVER, SSLContext
from typing import Final

from airflow_hiveacid.local.process import LocalServerError
from tests.support.logins.debian import find_programs

_PACKAGES: Final = {"openssl": "openssl"}
_DAYS: Final = "3650"
_NAMES: Final = "subjectAltName=DNS:localhost,IP:127.0.0.1"
_KEY_ID: Final = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """The files of a certificate authority, and of the certificates for a server and a client."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, for clients to trust."""
        return self.folder / "ca.pem"

    @property
    def server_store(self) -> Path:
        """The server's key and certificate, as PKCS #12."""
        return self.folder / "server.p12"

    def file(self, name: str) -> Path:
        """Return a PEM file: `server.pem`, `server.key`, `client.pem` or `client.key`."""
        return self.folder / name

    def store_password(self) -> str:
        """Return the password of `server_store`."""
        return (self.folder / "store.password").read_text().strip()

    def server_context(self, name: str = "server", *, wants_client: bool = False) -> SSLContext:
        """Return what a server speaks TLS with; it may want a certificate of its clients."""
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(f"{name}.pem"), self.file(f"{name}.key"))
        if wants_client:
            context.verify_mode = CERT_REQUIRED
            context.load_verify_locations(self.authority)
        return context

    def sign(self, name: str, names: str = _NAMES) -> None:
        """Create a key and a certificate, in `name.key` and `name.pem`."""
        (self.folder / f"{name}.names").write_text(f"{names}\n")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(self.folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", *files)
        openssl(
            self.folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-days", _DAYS, "-set_serial", f"0x{secrets.token_hex(8)}", "-extfile", f"{name}.names",
            "-out", f"{name}.pem",
        )  # fmt: skip


def make_certificates(folder: Path) -> Certificates:
    """Create an authority and certificates for a server and a client, unless they exist."""
    made = Certificates(folder=folder)
    if (folder / "ready").is_file():
        return made
    private_folder(folder)
    ca = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign")
    new = ("req", "-newkey", "rsa:2048", "-nodes", "-days", _DAYS)
    openssl(
        folder, *new, "-x509", "-subj", "/CN=local authority", *ca, "-keyout", "ca.key",
        "-out", "ca.pem",
    )  # fmt: skip
    for name in ("server", "client"):
        made.sign(name)
    write_private(folder / "store.password", f"{secrets.token_urlsafe(24)}\n")
    openssl(
        folder, "pkcs12", "-export", "-name", "server", "-in", "server.pem", "-inkey", "server.key",
        "-out", "server.p12", "-passout", "file:store.password",
    )  # fmt: skip
    (folder / "ready").touch()
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A signer of bearer tokens, and the key list for the server."""

    folder: Path

    @property
    def key_list(self) -> Path:
        """The public key, as a JSON Web Key Set."""
        return self.folder / "jwks.json"

    def token(self, subject: str, *, life_s: float) -> str:
        """Return a JSON Web Token for a user; with a negative `life_s`, the token is expired."""
        now = int(time.time())
        head = {"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}
        claims = {"sub": subject, "iat": now, "exp": now + int(life_s)}
        body = b".".join(_url64(json.dumps(part).encode()) for part in (head, claims))
        proof = openssl(self.folder, "dgst", "-sha256", "-sign", "signing.key", text=body)
        return b".".join((body, _url64(proof))).decode()


def make_signer(folder: Path) -> Signer:
    """Create a signing key, unless it exists."""
    made = Signer(folder=folder)
    if made.key_list.is_file():
        return made
    private_folder(folder)
    key = ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "signing.key")
    openssl(folder, "genpkey", *key)
    shown = openssl(folder, "rsa", "-in", "signing.key", "-noout", "-modulus").decode()
    modulus = bytes.fromhex(shown.strip().partition("=")[2])
    entry = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID, "e": "AQAB"}
    keys = {"keys": [{**entry, "n": _url64(modulus).decode()}]}
    made.key_list.write_text(json.dumps(keys))
    return made


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, and replace an existing file atomically."""
    scratch = file.with_name(f"{file.name}.new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), 0o600)  # an existing file may have a wider mode
        stream.write(text)
    scratch.replace(file)


def _url64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def openssl(folder: Path, *arguments: str, text: bytes = b"") -> bytes:
    """Run a command of openssl in a folder, and return its output."""
    programs = find_programs(_PACKAGES)
    done = subprocess.run(
        [programs["openssl"], *arguments],
        input=text,
        capture_output=True,
        check=False,
        cwd=folder,
        env=programs.environment(),
    )
    if done.returncode != 0:
        what, reason = " ".join(arguments[:1]), done.stderr.decode(errors="replace").strip()
        raise LocalServerError(f"openssl {what} failed: {reason}")
    return done.stdout
