"""Submission, polling, recovery and termination of Spark applications on YARN and Kubernetes."""
