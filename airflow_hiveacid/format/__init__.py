"""The table format as arithmetic: names, IDs, snapshots, the ACID state of a directory."""
