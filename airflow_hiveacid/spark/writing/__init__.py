"""The part of a write that needs Spark: the context of a job, its statements, and tasks for files.

The write itself, up to its commit, is in the room `writing`.
"""
