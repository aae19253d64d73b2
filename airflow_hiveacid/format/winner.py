"""The transaction that caused a write conflict by committing first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The writer that committed first; unknown fields are None, as is another engine's job key.

    `did` is the kind of change (`format.policies.Change`), which `directory` shows.
    """

    txn_id: int | None = None
    write_id: int | None = None
    did: str | None = None
    directory: str | None = None
    job_key: str | None = None
    attempt: str | None = None

    @property
    def is_known(self) -> bool:
        """True if the transaction ID or write ID of the writer is known."""
        return self.txn_id is not None or self.write_id is not None

    def __str__(self) -> str:
        parts = [
            f"{label} {value}"
            for label, value in (
                ("transaction", self.txn_id),
                ("write ID", self.write_id),
                ("of", self.job_key),
                ("attempt", self.attempt),
            )
            if value is not None
        ]
        return " ".join(parts) + ("" if self.job_key else ", which is not in our ledgers")
