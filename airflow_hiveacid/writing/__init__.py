"""One write to tables by any engine: order, staged files, publication, commit, restarts."""
