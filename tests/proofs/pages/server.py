"""An Airflow of its own on SQLite: one API server, users of several roles, and the shipped DAGs.

Input is an empty folder and an auth manager. Output is a running server at a URL with or without a
base path. It listens on 127.0.0.1 only, and no scheduler runs.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Final

import requests

from airflow_hiveacid.local.process import free_port
from airflow_hiveacid.local.site import HOST

ROOT: Final = Path(__file__).resolve().parents[3]
_START_S: Final = 1800.0
_COMMAND_S: Final = 1800.0
_END_S: Final = 30.0
_DAGS: Final = ("hiveacid_collect.py", "hiveacid_operations.py")
_LINKED_DAG: Final = """
from airflow.sdk import DAG

from airflow_hiveacid.operators import HiveAcidTagOperator

with DAG("linked", schedule=None):
    # No metastore answers, so the task fails; its link has to lead to the table all the same.
    HiveAcidTagOperator(
        task_id="tag", table="sales.orders_000", name="closing", retry_policy=None
    )
"""


class Auth(Enum):
    """Who knows the users and their rights; the value is Airflow's option `[core] auth_manager`."""

    SIMPLE = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
    FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"


# Each user with its roles. Airflow shows a plugin's pages only to users who may read plugins, which
# FAB's Viewer may not.
_USERS: Final[Mapping[Auth, Mapping[str, Sequence[str]]]] = {
    Auth.SIMPLE: {"viewer": ["viewer"], "admin": ["admin"]},
    Auth.FAB: {
        "viewer": ["Viewer", "pages"],
        "admin": ["Admin"],
        "op": ["Op"],
        "user": ["User"],
        "plain_viewer": ["Viewer"],
        "public": ["Public"],
        "assets": ["assets"],
        "collector": ["collector"],
    },
}
# What our own roles in FAB may read.
_FAB_ROLES: Final[Mapping[str, Sequence[str]]] = {
    "pages": ["Plugins"],
    "assets": ["Plugins", "Assets"],
    "collector": ["Plugins", "Assets", "DAG:hiveacid_collect"],
}


class Airflow:
    """An Airflow installation in a folder that does not exist yet.

    `base_path` is the path of `[api] base_url`, such as `/airflow`; it is empty at the root.
    `metastore_port` is the port of the metastore on this host; by default, none answers.
    """

    def __init__(self, home: Path, auth: Auth, metastore_port: int | None = None) -> None:
        self.home = home
        self.auth = auth
        self._metastore_port = metastore_port or free_port(HOST)
        self.base_path = ""
        self._public_role = ""
        self._port = free_port(HOST)
        self._passwords = {name: secrets.token_urlsafe(12) for name in _USERS[auth]}
        self._secret = secrets.token_urlsafe(48)

    @property
    def url(self) -> str:
        """The address of the API server, without a slash at its end."""
        return f"http://{HOST}:{self._port}{self.base_path}"

    def prepare(self) -> None:
        """Create the database, the users and the DAGs."""
        (self.home / "dags").mkdir(parents=True)
        for name in _DAGS:
            shutil.copy(ROOT / "dags" / name, self.home / "dags")
        (self.home / "dags" / "linked.py").write_text(_LINKED_DAG)
        (self.home / "passwords.json").write_text(json.dumps(self._passwords))
        self.run("-m", "airflow", "db", "migrate")
        self.run("-m", "airflow", "dags", "reserialize")
        if self.auth is Auth.FAB:
            self._create_fab_users()

    def collect(self, wanted: str = "") -> None:
        """Run the collecting DAG once: of the metastore, or as `collect` makes it up."""
        if wanted:
            file = str(self.home / "dags" / _DAGS[0])
            self.run("-m", "tests.proofs.pages.collect", file, wanted)
        else:
            self.run("-m", "airflow", "dags", "test", "hiveacid_collect")

    def fail_linked_task(self) -> str:
        """Run a task that fails before it does anything, and return the ID of its run."""
        self.run("-m", "airflow", "dags", "test", "linked", is_checked=False)
        runs = self.ask("admin", "GET", "api/v2/dags/linked/dagRuns").json()["dag_runs"]
        return str(runs[0]["dag_run_id"])

    @contextmanager
    def serving(self, base_path: str = "", public_role: str = "") -> Iterator[None]:
        """Run the API server in the `with` block.

        `public_role` is FAB's role of users who are not logged in.
        """
        self.base_path, self._public_role = base_path, public_role
        with (self.home / "api-server.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "api-server"],
                cwd=self.home,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await(process)
            yield
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def password(self, user: str) -> str:
        """Return the password of a user."""
        return self._passwords[user]

    def token(self, user: str) -> str:
        """Return a new token of a user."""
        answer = requests.post(
            f"{self.url}/auth/token",
            json={"username": user, "password": self.password(user)},
            timeout=60,
        )
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def ask(self, user: str, verb: str, path: str, **more: Any) -> requests.Response:  # noqa: ANN401 - passed on
        """Send one request as a user; `""` is not logged in."""
        headers = {"Authorization": f"Bearer {self.token(user)}"} if user else {}
        return requests.request(
            verb,
            f"{self.url}/{path}",
            headers=headers,
            allow_redirects=False,
            timeout=60,
            **more,
        )

    def run(self, *arguments: str, is_checked: bool = True) -> None:
        """Run a Python program in the environment of this Airflow.

        Raises:
            RuntimeError: the program failed, and `is_checked` is true.
        """
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        if is_checked and done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout[-3000:]}")

    def _create_fab_users(self) -> None:
        def airflow(group: str, command: str, *more: str) -> None:
            self.run("-m", "airflow", group, command, *more)

        airflow("roles", "create", *_FAB_ROLES)
        for role, resources in _FAB_ROLES.items():
            airflow("roles", "add-perms", role, "--resource", *resources, "--action", "can_read")
        for user, (first, *others) in _USERS[Auth.FAB].items():
            names = ("--username", user, "--firstname", user, "--lastname", user)
            login = ("--email", f"{user}@example.com", "--password", self.password(user))
            airflow("users", "create", *names, *login, "--role", first)
            for role in others:
                airflow("users", "add-role", "--username", user, "--role", role)

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                if requests.get(f"{self.url}/api/v2/version", timeout=10).ok:
                    return
            except requests.RequestException:
                pass
            time.sleep(0.5)
        log = (self.home / "api-server.log").read_text(errors="replace")
        raise RuntimeError(f"Airflow's API server does not answer:\n{log[-3000:]}")

    def _environment(self) -> dict[str, str]:
        foreign = ("AIRFLOW", "HIVEACID_")
        folders = [ROOT, ROOT / "build" / "fab"] if self.auth is Auth.FAB else [ROOT]
        users = ",".join(f"{user}:{roles[0]}" for user, roles in _USERS[Auth.SIMPLE].items())
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(foreign)},
            "PYTHONPATH": os.pathsep.join(map(str, folders)),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__AUTH_MANAGER": self.auth.value,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__FAB__AUTH_ROLE_PUBLIC": self._public_role,
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self._port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": self._secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": self._secret,
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_HIVE_ACID_DEFAULT": json.dumps(
                {"conn_type": "hive_acid_metastore", "host": HOST, "port": self._metastore_port}
            ),
            "NO_PROXY": f"{HOST},localhost",
            "no_proxy": f"{HOST},localhost",
        }
