"""Against whom a writer has lost, as far as anybody can tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """Whoever committed first. What is not known is None; a foreign engine has no job key.

    `did` is what it did there (`format.policies.Doing`), `directory` where that was seen.
    """

    txn_id: int | None = None
    write_id: int | None = None
    did: str | None = None
    directory: str | None = None
    job_key: str | None = None
    attempt: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything of it is."""
        return self.txn_id is not None or self.write_id is not None

    def __str__(self) -> str:
        parts = [
            f"{what} {value}"
            for what, value in (
                ("transaction", self.txn_id),
                ("write ID", self.write_id),
                ("of", self.job_key),
                ("attempt", self.attempt),
            )
            if value is not None
        ]
        return " ".join(parts) + ("" if self.job_key else ", which no ledger here knows")
