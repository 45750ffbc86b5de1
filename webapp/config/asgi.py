"""The web process: pages and REST over HTTP, the live socket over WebSocket."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.cache import caches
from django.urls import path

# A request runs in a thread and a context of its own, and would open connections of its own. So those to the database
# come from a pool, and the cache's client is made here, once, for all contexts that follow from this one.
# A page that takes longer than this is refused: docs/how-to/install.md, "When a server does not answer".
settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
settings.DATABASES["default"]["OPTIONS"] |= {
    "pool": {"min_size": 2, "max_size": 24, "timeout": 5},
    "options": "-c statement_timeout=20000",
}
settings.CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 5}
caches["default"]

http = get_asgi_application()  # loads the apps, so the consumers are imported after it

from webapp.config.intake import Intake  # noqa: E402
from webapp.config.patience import Patience  # noqa: E402
from webapp.sockets.consumers import LiveConsumer  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": Intake(Patience(http)),
        "websocket": AllowedHostsOriginValidator(
            AuthMiddlewareStack(URLRouter([path("ws/live/", LiveConsumer.as_asgi())]))
        ),
    }
)
