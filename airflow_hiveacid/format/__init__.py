"""The table format as pure functions: names, IDs, snapshots, the ACID state of a directory."""
