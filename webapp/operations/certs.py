"""`trainmaster certs`: a certificate authority of one's own, the gateway's certificate, and one for each node.

The agents trust the authority (TRAINMASTER_AGENT_CA); the gateway shows the server certificate. Elliptic keys on P-256
are fast to shake hands with and understood by every TLS library in use.
"""

import datetime
import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
# Renewed by hand once a year at most; longer lives are refused by some TLS stacks.
CERTIFICATE_DAYS = 397
LOCAL_SERVER = "server-localhost"
# Clocks of nodes are not always right.
LEEWAY = datetime.timedelta(minutes=10)


@dataclass(frozen=True)
class Pair:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


@click.command()
@click.option(
    "--dir", "folder", required=True, type=Path, help="Folder to write to; created if it does not exist."
)
@click.option(
    "--host",
    "hosts",
    required=True,
    multiple=True,
    help="Name or IP by which agents reach the gateway; repeatable.",
)
@click.option("--node", "nodes", multiple=True, help="Also make a certificate for this node; repeatable.")
@click.option(
    "--days",
    default=CERTIFICATE_DAYS,
    show_default=True,
    type=click.IntRange(1, 825),
    help="Days until the certificates expire.",
)
def certs(folder: Path, hosts: tuple[str, ...], nodes: tuple[str, ...], days: int) -> None:
    """Make the TLS certificates of gateway and agents.

    The authority is made once; a later call with the same --dir adds certificates. Nothing is overwritten.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    refuse_names_that_are_none(hosts + nodes)
    refuse_to_overwrite(folder, [f"server-{hosts[0]}", *(f"node-{node}" for node in nodes)])
    authority = open_authority(folder)
    today = datetime.datetime.now(datetime.UTC)
    written = {f"server-{hosts[0]}": issue_server(authority, hosts, today, days)}
    written |= {f"node-{node}": issue_node(authority, (node,), today, days) for node in nodes}
    for name, pair in written.items():
        write_pair(folder, name, pair)
    report(folder, authority, written)


def ensure_certificates(folder: Path, nodes: tuple[str, ...]) -> None:
    """For a platform on one machine: what is missing or ends within a month is made, the rest stays."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = open_authority(folder)
    today = datetime.datetime.now(datetime.UTC)
    for name in (LOCAL_SERVER, *(f"node-{node}" for node in nodes)):
        certificate = folder / f"{name}.crt"
        if certificate.exists():
            until = x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
            if until - today > datetime.timedelta(days=30):
                continue
            certificate.unlink()
            (folder / f"{name}.key").unlink(missing_ok=True)
        if name == LOCAL_SERVER:
            pair = issue_server(authority, ("localhost", "127.0.0.1"), today, CERTIFICATE_DAYS)
        else:
            # Nodes that share a machine dial each other by its address.
            pair = issue_node(authority, ("127.0.0.1", name.removeprefix("node-")), today, CERTIFICATE_DAYS)
        write_pair(folder, name, pair)


def refuse_names_that_are_none(names: tuple[str, ...]) -> None:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9*][A-Za-z0-9.:_-]*", name):
            raise click.ClickException(
                f"{name!r} is neither a host name nor an IP address; nothing was written."
            )


def refuse_to_overwrite(folder: Path, names: list[str]) -> None:
    taken = [name for name in names if (folder / f"{name}.crt").exists() or (folder / f"{name}.key").exists()]
    if taken:
        raise click.ClickException(
            f"{folder} already holds {', '.join(taken)}. Move it away first to renew; nothing was written."
        )


def open_authority(folder: Path) -> Pair:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if certificate.exists() != key.exists():
        raise click.ClickException(
            f"{folder} holds only one of ca.crt and ca.key. Restore the other, or remove it."
        )
    if certificate.exists():
        loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise click.ClickException(
                f"{key} is not an elliptic-curve key; it was not made by this command."
            )
        return Pair(loaded, x509.load_pem_x509_certificate(certificate.read_bytes()))
    authority = make_authority(datetime.datetime.now(datetime.UTC))
    write_pair(folder, "ca", authority)
    return authority


def make_authority(today: datetime.datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = common_name("Trainmaster certificate authority")
    usage = key_usage(certificates=True)
    certificate = (
        blank(name, name, key, today, AUTHORITY_DAYS)
        # It signs certificates of machines only, no further authorities.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(key, certificate)


def issue_server(authority: Pair, hosts: tuple[str, ...], today: datetime.datetime, days: int) -> Pair:
    names = x509.SubjectAlternativeName([subject_name(host) for host in hosts])
    return issue(authority, hosts[0], [ExtendedKeyUsageOID.SERVER_AUTH], names, today, days)


def issue_node(authority: Pair, names: tuple[str, ...], today: datetime.datetime, days: int) -> Pair:
    """Nodes dial each other, so a node's certificate is good for both ends."""
    alternatives = x509.SubjectAlternativeName([subject_name(name) for name in names])
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    return issue(authority, names[-1], purposes, alternatives, today, days)


def issue(
    authority: Pair,
    name: str,
    purposes: list[x509.ObjectIdentifier],
    names: x509.SubjectAlternativeName,
    today: datetime.datetime,
    days: int,
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        blank(common_name(name), authority.certificate.subject, key, today, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(names, critical=False)
        .add_extension(identifier, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(key, certificate)


def blank(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    today: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - LEEWAY)
        .not_valid_after(today + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def subject_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def key_usage(certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def write_pair(folder: Path, name: str, pair: Pair) -> None:
    """O_EXCL: two calls at once cannot overwrite each other either."""
    key = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = pair.certificate.public_bytes(serialization.Encoding.PEM)
    for path, content, mode in ((f"{name}.key", key, 0o600), (f"{name}.crt", certificate, 0o644)):
        with os.fdopen(os.open(folder / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)


def report(folder: Path, authority: Pair, written: dict[str, Pair]) -> None:
    server = next(iter(written))
    click.echo(f"Authority    {folder / 'ca.crt'}  (keep {folder / 'ca.key'} off the nodes)")
    click.echo(f"Fingerprint  {fingerprint(authority.certificate)}")
    for name, pair in written.items():
        until = pair.certificate.not_valid_after_utc.date().isoformat()
        click.echo(f"Certificate  {folder / name}.crt  with its .key, valid until {until}")
    click.echo(f"Gateway      TRAINMASTER_GATEWAY_CERTIFICATE={folder / server}.crt")
    click.echo(f"             TRAINMASTER_GATEWAY_KEY={folder / server}.key")
    click.echo("Agents       TRAINMASTER_AGENT_CA=ca.crt, copied to each node")


def fingerprint(certificate: x509.Certificate) -> str:
    return "SHA256 " + certificate.fingerprint(hashes.SHA256()).hex(":").upper()
