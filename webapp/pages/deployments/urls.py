from django.urls import path

from webapp.pages.deployments import actions, form, views

app_name = "deployments"
urlpatterns = [
    path("deployments/", views.deployment_list, name="list"),
    path("deployments/create/", form.create, name="create"),
    path("deployments/history/", views.past, name="history"),
    path("deployments/plan/", form.plan, name="plan"),
    path("deployments/<str:deployment_id>/", views.detail, name="detail"),
    path("deployments/<str:deployment_id>/chunks/", views.chunks, name="chunks"),
    path("deployments/<str:deployment_id>/retry/", actions.retry, name="retry"),
    path("deployments/<str:deployment_id>/pin/", actions.pin, name="pin"),
    path("deployments/<str:deployment_id>/promote/", actions.promote, name="promote"),
    path("deployments/<str:deployment_id>/rollback/", actions.rollback, name="rollback"),
    path("deployments/<str:deployment_id>/cancel/", actions.cancel, name="cancel"),
]
