"""What a submission that outlives its worker leaves in its task's state store.

The Spark provider keeps the driver's ID there, so that a retry finds the driver instead of
submitting again. Beside it stands where the result goes, and which statement of which generation
the driver runs: another one's result must not be taken for ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.jobs.specs import JobSpec

RESULT_URI_KEY: Final = "hiveacid_result_uri"
"""Where a resumable submission's result goes."""

SUBMISSION_KEY: Final = "hiveacid_submission"
"""What a resumable submission does."""

ATTEMPT_KEY: Final = "hiveacid_attempt"
"""Which attempt a resumable submission is."""


class StateStore(Protocol):
    """A task's state store, as far as it is used here."""

    def get(self, key: str) -> object:
        """The value, or None."""

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Keep a value, by default for as long as the deployment says."""

    def delete(self, key: str) -> None:
        """Remove a value, if there is one."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """The notes of one submission, and the keys that the Spark provider keeps beside them."""

    store: StateStore
    provider_keys: tuple[str, ...] = ()

    @property
    def result_uri(self) -> str | None:
        """Where the noted submission's result goes."""
        uri = self.store.get(RESULT_URI_KEY)
        return None if uri is None else str(uri)

    def note(self, spec: JobSpec) -> None:
        """Note what is about to be submitted, in place of what was.

        The ID of what was would hide, from a retry, that nobody has noted the new one's.
        """
        for key in self.provider_keys:
            self.store.delete(key)
        self.store.set(RESULT_URI_KEY, spec.result_uri)
        self.store.set(SUBMISSION_KEY, _what(spec))
        self.store.set(ATTEMPT_KEY, spec.attempt)

    @property
    def attempt(self) -> str | None:
        """The noted submission's attempt."""
        attempt = self.store.get(ATTEMPT_KEY)
        return None if attempt is None else str(attempt)

    def attempt_without(self, id_key: str) -> str | None:
        """The same, if nobody has noted under what ID it runs."""
        return None if self.store.get(id_key) else self.attempt

    def is_of_another(self, spec: JobSpec) -> bool:
        """Whether what is noted does something else; its result is not ours to take."""
        noted = self.store.get(SUBMISSION_KEY)
        return noted is not None and noted != _what(spec)

    def forget(self) -> None:
        """Remove all notes, the provider's too."""
        for key in (RESULT_URI_KEY, SUBMISSION_KEY, ATTEMPT_KEY, *self.provider_keys):
            self.store.delete(key)


def _what(spec: JobSpec) -> JsonValue:
    return {
        "job_key": spec.job_key,
        "generation": spec.generation,
        "statement": dict(sorted(spec.statement.items())),
    }
