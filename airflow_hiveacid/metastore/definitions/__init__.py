"""Statements that the metastore itself runs: definitions of tables, and queries of its state."""
