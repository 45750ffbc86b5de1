from django.urls import path

from webapp.pages.lineage import views

app_name = "lineage"
urlpatterns = [
    path("recalls/", views.recall_list, name="recalls"),
    path("recalls/<str:recall_id>/lift/", views.lift, name="lift"),
    path("lineage/<str:kind>/<str:item_id>/", views.detail, name="detail"),
    path("lineage/<str:kind>/<str:item_id>/recall/", views.recall, name="recall"),
]
