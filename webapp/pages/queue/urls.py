from django.urls import path

from webapp.pages.queue import changes, views
from webapp.pages.queue import forecasts as forecasts_page
from webapp.pages.queue import next_move as moves

app_name = "queue"
urlpatterns = [
    path("queue/", views.queue, name="queue"),
    path("queue/forecasts/", forecasts_page.forecasts, name="forecasts"),
    path("queue/next-move/", moves.next_move, name="next-move"),
    path("queue/what-if/", views.what_if, name="what-if"),
    path("queue/<str:job_id>/changes/", changes.of_job, name="changes"),
    path("queue/<str:job_id>/priority/", views.change_priority, name="priority"),
]
