"""Where a request comes from: the address of the client, and whether its browser is known."""

from ipaddress import ip_address, ip_network

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import get_random_string

DEVICE_COOKIE = f"{settings.SESSION_COOKIE_NAME}_device"
DEVICE_SECONDS = 180 * 86_400
_SALT = "accounts.device"


def client_address(request: HttpRequest) -> str:
    """Returns the address of the connection, or behind trusted proxies the last other one of X-Forwarded-For."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    forwarded = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).split(",")
    while forwarded and _is_trusted(address):
        try:
            address = str(ip_address(forwarded.pop().strip()))
        except ValueError:
            break
    return address


def _is_trusted(address: str) -> bool:
    try:
        return any(ip_address(address) in ip_network(proxy) for proxy in settings.TRUSTED_PROXIES)
    except ValueError:
        return False


def known_device(request: HttpRequest, username: str) -> str:
    """Returns the id of the browser if this person has logged in with it before, else ""."""
    try:
        whose, number = signing.loads(
            request.COOKIES.get(DEVICE_COOKIE, ""), salt=_SALT, max_age=DEVICE_SECONDS
        )
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return str(number) if whose == username.lower() else ""


def remember_device(response: HttpResponse, username: str) -> None:
    """Sets a cookie that gives no access. It keeps failed logins elsewhere from counting against this browser."""
    response.set_cookie(
        DEVICE_COOKIE,
        signing.dumps([username.lower(), get_random_string(16)], salt=_SALT),
        max_age=DEVICE_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
