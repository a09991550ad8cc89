"""A PostgreSQL of the distribution on a loopback address, by TLS, with an account for each way to log in."""

import contextlib
import os
import pwd
import shutil
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
    """Serve until the context is left; as the distribution's account where this is root, which it refuses."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if not programs:
        pytest.skip("postgresql is not installed")
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="gloveport-postgres."))
    data, pair, port = home / "data", home / "pair.pem", free_port()
    try:
        pair.write_bytes(authority.pair(NAME).read_bytes())
        pair.chmod(0o600)
        for path in home, pair:
            os.chown(path, account.pw_uid, account.pw_gid)
        make = [programs[-1].with_name("initdb"), "-D", data, "-U", "owner", "-A", "trust", "--no-sync"]
        settings = {"locale": "C", "encoding": "UTF8"}
        words = [f"--{name}={value}" for name, value in settings.items()]
        await anyio.run_process([*make, *words], cwd=home, **identity)
        (data / "pg_hba.conf").write_text(ACCESS)
        settings = {"listen_addresses": HOST, "port": port, "unix_socket_directories": "", "fsync": "off"}
        settings |= {"ssl": "on", "ssl_cert_file": pair, "ssl_key_file": pair, "max_connections": 20}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (
            (home / "log").open("wb") as log,
            subprocess.Popen([programs[-1], "-D", data, *words], cwd=home, stderr=log, **identity) as process,
        ):
            try:
                server = Postgres(port)
                await prepare(server)
                yield server
            finally:
                process.send_signal(signal.SIGINT)  # at once, but in order
    finally:
        shutil.rmtree(home)


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
