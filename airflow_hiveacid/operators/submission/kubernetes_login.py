"""Address, certificate and login for the Kubernetes API server.

The client logs in as `spark-submit` does. Like Spark's client, the client uses the first source
that exists:

- settings `spark.kubernetes.authenticate.*`;
- the kubeconfig (`KUBECONFIG`, `~/.kube/config`; context `spark.kubernetes.context`);
- the service account of the worker's pod.

The address is always that of the Spark master. A token file is read for each request, because
Kubernetes replaces the token every hour. A token from a command is used until it expires. No `repr`
of this module's values contains a token.

Example:
    >>> server_of("k8s://https://api.example.com"), server_of("k8s://api.example.com:6443")
    ('https://api.example.com', 'https://api.example.com:6443')
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # comes with Airflow, without types

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.metastore import user_path

_MASTER: Final = "k8s://"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_COMMAND_S: Final = 30.0
_TRUST: Final = "spark.kubernetes.trust.certificates"
_CONTEXT: Final = "spark.kubernetes.context"
_SUBMISSION: Final = "spark.kubernetes.authenticate.submission."
SETTINGS: Final = (
    _TRUST,
    _CONTEXT,
    *(
        f"{_SUBMISSION}{name}"
        for name in ("oauthTokenFile", "caCertFile", "clientCertFile", "clientKeyFile")
    ),
)
"""The Spark settings that `login_of` reads for a driver in the cluster; none of them is secret."""
_EARLY: Final = timedelta(seconds=60)


@dataclass(slots=True)
class KubernetesLogin:
    """Our login to an API server, and the certificates for checking the server's identity.

    `authority` is a file of certificates, True for the system's certificates, or False for no
    check.
    """

    authority: str | bool = True
    certificate: tuple[str, str] | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    user: tuple[str, str] | None = field(default=None, repr=False)
    command: Mapping[str, Any] | None = field(default=None, repr=False)
    _until: datetime | None = None

    def bearer(self) -> str | None:
        """Return the current token, or None without one; raise OSError if it is invalid."""
        if self.token_file is not None:
            return _checked(self.token_file.read_bytes().decode("latin-1"))
        is_over = self._until is not None and datetime.now(UTC) > self._until - _EARLY
        if self.command is not None and (is_over or (self.token is None and not self.certificate)):
            self._ask_command(self.command)
        return None if self.token is None else _checked(str(self.token))

    def refused(self) -> None:
        """Make the next request run this login's command again, as kubectl does.

        A command need not report when its token expires. So if the server refuses a token, the
        token may have expired.
        """
        if self.command is not None:
            self._until = datetime.now(UTC)

    def _ask_command(self, command: Mapping[str, Any]) -> None:
        """Run a credential plugin (client.authentication.k8s.io, ExecCredential)."""
        request = {
            "kind": "ExecCredential",
            "apiVersion": command.get("apiVersion"),
            "spec": {"interactive": False},
        }
        try:
            own = {variable["name"]: variable["value"] for variable in command.get("env") or ()}
            # No error shows the command's output, because the output may contain a secret.
            said = subprocess.run(  # noqa: S603 - the user's own kubeconfig names the command
                [command["command"], *(command.get("args") or ())],
                env={**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(request)},
                capture_output=True,
                timeout=_COMMAND_S,
                check=True,
            ).stdout
            status = dict(json.loads(said)["status"])
            until = status.get("expirationTimestamp")
            self._until = None if until is None else datetime.fromisoformat(until)
        except (subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            raise OSError(
                f"the kubeconfig's login command {command['command']} returned no login"
                f" ({type(error).__name__})"
            ) from None
        self.token = status.get("token")
        if data := status.get("clientCertificateData"):
            key = str(status.get("clientKeyData", ""))
            self.certificate = (_in_memory(str(data).encode()), _in_memory(key.encode()))


def _checked(token: str) -> str:
    """Return a token if it is valid; for an invalid token, `requests` would show it in an error."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise OSError("the login token has several lines or invalid characters")
    return keep_secret(token)


def server_of(master: str) -> str:
    """Return the address of a Spark master's API server; without a scheme, HTTPS is used."""
    address = master.removeprefix(_MASTER).rstrip("/")
    return address if "://" in address else f"https://{address}"


def login_of(
    settings: Mapping[str, object], environment: Mapping[str, str], *, is_cluster: bool
) -> KubernetesLogin:
    """Return the login of spark-submit for these Spark settings.

    Raises:
        ConfigurationError: the kubeconfig cannot be read; or the settings contain a token, so every
            user of the machine could read it.
    """
    prefix = _SUBMISSION if is_cluster else "spark.kubernetes.authenticate."
    for name in settings:
        if name.startswith("spark.kubernetes.authenticate.") and name.endswith(".oauthToken"):
            raise ConfigurationError(
                f"{name} would be in the command line of spark-submit, which every user of the"
                f" machine can read; set {name}File to a file with the token"
            )
    login = _of_kubeconfig(settings, environment) or _of_account() or KubernetesLogin()
    if (token := settings.get(f"{prefix}oauthTokenFile")) is not None:
        login.token_file, login.command = Path(str(token)), None
    if (authority := settings.get(f"{prefix}caCertFile")) is not None:
        login.authority = str(authority)
    if str(settings.get(_TRUST, "")).strip().lower() == "true":
        login.authority = False
    pair = (settings.get(f"{prefix}clientCertFile"), settings.get(f"{prefix}clientKeyFile"))
    if pair[0] is not None and pair[1] is not None:
        login.certificate = (str(pair[0]), str(pair[1]))
    return login


def _of_account() -> KubernetesLogin | None:
    token, authority = _ACCOUNT / "token", _ACCOUNT / "ca.crt"
    if not token.exists():
        return None
    return KubernetesLogin(
        token_file=token, authority=str(authority) if authority.exists() else True
    )


def _of_kubeconfig(
    settings: Mapping[str, object], environment: Mapping[str, str]
) -> KubernetesLogin | None:
    paths = [Path(path) for path in environment.get("KUBECONFIG", "").split(os.pathsep) if path]
    home = user_path(environment.get("HOME", "~"))
    files = [path for path in paths or [home / ".kube" / "config"] if path.exists()]
    current = settings.get(_CONTEXT)
    try:
        entries, first = _entries(files)
        if (current := current or first) is None:
            return None
        _, context = entries["context", str(current)]
        login = KubernetesLogin()
        if (cluster := entries.get(("cluster", context.get("cluster", "")))) is not None:
            login.authority = _authority(*cluster)
        if (user := entries.get(("user", context.get("user", "")))) is not None:
            _read_user(login, *user)
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"cannot read context {current!r} of the kubeconfig {', '.join(map(str, files))}"
            f" ({type(error).__name__}); KUBECONFIG and spark.kubernetes.context select them"
        ) from None
    return login


def _entries(
    files: Sequence[Path],
) -> tuple[dict[tuple[str, str], tuple[Path, Mapping[str, Any]]], str | None]:
    """Return the file and entry of each context, cluster and user, and the current context's name.

    If several files define the same name or a current context, the first file applies, as in
    kubectl.
    """
    entries: dict[tuple[str, str], tuple[Path, Mapping[str, Any]]] = {}
    current = None
    for file in files:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        current = current or content.get("current-context")
        for kind in ("context", "cluster", "user"):
            for entry in content.get(f"{kind}s") or ():
                entries.setdefault((kind, entry["name"]), (file, entry.get(kind) or {}))
    return entries, current


def _authority(file: Path, cluster: Mapping[str, Any]) -> str | bool:
    if cluster.get("insecure-skip-tls-verify"):
        return False
    return _file(file, cluster, "certificate-authority") or True


def _read_user(login: KubernetesLogin, file: Path, user: Mapping[str, Any]) -> None:
    login.token, login.command = user.get("token"), user.get("exec")
    # A path is relative to the kubeconfig; a bare name is searched on PATH.
    if login.command is not None and os.sep in (program := str(login.command["command"])):
        login.command = {**login.command, "command": str(file.absolute().parent / program)}
    if name := user.get("tokenFile"):
        login.token_file = file.parent / str(name)
    pair = _file(file, user, "client-certificate"), _file(file, user, "client-key")
    if pair[0] is not None and pair[1] is not None:
        login.certificate = (pair[0], pair[1])
    if "username" in user:
        login.user = (str(user["username"]), keep_secret(str(user.get("password", ""))))


def _file(kubeconfig: Path, entry: Mapping[str, Any], name: str) -> str | None:
    """Return the path of a file that an entry contains, as data or as a path beside it."""
    if data := entry.get(f"{name}-data"):
        return _in_memory(base64.b64decode(str(data)))
    return str(kubeconfig.parent / str(entry[name])) if entry.get(name) else None


def _in_memory(content: bytes) -> str:
    """Write a file in memory and return its path, because TLS needs a file.

    The file exists until this process ends.
    """
    descriptor = os.memfd_create("kubernetes-login")
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"
