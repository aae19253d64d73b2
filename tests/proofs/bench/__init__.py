"""The measurement of full-ACID tables against plain ORC files: `python -m tests.proofs.bench`."""
