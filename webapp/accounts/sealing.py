"""Team secrets at rest: encrypted with the platform's Fernet key, so the database alone reveals nothing."""

from functools import cache

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from platform_core.errors import TrainmasterError


@cache
def _fernet(key: str) -> Fernet:
    return Fernet(key)


def seal(value: str) -> bytes:
    return _fernet(settings.SECRETS_KEY).encrypt(value.encode())


def unseal(ciphertext: bytes, called: str) -> str:
    """Raises secret_unknown, with `called` as the name, for a secret sealed with another key."""
    try:
        return _fernet(settings.SECRETS_KEY).decrypt(ciphertext).decode()
    except InvalidToken as error:
        why = "was sealed with another TRAINMASTER_SECRETS_KEY; set it again on the team's page"
        raise TrainmasterError("secret_unknown", f"Secret {called} {why}") from error
