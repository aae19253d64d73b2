"""A write to tables, from its events to its commit."""
