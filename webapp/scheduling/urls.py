from django.urls import path

from webapp.scheduling import views

app_name = "scheduling"
urlpatterns = [
    path("queue/", views.queue, name="queue"),
    path("queue/what-if/", views.what_if, name="what-if"),
    path("queue/<str:job_id>/priority/", views.change_priority, name="priority"),
]
