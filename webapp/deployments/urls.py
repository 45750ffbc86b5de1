from django.urls import path

from webapp.deployments import history_views, rollout_views, views

app_name = "deployments"
urlpatterns = [
    path("deployments/", views.deployment_list, name="list"),
    path("deployments/create/", views.create, name="create"),
    path("deployments/history/", history_views.past, name="history"),
    path("deployments/plan/", views.plan, name="plan"),
    path("deployments/<str:deployment_id>/", views.detail, name="detail"),
    path("deployments/<str:deployment_id>/chunks/", views.chunks, name="chunks"),
    path("deployments/<str:deployment_id>/retry/", views.retry, name="retry"),
    path("deployments/<str:deployment_id>/pin/", views.pin, name="pin"),
    path("deployments/<str:deployment_id>/promote/", rollout_views.promote, name="promote"),
    path("deployments/<str:deployment_id>/rollback/", rollout_views.rollback, name="rollback"),
    path("deployments/<str:deployment_id>/cancel/", views.cancel, name="cancel"),
]
