"""Clients of YARN's resource manager and of the Kubernetes API server."""
