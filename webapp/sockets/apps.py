from django.apps import AppConfig


class SocketsConfig(AppConfig):
    name = "webapp.sockets"
    label = "sockets"
