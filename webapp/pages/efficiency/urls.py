from django.urls import path

from webapp.pages.efficiency import views

app_name = "efficiency"
urlpatterns = [
    path("efficiency/", views.efficiency, name="efficiency"),
    path("efficiency/chargeback/", views.chargeback, name="chargeback"),
]
