from django.urls import path

from webapp.pages.runs import files, views

app_name = "runs"
urlpatterns = [
    path("runs/change/", views.change_many, name="change-many"),
    path("runs/<str:run_id>/", views.detail, name="detail"),
    path("runs/<str:run_id>/edit/", views.edit, name="edit"),
    path("runs/<str:run_id>/tags/", views.tag, name="tag"),
    path("runs/<str:run_id>/archive/", views.archive, name="archive"),
    path("runs/<str:run_id>/restore/", views.restore, name="restore"),
    path("runs/<str:run_id>/delete/", views.delete, name="delete"),
    path("runs/<str:run_id>/files/<path:path>", files.download, name="file"),
    path("runs/<str:run_id>/images/<path:path>", files.image, name="image"),
]
