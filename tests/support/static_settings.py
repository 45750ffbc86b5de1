"""The settings as mypy's Django plugin and other tools without a database read them: addresses that nobody dials."""

import os

from tests.support.settings_environment import SETTINGS

os.environ |= {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    **SETTINGS,
}

from webapp.config.settings import *  # noqa: F403
