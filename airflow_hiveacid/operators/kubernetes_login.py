"""How the API server of Kubernetes is asked: where it is, by whose certificate, with which login.

The same login as spark-submit's, in the order in which Spark's own client looks for it: settings
`spark.kubernetes.authenticate.*`, else the kubeconfig (`KUBECONFIG`, `~/.kube/config`; context
`spark.kubernetes.context`), else the service account of the pod that we run in. The address is
always that of the master. A token that lies in a file is read at each question, since Kubernetes
writes it anew every hour; one from a command is kept until it expires. None of them is in a `repr`.

Example:
    >>> server_of("k8s://https://api.example.com"), server_of("k8s://api.example.com:6443")
    ('https://api.example.com', 'https://api.example.com:6443')
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml  # type: ignore[import-untyped]  # comes with Airflow, without types

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MASTER: Final = "k8s://"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_COMMAND_S: Final = 30.0
_TRUST: Final = "spark.kubernetes.trust.certificates"
_EARLY: Final = timedelta(seconds=60)


@dataclass(slots=True)
class Login:
    """Who we are to an API server, and by what we know it.

    `authority` is a file of certificates, True for the system's own, False where nobody checks.
    """

    authority: str | bool = True
    certificate: tuple[str, str] | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    user: tuple[str, str] | None = field(default=None, repr=False)
    command: Mapping[str, Any] | None = field(default=None, repr=False)
    _until: datetime | None = None

    def bearer(self) -> str | None:
        """The token as it is now, or None if there is none.

        Raises:
            OSError: it cannot be read, is none, or the command that gives it failed.
        """
        if self.token_file is not None:
            return _checked(self.token_file.read_bytes().decode("latin-1"))
        is_over = self._until is not None and datetime.now(UTC) > self._until - _EARLY
        if self.command is not None and (is_over or (self.token is None and not self.certificate)):
            self._ask_command(self.command)
        return None if self.token is None else _checked(str(self.token))

    def refused(self) -> None:
        """Take it that this login counts no more: a command is asked anew, as kubectl does.

        It need not say until when its answer lasts.
        """
        if self.command is not None:
            self._until = datetime.now(UTC)

    def _ask_command(self, command: Mapping[str, Any]) -> None:
        """Run a credential plugin (client.authentication.k8s.io, ExecCredential)."""
        asked = {
            "kind": "ExecCredential",
            "apiVersion": command.get("apiVersion"),
            "spec": {"interactive": False},
        }
        try:
            own = {one["name"]: one["value"] for one in command.get("env") or ()}
            # What it says may be a secret: nothing of it is shown.
            said = subprocess.run(  # noqa: S603 - the user's own kubeconfig names it
                [command["command"], *(command.get("args") or ())],
                env={**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
                capture_output=True,
                timeout=_COMMAND_S,
                check=True,
            ).stdout
            status = dict(json.loads(said)["status"])
            until = status.get("expirationTimestamp")
            self._until = None if until is None else datetime.fromisoformat(until)
        except (subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            raise OSError(
                f"{command['command']}, which kubeconfig names for the login, gave none"
                f" ({type(error).__name__})"
            ) from None
        self.token = status.get("token")
        if data := status.get("clientCertificateData"):
            key = str(status.get("clientKeyData", ""))
            self.certificate = (_in_memory(str(data).encode()), _in_memory(key.encode()))


def _checked(token: str) -> str:
    """A token that can be sent; what sends it would show any other in its error."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise OSError("the token for the login has several lines, or letters that none has")
    return token


def server_of(master: str) -> str:
    """The address of the API server that a Spark master names; HTTPS if it says nothing."""
    address = master.removeprefix(_MASTER).rstrip("/")
    return address if "://" in address else f"https://{address}"


def login_of(
    settings: Mapping[str, object], environment: Mapping[str, str], *, is_cluster: bool
) -> Login:
    """The login that spark-submit has with these settings of Spark's.

    Raises:
        ConfigurationError: a token is among the settings, where everybody on the machine sees it;
            or the kubeconfig cannot be read.
    """
    prefix = "spark.kubernetes.authenticate." + ("submission." if is_cluster else "")
    for name in settings:
        if name.startswith("spark.kubernetes.authenticate.") and name.endswith(".oauthToken"):
            raise ConfigurationError(
                f"{name} would be in the command line of spark-submit, which everybody on the"
                f" machine can read; give {name}File, a file with the token"
            )
    login = _of_kubeconfig(settings, environment) or _of_account() or Login()
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


def _of_account() -> Login | None:
    """That of a pod's service account, if we run in a pod that has one."""
    token, authority = _ACCOUNT / "token", _ACCOUNT / "ca.crt"
    if not token.exists():
        return None
    return Login(token_file=token, authority=str(authority) if authority.exists() else True)


def _of_kubeconfig(settings: Mapping[str, object], environment: Mapping[str, str]) -> Login | None:
    """That of the context, if there is a kubeconfig."""
    given = [Path(one) for one in environment.get("KUBECONFIG", "").split(os.pathsep) if one]
    home = Path(environment.get("HOME", "~")).expanduser()
    files = [one for one in given or [home / ".kube" / "config"] if one.exists()]
    current = settings.get("spark.kubernetes.context")
    try:
        found, first = _entries(files)
        if (current := current or first) is None:
            return None
        _, context = found["context", str(current)]
        login = Login()
        if (cluster := found.get(("cluster", context.get("cluster", "")))) is not None:
            login.authority = _authority(*cluster)
        if (user := found.get(("user", context.get("user", "")))) is not None:
            _read_user(login, *user)
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"the kubeconfig {', '.join(map(str, files))} has no context {current!r} that can be"
            f" read ({type(error).__name__}); KUBECONFIG and spark.kubernetes.context say which"
        ) from None
    return login


def _entries(
    files: Sequence[Path],
) -> tuple[dict[tuple[str, str], tuple[Path, Mapping[str, Any]]], str | None]:
    """Contexts, clusters and users by name, each with its file, and the current context.

    The first file that knows a name, or a current context, is right, as for kubectl.
    """
    found: dict[tuple[str, str], tuple[Path, Mapping[str, Any]]] = {}
    current = None
    for file in files:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        current = current or content.get("current-context")
        for kind in ("context", "cluster", "user"):
            for one in content.get(f"{kind}s") or ():
                found.setdefault((kind, one["name"]), (file, one.get(kind) or {}))
    return found, current


def _authority(file: Path, cluster: Mapping[str, Any]) -> str | bool:
    if cluster.get("insecure-skip-tls-verify"):
        return False
    return _file(file, cluster, "certificate-authority") or True


def _read_user(login: Login, file: Path, user: Mapping[str, Any]) -> None:
    login.token, login.command = user.get("token"), user.get("exec")
    if login.command is not None and os.sep in (program := str(login.command["command"])):
        login.command = {**login.command, "command": str(file.absolute().parent / program)}
    if name := user.get("tokenFile"):
        login.token_file = file.parent / str(name)
    pair = _file(file, user, "client-certificate"), _file(file, user, "client-key")
    if pair[0] is not None and pair[1] is not None:
        login.certificate = (pair[0], pair[1])
    if "username" in user:
        login.user = (str(user["username"]), str(user.get("password", "")))


def _file(kubeconfig: Path, entry: Mapping[str, Any], name: str) -> str | None:
    """The file that an entry names, or holds in itself; names are relative to the kubeconfig."""
    if data := entry.get(f"{name}-data"):
        return _in_memory(base64.b64decode(str(data)))
    return str(kubeconfig.parent / str(entry[name])) if entry.get(name) else None


def _in_memory(content: bytes) -> str:
    """A file that lies on no disk and goes with this process; Python's TLS reads files alone."""
    descriptor = os.memfd_create("kubernetes-login")
    os.write(descriptor, content)
    return f"/proc/self/fd/{descriptor}"
