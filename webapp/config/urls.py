"""Pages at /, the REST API under /api/v1/, the MLflow API under /api/2.0/mlflow and its neighbours."""

from django.contrib import admin
from django.urls import include, path
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView

from webapp.config.health import healthz, livez
from webapp.pages.accounts.views import admin_login
from webapp.pages.api_docs.views import api_docs, errors
from webapp.rest.prometheus import Metrics

admin.site.site_header = admin.site.site_title = "Trainmaster"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", healthz, name="readyz"),
    path("livez", livez, name="livez"),
    path("", include("webapp.pages.urls")),
    path("", include("webapp.mlflow.urls")),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("api/v1/", include("webapp.rest.urls")),
    path("api/v1/schema", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", api_docs, name="api-docs"),
    path("docs/errors", errors, name="errors"),
    path("admin/login/", admin_login),
    path("admin/password_change/", require_safe(RedirectView.as_view(pattern_name="accounts:settings"))),
    path("admin/", admin.site.urls),
]

handler404 = "webapp.base.problems.page_not_found"
