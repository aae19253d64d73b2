"""Pure functions that decide what to read, merge, compact and clean."""
