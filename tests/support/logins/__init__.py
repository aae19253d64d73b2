"""A Kerberos realm, an LDAP directory, certificates, and metastores with such logins."""
