from django.urls import path

from webapp.pages.nodes import device_health, views
from webapp.pages.nodes import maintenance as maintenance_page
from webapp.pages.nodes import map as map_page

app_name = "nodes"
urlpatterns = [
    path("nodes/", views.nodes, name="nodes"),
    path("nodes/map/", map_page.cluster_map, name="map"),
    path("nodes/tokens/", views.tokens, name="tokens"),
    path("nodes/tokens/<int:token_id>/revoke/", views.token_revoke, name="token_revoke"),
    path("nodes/maintenance/", maintenance_page.maintenance, name="maintenance"),
    path("nodes/maintenance/<int:window_id>/cancel/", maintenance_page.cancel, name="maintenance_cancel"),
    path("nodes/<str:node_id>/", views.node, name="node"),
    path("nodes/<str:node_id>/drain/", views.drain, name="drain"),
    path("nodes/<str:node_id>/resume/", views.resume, name="resume"),
    path("nodes/<str:node_id>/return/", device_health.return_to_service, name="return"),
    path("nodes/<str:node_id>/notice/", views.notice, name="notice"),
    path("nodes/<str:node_id>/mark/", views.mark, name="mark"),
    path("nodes/<str:node_id>/revoke/", views.revoke, name="revoke"),
    path("nodes/<str:node_id>/readmit/", views.readmit, name="readmit"),
]
