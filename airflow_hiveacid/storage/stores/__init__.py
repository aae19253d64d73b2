"""A table's files: file systems, staging, the job ledger and notes."""
