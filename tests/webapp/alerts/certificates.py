"""Certificates that the tests of alerts let expire."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(at_ms: int, days: int) -> bytes:
    """A self-signed one, valid from a day before `at_ms` for so many days after it, as PEM."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "g")]),
    )
    begin = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin - datetime.timedelta(days=1))
    built = builder.not_valid_after(begin + datetime.timedelta(days=days)).sign(key, hashes.SHA256())
    return built.public_bytes(serialization.Encoding.PEM)
