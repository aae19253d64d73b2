"""Access to Spark: session, tasks on executors, Catalyst, failures and store logins."""
