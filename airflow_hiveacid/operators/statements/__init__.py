"""The statements of a task: their specs, their metastore calls, and notes for later tries."""
