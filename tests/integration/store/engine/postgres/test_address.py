"""Addresses of PostgreSQL with a query, as managed databases print them, and TLS to the store."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError
from crawlfleet.store.engine.postgres.address import normalise_address

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

SSL_REQUEST = struct.pack("!ii", 8, 80877103)


def write_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


@asynccontextmanager
async def tls_front(dsn: str, certificate: Path) -> AsyncIterator[str]:
    """A port that speaks PostgreSQL's TLS negotiation before the server: the one in the wheel was built without it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    target = urlsplit(dsn)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await reader.readexactly(8) != SSL_REQUEST:
                writer.close()
                return
            writer.write(b"S")
            await writer.start_tls(context)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            writer.close()
            return
        up, down = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(forward(reader, down), forward(up, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}{target.path}"
    finally:
        server.close()


async def open_and_close(address: str) -> None:
    store = await open_store(address)
    assert (await store.read_leader()).term == 0
    await store.close()


@pytest.mark.parametrize(
    "query",
    [
        "sslmode=prefer",
        "sslmode=disable&application_name=fleet",
        "sslmode=disable&channel_binding=require&connect_timeout=10&pgbouncer=true",
        "target_session_attrs=read-write",
    ],
)
async def test_an_address_with_a_query_is_opened(postgres_dsn: str, query: str) -> None:
    await open_and_close(f"{postgres_dsn}?{query}")


async def test_the_store_is_reached_by_tls(postgres_dsn: str, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path)
    async with tls_front(postgres_dsn, certificate) as address:
        await open_and_close(f"{address}?sslmode=require")
        await open_and_close(f"{address}?sslmode=verify-full&sslrootcert={certificate}")
        other = tmp_path / "other"
        other.mkdir()
        with pytest.raises(ConfigError, match=r"^store: the server's certificate is not accepted .*sslrootcert=FILE"):
            await open_store(f"{address}?sslmode=verify-full&sslrootcert={write_certificate(other)}")


async def test_a_server_without_tls_is_named_when_the_address_asks_for_it(postgres_dsn: str) -> None:
    with pytest.raises(ConfigError, match=r"^store: the server speaks no TLS.*sslmode"):
        await open_store(f"{postgres_dsn}?sslmode=require")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sslmode=bogus", "sslmode.*verify-full"),
        ("sslmode", r"NAME=VALUE"),
        ("sslmode=verify-full&sslrootcert=/no/such/file", "sslrootcert of the address: there is no file /no/such/file"),
        ("sslmode=verify-full&sslrootcert=/etc/hostname", "certificate"),
        ("port=many", "many"),
    ],
)
async def test_a_mistake_in_the_query_names_the_setting(postgres_dsn: str, query: str, words: str) -> None:
    address = postgres_dsn if "port=" not in query else "postgresql:///fleet"
    with pytest.raises(ConfigError, match=f"^store: .*{words}"):
        await open_store(f"{address}?{query}")


def test_what_only_other_clients_understand_is_left_out() -> None:
    address = "postgresql://ann:s%40cret@db.example:5432/fleet?sslmode=require&channel_binding=require"
    assert normalise_address(address) == "postgresql://ann:s%40cret@db.example:5432/fleet?sslmode=require"
    plain = "postgresql://ann:s%3Fcret@a/fleet"
    assert normalise_address(plain) == plain


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://u@a,b/fleet", "postgresql://u@a,b/fleet?target_session_attrs=read-write"),
        ("postgresql://u:p@a:1,b:2/fleet?x=1", "postgresql://u:p@a:1,b:2/fleet?x=1&target_session_attrs=read-write"),
        ("postgresql:///fleet?host=a,b", "postgresql:///fleet?host=a%2Cb&target_session_attrs=read-write"),
        ("postgresql://u@a,b/f?target_session_attrs=any", "postgresql://u@a,b/f?target_session_attrs=any"),
        ("postgresql://u:p,q@a/fleet", "postgresql://u:p,q@a/fleet"),
        ("postgresql://u@a/fleet?host=b", "postgresql://u@a/fleet?host=b"),
    ],
)
def test_of_several_hosts_the_one_that_takes_writes_is_wanted(address: str, expected: str) -> None:
    assert normalise_address(address) == expected
