from django.urls import path

from webapp.rest import quotas as api

urlpatterns = [
    path("teams/<str:slug>/quotas", api.Quotas.as_view(), name="api-quotas"),
    path("teams/<str:slug>/quotas/<str:gpu_type>", api.OneQuota.as_view(), name="api-quota"),
]
