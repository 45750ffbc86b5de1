from django.urls import path

from webapp.pages.service_levels import views

app_name = "service_levels"
urlpatterns = [
    path("service-levels/", views.service_levels, name="list"),
    path("service-levels/<str:code>/", views.level, name="level"),
    path("service-levels/<str:code>/reset/", views.reset, name="reset"),
]
