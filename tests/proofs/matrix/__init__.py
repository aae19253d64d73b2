"""Tables of every kind, written by every engine, and read by every engine after each step."""
