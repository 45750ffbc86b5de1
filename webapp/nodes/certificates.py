"""The platform as the authority by which nodes know each other: certificates for agents, signatures for manifests.

The key follows from TRAINMASTER_SECRET_KEY, so every replica has the same one and none is stored; whoever changes that
key changes the authority, and the agents get new certificates with their next session.
"""

import datetime
import functools

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from django.conf import settings

from platform_core.errors import TrainmasterError

DAYS = 397  # a session renews it long before
_ORDER_OF_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_LEEWAY = datetime.timedelta(minutes=10)  # clocks of nodes are not always right
_BEGIN = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Trainmaster nodes")])


class NodeAuthority:
    """Of one platform, which is known by its secret."""

    def __init__(self, secret: str) -> None:
        # 128 bits more than the order of the curve, so that every key is as likely as the others.
        seed = HKDF(hashes.SHA256(), 48, None, b"trainmaster authority of nodes, 1").derive(secret.encode())
        self._key = ec.derive_private_key(int.from_bytes(seed) % (_ORDER_OF_P256 - 1) + 1, ec.SECP256R1())
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(_NAME)
            .issuer_name(_NAME)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(_BEGIN)
            .not_valid_after(_BEGIN.replace(year=_BEGIN.year + 30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """The certificate to trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def certificate_for(self, node_id: str, request_pem: bytes) -> bytes:
        """The certificate asked for, in PEM. Whatever the request says, the name in it is the node's id."""
        try:
            request = x509.load_pem_x509_csr(request_pem)
            if not request.is_signature_valid:
                raise InvalidSignature
        except (ValueError, InvalidSignature) as error:
            why = "it is not a signed PEM request"
            raise TrainmasterError("request_invalid", what="the certificate request", why=why) from error
        now = datetime.datetime.now(datetime.UTC)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node_id)]))
            .issuer_name(_NAME)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LEEWAY)
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(node_id)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def sign(self, text: str) -> bytes:
        return self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))


def node_authority() -> NodeAuthority:
    """This platform's."""
    return _authority(settings.SECRET_KEY)


_authority = functools.lru_cache(maxsize=2)(NodeAuthority)
