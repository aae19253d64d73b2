"""Frames: read, write, merge, compact."""
