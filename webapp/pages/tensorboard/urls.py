from django.urls import path, re_path

from webapp.pages.tensorboard import views

app_name = "tensorboard"
urlpatterns = [
    path("tensorboard/<str:key>/start", views.start, name="start"),
    re_path(r"^tensorboard/(?P<key>[^/]+)/(?P<path>.*)$", views.board, name="board"),
]
