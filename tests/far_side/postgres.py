"""A PostgreSQL of the distribution on a loopback address, by TLS, with an account for each way to log in."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import psycopg
import pytest
from tests.far_side.authority import Authority
from tests.far_side.listening import HOST, free_port

PASSWORD = "p4ss of the=owner,%s"
NAME = "db.test"
ACCESS = """
host    all owner   samehost trust
hostssl all scram   samehost scram-sha-256
hostssl all md5     samehost md5
hostssl all clear   samehost password
hostssl all trusted samehost trust
hostssl all nobody  samehost reject
hostnossl all plain,scram samehost scram-sha-256
hostnossl all md5   samehost md5
"""
ACCOUNTS = """
SET password_encryption = 'scram-sha-256';
CREATE ROLE scram LOGIN PASSWORD '{0}'; CREATE ROLE clear LOGIN PASSWORD '{0}'; CREATE ROLE trusted LOGIN;
CREATE ROLE nobody LOGIN;
SET password_encryption = 'md5';
CREATE ROLE md5 LOGIN PASSWORD '{0}';
"""


@dataclass(frozen=True)
class Postgres:
    """A server that runs. ``owner`` may do everything, from this machine."""

    port: int

    def connect_as_owner(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(host=HOST, port=self.port, user="owner", dbname=database, autocommit=True)


@contextlib.asynccontextmanager
async def postgres(authority: Authority) -> AsyncIterator[Postgres]:
    """Serve until the context is left."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if not programs:
        pytest.skip("postgresql is not installed")
    with tempfile.TemporaryDirectory(prefix="gloveport-postgres.") as directory:
        home, port = Path(directory), free_port()
        data, pair, accounts = home / "data", home / "pair.pem", home / "passwd"
        pair.write_bytes(authority.pair(NAME).read_bytes())
        pair.chmod(0o600)
        # It runs as nobody who is root, or who has no name. And it ends with us.
        accounts.write_text("postgres:x:1000:1000::/:/bin/sh\n")
        named = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", accounts, "/etc/passwd"]
        named += ["--unshare-user", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--chdir", home]
        words = ["-D", data, "-U", "owner", "-A", "trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
        await anyio.run_process([*named, programs[-1].with_name("initdb"), *words])
        (data / "pg_hba.conf").write_text(ACCESS)
        settings = {"listen_addresses": HOST, "port": port, "unix_socket_directories": "", "fsync": "off"}
        settings |= {"ssl": "on", "ssl_cert_file": pair, "ssl_key_file": pair, "max_connections": 20}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (
            (home / "log").open("wb") as log,
            subprocess.Popen([*named, programs[-1], "-D", data, *words], stderr=log) as process,
        ):
            try:
                server = Postgres(port)
                await prepare(server)
                yield server
            finally:
                (own,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                os.kill(int(own), signal.SIGINT)  # at once, but in order


async def prepare(server: Postgres) -> None:
    with anyio.fail_after(20):
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                connection = await anyio.to_thread.run_sync(server.connect_as_owner)
                break
            await anyio.sleep(0.02)
    with connection:
        connection.execute(ACCOUNTS.format(PASSWORD))
        for database in "orders", "other":
            connection.execute(f"CREATE DATABASE {database} TEMPLATE template0")
