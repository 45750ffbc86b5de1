from django.urls import path

from webapp.pages.storage import views

app_name = "storage"
urlpatterns = [
    path("storage/", views.storage, name="storage"),
    path("storage/limits/", views.limit, name="limit"),
    path("storage/leftovers/<int:leftover_id>/keep/", views.keep, name="keep"),
]
