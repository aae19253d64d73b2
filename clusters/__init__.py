"""What runs where: each combination of a cluster that users have, run against real servers."""
