"""Programs whose proofs take longer than a test; each has a command in the Makefile."""
