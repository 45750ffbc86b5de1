from django.apps import AppConfig


class RpcConfig(AppConfig):
    name = "webapp.rpc"
    label = "rpc"
