"""Where a table's bytes lie: file systems, staging, the job ledger, a table's notes."""
