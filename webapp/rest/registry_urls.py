from django.urls import path

from webapp.rest import registry as api

urlpatterns = [
    path("models", api.Models.as_view(), name="api-models"),
    path("models/<str:name>/versions", api.Versions.as_view(), name="api-model-versions"),
    path("model-versions/<str:version_id>", api.VersionDetail.as_view(), name="api-model-version"),
]
