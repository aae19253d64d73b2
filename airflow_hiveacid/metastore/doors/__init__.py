"""The doors of a metastore: carriers of bytes, and logins over them."""
