from django.urls import path

from webapp.pages.alerts import channels, rules, views

app_name = "alerts"
urlpatterns = [
    path("alerts/", views.alert_list, name="list"),
    path("alerts/silences/", views.silences, name="silences"),
    path("alerts/silences/<int:silence_id>/end/", views.end_silence, name="silence_end"),
    path("alerts/rules/", rules.rule_list, name="rules"),
    path("alerts/rules/<str:code>/", rules.rule, name="runbook"),
    path("alerts/rules/<str:code>/delete/", rules.delete, name="rule_delete"),
    path("alerts/channels/", channels.channels, name="channels"),
    path("alerts/channels/<int:channel_id>/test/", channels.test, name="channel_test"),
    path("alerts/channels/<int:channel_id>/delete/", channels.delete, name="channel_delete"),
    path("alerts/<str:alert_id>/", views.detail, name="detail"),
    path("alerts/<str:alert_id>/acknowledge/", views.acknowledge, name="acknowledge"),
]
