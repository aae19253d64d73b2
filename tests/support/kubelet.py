"""Runs the pods of a pretended Kubernetes: each container is a process of this machine.

A pod of Spark's is started as the entry point of Spark's image does it, with the settings of its
config maps in a folder of its own, and nothing of our environment but what a process needs. Names
of services are addresses here, as there is no name server. A pod stays pending, and says why, where
its image is `NO_IMAGE` or a node is asked for that does not exist.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.support.pretended_kubernetes import KubernetesServer, MissingError
from tests.support.short_jvms import ENVIRONMENT, SHORT_LIVED

NO_IMAGE: Final = "registry.example.com/nowhere:1"
IMAGE: Final = "spark:here"

_ADDRESS: Final = "127.0.0.1"
_MOUNTS_S: Final = 60.0
_LOG_S: Final = 2.0  # a process that has left its group may keep the pipe open
_KEPT: Final = ("PATH", "HOME", "JAVA_HOME", "LANG")
_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


@dataclass(slots=True)
class Kubelet:
    """Who runs the pods of an API server, below a folder, with a Spark of this machine.

    `environment` is what every container has beside what its pod says, as an image would.
    """

    server: KubernetesServer
    folder: Path
    spark: Path
    environment: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run pods for as long as the block; all of them end with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.server.objects.on_delete = self._deleted
        self.server.logs = self._log
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
            for uid in list(self.processes):
                self._kill(uid)

    def place(self, pod: dict[str, Any]) -> Path:
        """The folder of one pod."""
        return self.folder / str(pod["metadata"]["name"])

    # ---- its work --------------------------------------------------------------------------------

    def _work(self) -> None:
        seen = 0
        objects = self.server.objects
        while not self._over.is_set():
            with objects.changed:
                objects.changed.wait_for(lambda: len(objects.events) > seen, 0.2)  # noqa: B023 - asked at once
                news, seen = objects.events[seen:], len(objects.events)
            for _, what, kind, pod in news:
                if (what, kind) == ("ADDED", "pods"):
                    threading.Thread(target=self._run, args=(pod,), daemon=True).start()

    def _run(self, pod: dict[str, Any]) -> None:
        name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
        say = self.server.objects.say
        container = pod["spec"]["containers"][0]
        if pod["spec"].get("nodeSelector"):
            say(space, name, conditions=[_unschedulable()])
            return
        if container["image"] == NO_IMAGE:
            waits = {"reason": "ImagePullBackOff", "message": f"cannot pull {NO_IMAGE}"}
            say(space, name, containerStatuses=[_container(container, {"waiting": waits})])
            return
        folder = self.place(pod)
        folder.mkdir(parents=True, exist_ok=True)
        mounts = self._mounted(pod, container, folder)
        if mounts is None:
            return
        command, environment = self._command(pod, container, mounts)
        with self._lock:
            if not self._is_there(pod):
                return
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.processes[pod["metadata"]["uid"]] = process
        logs = threading.Thread(target=_keep_log, args=(process, folder / "log"), daemon=True)
        logs.start()
        say(
            space,
            name,
            phase="Running",
            podIP=_ADDRESS,
            hostIP=_ADDRESS,
            conditions=[
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True"},
            ],
            containerStatuses=[_container(container, {"running": {}}, is_ready=True)],
        )
        code = process.wait()
        logs.join(_LOG_S)
        code = code if code >= 0 else 128 - code
        self.codes[name] = code
        reason = {0: "Completed", 137: "OOMKilled"}.get(code, "Error")
        ended = {"exitCode": code, "reason": reason}
        say(
            space,
            name,
            phase="Failed" if code else "Succeeded",
            conditions=[{"type": "Ready", "status": "False"}],
            containerStatuses=[_container(container, {"terminated": ended})],
        )

    def _is_there(self, pod: dict[str, Any]) -> bool:
        meta = pod["metadata"]
        with suppress(MissingError):
            found = self.server.objects.get("pods", meta["namespace"], meta["name"])
            return bool(found["metadata"]["uid"] == meta["uid"])
        return False

    def _mounted(
        self, pod: dict[str, Any], container: dict[str, Any], folder: Path
    ) -> dict[str, Path] | None:
        """Where a container's volumes lie here, by their path there, once all have come."""
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        mounts, places = {}, {}
        for mount in container.get("volumeMounts") or ():
            place = places[mount["name"]] = folder / "volumes" / mount["name"]
            place.mkdir(parents=True, exist_ok=True)
            mounts[str(mount["mountPath"])] = place / mount.get("subPath", "")
        for volume_name, place in places.items():
            for kind, source in (("configmaps", "configMap"), ("secrets", "secret")):
                given = volumes[volume_name].get(source)
                if given is None:
                    continue
                name = given.get("name") or given.get("secretName")
                found = self._wait_for(kind, pod, name)
                if found is None:
                    return None
                for file, text in (found.get("data") or {}).items():
                    if kind == "secrets":
                        (place / file).touch(mode=0o600)
                        (place / file).write_bytes(base64.b64decode(text))
                    else:
                        here = _here(str(text), mounts)
                        (place / file).write_text(self._resolved(pod, here))
        return mounts

    def _wait_for(self, kind: str, pod: dict[str, Any], name: str) -> dict[str, Any] | None:
        # Spark makes the driver's settings after its pod.
        until = time.monotonic() + _MOUNTS_S
        while time.monotonic() < until and self._is_there(pod):
            with suppress(MissingError):
                return self.server.objects.get(kind, pod["metadata"]["namespace"], name)
            time.sleep(0.05)
        return None

    def _resolved(self, pod: dict[str, Any], text: str) -> str:
        """A text with addresses in the place of services' names, once these services are there."""
        named = re.compile(rf"([a-z0-9-]+)\.{pod['metadata']['namespace']}\.svc\b")
        for name in set(named.findall(text)):
            self._wait_for("services", pod, name)
        return named.sub(_ADDRESS, text)

    def _command(
        self, pod: dict[str, Any], container: dict[str, Any], mounts: dict[str, Path]
    ) -> tuple[list[str], dict[str, str]]:
        """What the entry point of Spark's image would run, and its environment."""

        def here(text: str) -> str:
            return self._resolved(pod, _here(text, mounts))

        fields = {"status.podIP": _ADDRESS, "metadata.name": pod["metadata"]["name"]}
        said = {}
        for one in container.get("env") or ():
            source = (one.get("valueFrom") or {}).get("fieldRef")
            said[one["name"]] = (
                fields[source["fieldPath"]] if source else here(one.get("value") or "")
            )
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"SPARK_HOME": str(self.spark), "SPARK_LOCAL_IP": _ADDRESS}
        environment = {**kept, **ENVIRONMENT, **own, **self.environment, **said}
        role, *arguments = map(here, container["args"])
        if role == "driver":
            command = [
                str(self.spark / "bin" / "spark-submit"),
                *("--conf", f"spark.driver.bindAddress={said['SPARK_DRIVER_BIND_ADDRESS']}"),
                *("--deploy-mode", "client", *arguments),
            ]
            return command, environment
        options = sorted(name for name in said if name.startswith("SPARK_JAVA_OPT_"))
        folders = [said.get("SPARK_CONF_DIR"), environment.get("HADOOP_CONF_DIR")]
        more = environment.get("SPARK_DIST_CLASSPATH")
        paths = list(filter(None, [*folders, str(self.spark / "jars" / "*"), more]))
        command = [
            "java",
            *(said[name] for name in options),
            *SHORT_LIVED.split(),
            f"-Xmx{said['SPARK_EXECUTOR_MEMORY']}",
            *("-cp", os.pathsep.join(paths), _BACKEND),
            *("--driver-url", said["SPARK_DRIVER_URL"]),
            *("--executor-id", said["SPARK_EXECUTOR_ID"]),
            *("--cores", said["SPARK_EXECUTOR_CORES"]),
            *("--app-id", said["SPARK_APPLICATION_ID"]),
            *("--hostname", said["SPARK_EXECUTOR_POD_IP"]),
            *("--resourceProfileId", said["SPARK_RESOURCE_PROFILE_ID"]),
            *("--podName", said["SPARK_EXECUTOR_POD_NAME"]),
        ]
        return command, environment

    # ---- what ends -------------------------------------------------------------------------------

    def _deleted(self, pod: dict[str, Any]) -> None:
        with self._lock:
            self._kill(pod["metadata"]["uid"])

    def _kill(self, uid: str) -> None:
        process = self.processes.get(uid)
        if process is not None:
            # Python workers of an executor leave the group of their JVM, and end with its pipes.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _log(self, namespace: str, name: str) -> bytes:
        del namespace
        file = self.folder / name / "log"
        return file.read_bytes() if file.exists() else b""


def _keep_log(process: subprocess.Popen[bytes], file: Path) -> None:
    """Keep what a container writes, each line with its time, until all writers have ended."""
    assert process.stdout is not None
    with process.stdout, file.open("ab", buffering=0) as log:
        for line in process.stdout:
            log.write(datetime.now(UTC).isoformat().encode() + b" " + line)


def _here(text: str, mounts: dict[str, Path]) -> str:
    """A text with the places of volumes on this machine for those in the pod."""
    for there, place in sorted(mounts.items(), reverse=True):
        text = text.replace(there, str(place))
    return text


def _container(
    container: dict[str, Any], state: dict[str, Any], *, is_ready: bool = False
) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _unschedulable() -> dict[str, str]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 node(s) didn't match Pod's node selector",
    }
