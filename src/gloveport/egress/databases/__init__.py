"""Logins to databases for programs that know no password: PostgreSQL and Redis."""
