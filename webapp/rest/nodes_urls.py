from django.urls import path

from webapp.rest import nodes as api

urlpatterns = [
    path("nodes", api.Nodes.as_view(), name="api-nodes"),
    path("maintenance-windows", api.Windows.as_view(), name="api-windows"),
    path("maintenance-windows/<int:window_id>", api.OneWindow.as_view(), name="api-window"),
    path("nodes/<str:node_id>/notice", api.Notice.as_view(), name="api-notice"),
    path("nodes/<str:node_id>", api.OneNode.as_view(), name="api-node"),
]
