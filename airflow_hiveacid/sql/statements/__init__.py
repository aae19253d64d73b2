"""Parsers of statements, with one module for each kind."""
