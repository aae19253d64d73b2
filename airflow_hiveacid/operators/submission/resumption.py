"""Notes in the task's state store, so that a retry can resume the submission of a lost worker.

The Spark provider stores the driver's ID there. These notes add the result's URI and the driver's
statement and generation, so a retry never returns the result of a different statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.jobs.job import JobSpec

RESULT_URI_KEY: Final = "hiveacid_result_uri"
SUBMISSION_KEY: Final = "hiveacid_submission"
ATTEMPT_KEY: Final = "hiveacid_attempt"


class StateStore(Protocol):
    """The methods of a task's state store that we use."""

    def get(self, key: str) -> object:
        """Return the stored value, or None."""

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Store a value, by default for the retention time that is configured in Airflow."""

    def delete(self, key: str) -> None:
        """Remove a value, if there is one."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """The notes about one submission, and the Spark provider's keys in the same state store."""

    store: StateStore
    provider_keys: tuple[str, ...] = ()

    @property
    def result_uri(self) -> str | None:
        """The URI of the stored submission's result, or None."""
        uri = self.store.get(RESULT_URI_KEY)
        return None if uri is None else str(uri)

    def note(self, spec: JobSpec) -> None:
        """Replace the last submission's notes and driver ID by the next submission's notes."""
        for key in self.provider_keys:
            self.store.delete(key)
        self.store.set(RESULT_URI_KEY, spec.result_uri)
        self.store.set(SUBMISSION_KEY, _what(spec))
        self.store.set(ATTEMPT_KEY, spec.attempt)

    @property
    def attempt(self) -> str | None:
        """The attempt ID of the stored submission, or None."""
        attempt = self.store.get(ATTEMPT_KEY)
        return None if attempt is None else str(attempt)

    def attempt_without(self, id_key: str) -> str | None:
        """Return the stored attempt ID if the store lacks the ID of its driver, else None."""
        return None if self.store.get(id_key) else self.attempt

    def is_of_another(self, spec: JobSpec) -> bool:
        """Return true if the stored submission runs a different statement."""
        noted = self.store.get(SUBMISSION_KEY)
        return noted is not None and noted != _what(spec)

    def forget(self) -> None:
        """Remove all notes, including the provider's."""
        for key in (RESULT_URI_KEY, SUBMISSION_KEY, ATTEMPT_KEY, *self.provider_keys):
            self.store.delete(key)


def _what(spec: JobSpec) -> JsonValue:
    return {
        "job_key": spec.job_key,
        "generation": spec.generation,
        "statement": dict(sorted(spec.statement.items())),
    }
