from django.urls import path

from webapp.clusters import api

urlpatterns = [path("nodes", api.Nodes.as_view(), name="api-nodes")]
