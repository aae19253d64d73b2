"""Lets every engine write tables of every kind, and every engine read them after each step."""
