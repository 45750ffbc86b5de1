"""Below serving/, so that one host can have these pages and the router, whose addresses begin with endpoints/."""

from django.urls import path

from webapp.pages.serving import form, trial, verbs, views

app_name = "serving"
ONE = "serving/<slug:team>/<str:name>/"
urlpatterns = [
    path("serving/", views.endpoint_list, name="list"),
    path("serving/create/", form.create, name="create"),
    path(ONE, views.detail, name="detail"),
    path(f"{ONE}version/", verbs.change_version, name="version"),
    path(f"{ONE}try/", trial.trial, name="try"),
    path(f"{ONE}collect/", verbs.collect, name="collect"),
    path(f"{ONE}promote/", verbs.promote, name="promote"),
    path(f"{ONE}rollback/", verbs.roll_back, name="rollback"),
    path(f"{ONE}scale/", verbs.scale, name="scale"),
    path(f"{ONE}stop/", verbs.stop, name="stop"),
]
