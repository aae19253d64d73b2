"""One write, from its events to its commit."""
