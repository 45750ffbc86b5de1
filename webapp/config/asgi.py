"""The web process: pages and REST over HTTP, the live socket over WebSocket."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.urls import path

http = get_asgi_application()  # loads the apps, so the consumers are imported after it

from webapp.live.consumers import LiveConsumer  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": AllowedHostsOriginValidator(
            AuthMiddlewareStack(URLRouter([path("ws/live/", LiveConsumer.as_asgi())]))
        ),
    }
)
