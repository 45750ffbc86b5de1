"""What this node shows to other nodes, and whom it believes: mutual TLS with certificates that the platform issues.

The key is made here and never leaves; each session brings a new certificate for it. Both are kept in the data folder,
so that a node that starts while the control plane is away still serves what it holds.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.files import write_atomically
from agent.transfer.neighbour import Security


class NodeCredentials:
    def __init__(self, data: Path) -> None:
        self._folder = data / "peers"
        self._key = self._load_key()
        self._certificate = _read(self._folder / "node.crt")
        self._authority = _read(self._folder / "authority.crt")
        self.security = Security(names_are_node_ids=True)
        self._apply()

    def request(self) -> bytes:
        """For a certificate; the platform puts the node's own name into it."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def accept(self, certificate: bytes, authority: bytes) -> None:
        self._certificate, self._authority = certificate, authority
        write_atomically(self._folder / "authority.crt", authority)
        write_atomically(self._folder / "node.crt", certificate)
        self._apply()

    def server(self) -> grpc.ServerCredentials:
        """Asks everyone for a certificate of the same authority; takes up a new one of its own by itself."""
        return grpc.dynamic_ssl_server_credentials(
            self._shown(), self._shown, require_client_authentication=True
        )

    def is_signed(self, text: str, signature: bytes) -> bool:
        """Whether the platform has signed this."""
        if not self._authority:
            return False
        key = x509.load_pem_x509_certificate(self._authority).public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        try:
            key.verify(signature, text.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    # -- inside

    def _shown(self) -> grpc.ServerCertificateConfiguration:
        """Before the first session nobody has reason to believe us, nor we anybody: a certificate of our own."""
        certificate = self._certificate or self._own
        return grpc.ssl_server_certificate_configuration(
            [(self._key_pem, certificate)], self._authority or self._own
        )

    def _apply(self) -> None:
        self._key_pem = _pem(self._key)
        self._own = b"" if self._certificate else _self_signed(self._key)
        if self._certificate and self._authority:
            trusted = grpc.ssl_channel_credentials(self._authority, self._key_pem, self._certificate)
            self.security.renew(trusted)

    def _load_key(self) -> ec.EllipticCurvePrivateKey:
        path = self._folder / "node.key"
        try:
            loaded = serialization.load_pem_private_key(path.read_bytes(), password=None)
            if isinstance(loaded, ec.EllipticCurvePrivateKey):
                return loaded
        except (OSError, ValueError):
            pass  # the first start, or a damaged file
        key = ec.generate_private_key(ec.SECP256R1())
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "node.crt").unlink(missing_ok=True)
        write_atomically(path, _pem(key), mode=0o600)
        return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _self_signed(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "not enrolled yet")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
