"""What this node shows to other nodes, and whom it believes: mutual TLS with certificates that the platform issues.

The key is made here and never leaves; each session brings a new certificate for it. Both are kept in the data folder,
so that a node that starts while the control plane is away still serves what it holds.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import cast

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.files import write_atomically
from agent.transfer.peers.neighbour import Security


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
        """Each session offers one. What is shown stays the same while it serves: see `_changed`."""
        if authority == self._authority and _serves_instead(self._certificate, certificate):
            return
        self._certificate, self._authority = certificate, authority
        write_atomically(self._folder / "authority.crt", authority)
        write_atomically(self._folder / "node.crt", certificate)
        self._apply()

    def server(self) -> grpc.ServerCredentials:
        """Asks everyone for a certificate of the same authority; takes up a new one of its own by itself."""
        self._last_shown = self._shown()
        # Its stubs do not know the None that it documents.
        changed = cast("Callable[[], grpc.ServerCertificateConfiguration]", self._changed)
        return grpc.dynamic_ssl_server_credentials(
            _configuration(*self._last_shown), changed, require_client_authentication=True
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

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """What to show from now on, or None where that is still the same.

        gRPC asks at each handshake. An answer makes it free what it showed before, which the handshakes beside it may
        still read: six neighbours that came again and again ended the process after 1,900 (SIGSEGV in 1.85).
        """
        shown = self._shown()
        if shown == self._last_shown:
            return None
        self._last_shown = shown
        return _configuration(*shown)

    def _shown(self) -> tuple[bytes, bytes, bytes]:
        """Key, certificate and authority. Before the first session nobody has reason to believe us, nor we anybody:
        a certificate of our own."""
        return self._key_pem, self._certificate or self._own, self._authority or self._own

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


def _configuration(key: bytes, certificate: bytes, authority: bytes) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(key, certificate)], authority)


def _serves_instead(held: bytes, offered: bytes) -> bool:
    """Whether the held certificate does what the offered one would: the same name, and over half its time to go."""
    try:
        old, new = x509.load_pem_x509_certificate(held), x509.load_pem_x509_certificate(offered)
    except ValueError:
        return False  # none yet, or a damaged file
    whole, left = (
        new.not_valid_after_utc - new.not_valid_before_utc,
        old.not_valid_after_utc - new.not_valid_before_utc,
    )
    return old.subject == new.subject and left > whole / 2


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
