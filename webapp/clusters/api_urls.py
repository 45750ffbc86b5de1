from django.urls import path

from webapp.clusters import api

urlpatterns = [
    path("nodes", api.Nodes.as_view(), name="api-nodes"),
    path("nodes/<str:node_id>", api.OneNode.as_view(), name="api-node"),
]
