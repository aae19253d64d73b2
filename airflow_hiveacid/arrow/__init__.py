"""The engine in one process: finds rows by key or simple condition, and makes events of them."""
