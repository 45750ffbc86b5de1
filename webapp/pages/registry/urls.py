from django.urls import path

from webapp.pages.registry import compare, gate, suites, targets, version, views

app_name = "registry"
urlpatterns = [
    path("models/", views.model_list, name="list"),
    path("models/register/", views.register, name="register"),
    path("models/suites/", suites.suite_list, name="suites"),
    path("models/suites/publish/", suites.publish, name="publish-suite"),
    path("models/targets/", targets.target_list, name="targets"),
    path("models/targets/set/", targets.set_target, name="set-target"),
    path("models/targets/<slug:team>/<str:name>/delete/", targets.delete_target, name="delete-target"),
    path("models/<slug:team>/<str:name>/", views.detail, name="detail"),
    path("models/<slug:team>/<str:name>/compare/", compare.compare, name="compare"),
    path("models/<slug:team>/<str:name>/gate/", views.change_gate, name="gate"),
    path("models/<slug:team>/<str:name>/<int:number>/", version.detail, name="version"),
    path("models/<slug:team>/<str:name>/<int:number>/describe/", version.describe, name="describe"),
    path("models/<slug:team>/<str:name>/<int:number>/approve/", gate.approve, name="approve"),
    path("models/<slug:team>/<str:name>/<int:number>/evaluate/", gate.evaluate, name="evaluate"),
    path("models/<slug:team>/<str:name>/<int:number>/measure/", gate.measure, name="measure"),
    path("models/<slug:team>/<str:name>/<int:number>/stage/", gate.stage, name="stage"),
]
