from django.urls import path

from webapp.pages.registry import gate, suites, views

app_name = "registry"
urlpatterns = [
    path("models/", views.model_list, name="list"),
    path("models/register/", views.register, name="register"),
    path("models/suites/", suites.suite_list, name="suites"),
    path("models/suites/publish/", suites.publish, name="publish-suite"),
    path("models/<slug:team>/<str:name>/", views.detail, name="detail"),
    path("models/<slug:team>/<str:name>/gate/", views.change_gate, name="gate"),
    path("models/<slug:team>/<str:name>/<int:number>/approve/", gate.approve, name="approve"),
    path("models/<slug:team>/<str:name>/<int:number>/evaluate/", gate.evaluate, name="evaluate"),
    path("models/<slug:team>/<str:name>/<int:number>/stage/", gate.stage, name="stage"),
]
