from django.urls import path

from webapp.pages.registry import views

app_name = "registry"
urlpatterns = [
    path("models/", views.model_list, name="list"),
    path("models/register/", views.register, name="register"),
    path("models/<slug:team>/<str:name>/", views.detail, name="detail"),
]
