"""Clients of YARN's resource manager and Kubernetes' API server, and the run of an application."""
