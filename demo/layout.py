"""Knows where everything of the demonstration lies: one folder, safe to delete once it is stopped.

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
    """Folders of one demonstration. `home` holds its state, `repository` the code it runs."""

    repository: Path
    home: Path

    @classmethod
    def of(cls, repository: Path = REPOSITORY) -> Self:
        """The layout of a checkout."""
        return cls(repository=repository, home=repository / "build" / "demo")

    @property
    def changes(self) -> Path:
        """The change batches, one Parquet file a day."""
        return self.home / "changes"

    @property
    def metastore(self) -> Path:
        """Everything of the metastore, its warehouse included."""
        return self.home / "metastore"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.home / "airflow"

    @property
    def passwords(self) -> Path:
        """The password of Airflow's only user, as its simple auth manager keeps it."""
        return self.airflow / "simple_auth_manager_passwords.json.generated"

    @property
    def processes(self) -> Path:
        """One record a running process."""
        return self.home / "processes"

    @property
    def logs(self) -> Path:
        """Output of Airflow's components."""
        return self.home / "logs"

    @property
    def scratch(self) -> Path:
        """What may go at any time."""
        return self.home / "scratch"

    @property
    def dags(self) -> Path:
        """The examples of the repository."""
        return self.repository / "dags"

    @property
    def airflow_programs(self) -> Path:
        """Programs of the Airflow environment."""
        return self.repository / ".venv" / "bin"

    @property
    def spark_programs(self) -> Path:
        """Programs of the Spark environment."""
        return self.repository / ".venv-spark" / "bin"

    def prepare(self) -> None:
        """Make the folders that nobody else makes; the ones with secrets are for the owner only."""
        for folder in (self.processes, self.logs, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        self.airflow.mkdir(mode=0o700, exist_ok=True)
