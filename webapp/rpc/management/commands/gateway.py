from typing import Any

from django.core.management.base import BaseCommand

from webapp.rpc.gateway import serve


class Command(BaseCommand):
    help = "Run the gRPC gateway of the agents (TRAINMASTER_GATEWAY_LISTEN, TLS unless TRAINMASTER_GATEWAY_TLS=0)."

    def handle(self, *args: Any, **options: Any) -> None:
        serve()
