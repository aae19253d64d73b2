"""The terms of a job's transactions, with the values that most tests leave at one value."""

from __future__ import annotations

from typing import Any

from airflow_hiveacid.metastore.transactions import JobTerms


def job_terms(job_key: str | None = "job", *, lock_timeout_s: float = 5, **others: Any) -> JobTerms:  # noqa: ANN401 - the fields of JobTerms
    """The terms of a job; each call makes a new attempt."""
    return JobTerms(job_key=job_key, lock_timeout_s=lock_timeout_s, **others)
