from django.urls import path

from webapp.pages.retraining import verbs, views

app_name = "retraining"
ONE = "retraining/<slug:team>/<str:name>/"
urlpatterns = [
    path("retraining/", views.policy_list, name="list"),
    path(ONE, views.detail, name="detail"),
    path(f"{ONE}policy/", verbs.set_policy, name="policy"),
    path(f"{ONE}policy/delete/", verbs.delete_policy, name="delete-policy"),
    path(f"{ONE}start/", verbs.start, name="start"),
    path(f"{ONE}<str:cycle_id>/approve/", verbs.approve, name="approve"),
    path(f"{ONE}<str:cycle_id>/cancel/", verbs.cancel, name="cancel"),
]
