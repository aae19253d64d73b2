"""Tests, what they stand on, and the proofs that take longer than a test."""
