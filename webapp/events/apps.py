from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "webapp.events"
    label = "events"
