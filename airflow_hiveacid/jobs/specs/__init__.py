"""The specs of jobs, which the operator sends to the Spark application."""
