"""Connections and logins to a metastore: sockets, HTTP, Kerberos, tokens, passwords."""
