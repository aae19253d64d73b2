"""The specs of jobs; the operator sends a spec to the Spark application."""
