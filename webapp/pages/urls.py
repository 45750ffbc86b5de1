"""The addresses of all pages, subject by subject."""

from django.urls import include, path

SUBJECTS = (
    "overview",
    "report",
    "service_levels",
    "efficiency",
    "alerts",
    "accounts",
    "teams",
    "admin_pages",
    "nodes",
    "jobs",
    "queue",
    "planner",
    "experiments",
    "runs",
    "sweeps",
    "reports",
    "tensorboard",
    "datasets",
    "registry",
    "deployments",
    "serving",
    "retraining",
    "lineage",
    "storage",
)

urlpatterns = [path("", include(f"webapp.pages.{subject}.urls")) for subject in SUBJECTS]
