"""The folders of the demonstration, in one parent that may be deleted after the servers stop.

Example:
    >>> DemoLayout.of(Path("/repo")).changes
    PosixPath('/repo/build/demo/changes')
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

REPOSITORY: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoLayout:
    """Folders of one demonstration: `home` for its state, `repository` for the code."""

    repository: Path
    home: Path

    @classmethod
    def of(cls, repository: Path = REPOSITORY) -> Self:
        """Return the layout of a checkout."""
        return cls(repository=repository, home=repository / "build" / "demo")

    @property
    def changes(self) -> Path:
        """The change batches, one Parquet file per day."""
        return self.home / "changes"

    @property
    def metastore(self) -> Path:
        """The metastore's files, including its warehouse."""
        return self.home / "metastore"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def passwords(self) -> Path:
        """The file of Airflow's simple auth manager with the password of the only user."""
        return self.airflow / "simple_auth_manager_passwords.json.generated"

    @property
    def processes(self) -> Path:
        """The folder with one record for each running process."""
        return self.home / "processes"

    @property
    def logs(self) -> Path:
        """Output of Airflow's components."""
        return self.home / "logs"

    @property
    def scratch(self) -> Path:
        """The folder for files that may be deleted at any time."""
        return self.home / "scratch"

    @property
    def dags(self) -> Path:
        """The folder with the repository's example DAGs."""
        return self.repository / "dags"

    @property
    def airflow_programs(self) -> Path:
        """The folder with the programs of the Airflow environment."""
        return self.repository / ".venv" / "bin"

    @property
    def spark_programs(self) -> Path:
        """The folder with the programs of the Spark environment."""
        return self.repository / ".venv-spark" / "bin"

    def prepare(self) -> None:
        """Create the folders that no server creates; only the owner can read Airflow's folder."""
        for folder in (self.processes, self.logs, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        self.airflow.mkdir(mode=0o700, exist_ok=True)
