from django.urls import path

from webapp.pages.datasets import verbs, views

app_name = "datasets"
urlpatterns = [
    path("datasets/", views.dataset_list, name="list"),
    path("datasets/register/", verbs.register, name="register"),
    path("datasets/<slug:team>/<str:name>/", views.detail, name="detail"),
    path("datasets/<slug:team>/<str:name>/describe/", verbs.describe, name="describe"),
    path("datasets/<slug:team>/<str:name>/access/", verbs.request_access, name="request_access"),
    path("datasets/<slug:team>/<str:name>/access/<str:request_id>/", verbs.decide, name="decide"),
    path("datasets/<slug:team>/<str:name>/versions/<str:snapshot_id>/review/", verbs.review, name="review"),
    path("datasets/<slug:team>/<str:name>/versions/<str:snapshot_id>/check/", verbs.check, name="check"),
    path("datasets/<slug:team>/<str:name>/versions/<str:snapshot_id>/resume/", verbs.resume, name="resume"),
    path("datasets/<slug:team>/<str:name>/versions/<str:snapshot_id>/delete/", verbs.delete, name="delete"),
]
