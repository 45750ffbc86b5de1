"""The router process: the way from callers to the replicas of endpoints. Any number may run."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.config.settings")

import django

django.setup()

from webapp.router.application import Router  # noqa: E402

application = Router()
