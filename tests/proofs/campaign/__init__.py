"""A campaign on real processes: everything runs at once, and is killed at random times."""
