"""Transactions: opening, locks, heartbeats, commit, and fencing of other tries."""
