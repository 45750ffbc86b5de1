"""`Authorization: Bearer tm_…` on the REST API."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from webapp.accounts import tokens
from webapp.accounts.models import ApiToken, User


class TokenAuthentication(BaseAuthentication):
    """Sets request.user to the person and request.auth to the token; `actor_of(request)` is scoped by it."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        scheme, _, text = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = tokens.find(text.strip())
        if token is None:
            raise AuthenticationFailed(
                "The token is unknown, expired or revoked. Make a new one under Settings."
            )
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document describes it."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A personal token, made under Settings: tm_…",
        }
