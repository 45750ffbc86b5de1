from django.urls import path

from webapp.pages.datasets import views

app_name = "datasets"
urlpatterns = [
    path("datasets/", views.dataset_list, name="list"),
    path("datasets/<slug:team>/<str:name>/", views.detail, name="detail"),
]
