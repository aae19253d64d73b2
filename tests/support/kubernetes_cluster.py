"""A pretended Kubernetes that runs pods: an API server over TLS that wants a token, and a kubelet.

All of it lies in one folder and ends with its block.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tests.support.kubelet import IMAGE, Kubelet
from tests.support.logins.openssl import make_certificates
from tests.support.pretended_kubernetes import KubernetesServer

SPACE: Final = "etl"
_AUTHENTICATE: Final = "spark.kubernetes.authenticate."


class KubernetesCluster:
    """The cluster; `token_file` is a service account's, which `renew` writes anew."""

    def __init__(self, folder: Path, server: KubernetesServer, spark: Path, python: Path) -> None:
        self.folder, self.server = folder, server
        self.kubelet = Kubelet(server, folder / "pods", spark)
        self.token_file = folder / "token"
        self._authority, self._python = folder / "tls" / "ca.pem", python
        self.renew()

    @classmethod
    @contextmanager
    def started(cls, folder: Path, spark: Path, python: Path) -> Iterator[Self]:
        """Run one as long as the block.

        Args:
            folder: for everything.
            spark: Spark's home, which every container has.
            python: what runs applications, in every container.
        """
        tls = make_certificates(folder / "tls").server_context()
        with KubernetesServer.started(tls) as server:
            cluster = cls(folder, server, spark, python)
            with cluster.kubelet.running():
                yield cluster

    @property
    def master(self) -> str:
        """What a Spark's master is called that lets pods run here."""
        return f"k8s://{self.server.address}"

    def renew(self) -> str:
        """Write another token and return it.

        The server accepts the previous token a little longer, as real ones do, for requests that
        were already being sent.
        """
        token = f"canary{uuid.uuid4().hex}"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(token)
        self.server.replace_token(token)
        return token

    def settings(self) -> dict[str, str]:
        """What a Spark is told that talks to it: on a worker, as submitter and in a pod."""
        names = ("", "submission.", "driver.mounted.")
        return {
            "spark.kubernetes.namespace": SPACE,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.driver.master": self.server.address,
            **{f"{_AUTHENTICATE}{name}oauthTokenFile": str(self.token_file) for name in names},
            **{f"{_AUTHENTICATE}{name}caCertFile": str(self._authority) for name in names},
            "spark.pyspark.python": str(self._python),
        }

    def pods(self, role: str | None = None) -> list[dict[str, Any]]:
        """The pods that there are, of drivers or executors if one of these is asked for."""
        found = self.server.objects.list("pods", SPACE)
        labels = [(one, one["metadata"].get("labels") or {}) for one in found]
        return [one for one, has in labels if role is None or has.get("spark-role") == role]

    def made(self, since: int = 0) -> list[dict[str, Any]]:
        """The pods that were made since so many events."""
        events = self.server.objects.events[since:]
        return [one for _, what, kind, one in events if (what, kind) == ("ADDED", "pods")]

    def said(self) -> str:
        """What the last pods have written, for whoever reads of a failure."""
        logs = sorted(self.kubelet.folder.glob("*/log"), key=lambda log: log.stat().st_mtime)
        return "\n".join(
            f"== {log.parent.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs[-3:]
        )
