"""Every setting of the control plane: read from the environment once, typed, refused with a sentence when bad.

One of the two files that read the environment (the other is agent/config.py). A secret NAME may also come from the
file that NAME_FILE points to. docs/reference/settings.md has a heading for each variable.
"""

import ipaddress
import os
import re
import urllib.parse
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from platform_core.jobs.spec import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT
from platform_core.scheduling.policy import PRODUCTION
from trainmaster.structured_logs import FORMATS
from webapp import ROOT
from webapp.config.beat import beat_schedule
from webapp.config.logs import logging_settings
from webapp.config.openapi import OPENAPI, REST
from webapp.config.otlp import otlp


def text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(
            f"{name} is not set. Set it, or start with `trainmaster up`, which makes one."
        )
    return value


def secret(name: str, default: str | None = None) -> str:
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return text(name, default)
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE names {path}, which cannot be read: {error.strerror}."
        ) from error


def integer(name: str, default: int, low: int, high: int) -> int:
    value = text(name, str(default))
    if not re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII) or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number from {low} to {high}.")
    return int(value)


def flag(name: str, default: bool) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in {"0", "1", "true", "false", "yes", "no"}:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be 1 or 0.")
    return value in {"1", "true", "yes"}


def choice(name: str, default: str, *allowed: str) -> str:
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def words(name: str, default: str) -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str) -> list[str]:
    values = words(name, "")
    for network in values:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name} has {network!r}; write addresses and networks such as 10.0.0.5,172.16.0.0/12."
            ) from error
    return values


def database(url: str) -> dict[str, Any]:
    """postgresql://user:password@host:port/name, or ?host=/socket/folder for a Unix socket."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {parts.scheme!r}; only postgresql:// is supported."
        )
    query = dict(urllib.parse.parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": urllib.parse.unquote(parts.username or ""),
        "PASSWORD": urllib.parse.unquote(parts.password or ""),
        "HOST": query.get("host") or parts.hostname or "",
        "PORT": str(query.get("port") or parts.port or ""),
        "CONN_MAX_AGE": 60,
        "OPTIONS": {"connect_timeout": 5},
        "CONN_HEALTH_CHECKS": True,  # a restarted database costs one request, not all of them
    }


# What the platform stands on
SECRET_KEY = secret("TRAINMASTER_SECRET_KEY")
SECRETS_KEY = secret("TRAINMASTER_SECRETS_KEY")  # Fernet key that encrypts team secrets at rest
DEBUG = flag("TRAINMASTER_DEBUG", False)
PUBLIC_URL = text("TRAINMASTER_PUBLIC_URL", "http://127.0.0.1:8000")
PROBE_URL = text("TRAINMASTER_PROBE_URL", f"{PUBLIC_URL}/healthz")  # asked for the service level availability
ROUTER_URL = text("TRAINMASTER_ROUTER_URL", "http://127.0.0.1:7700")
ROUTER_GRPC_LISTEN = text("TRAINMASTER_ROUTER_GRPC_LISTEN", "")
SECURE = PUBLIC_URL.startswith("https://")
ALLOWED_HOSTS = words(
    "TRAINMASTER_ALLOWED_HOSTS", f"{urllib.parse.urlsplit(PUBLIC_URL).hostname},localhost,127.0.0.1"
)
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
TRUSTED_PROXIES = networks("TRAINMASTER_TRUSTED_PROXIES")  # whose X-Forwarded-For is believed
DATABASES = {"default": database(secret("DATABASE_URL"))}
REDIS_URL = secret("REDIS_URL")
STORE_URL = text("TRAINMASTER_STORE_URL", f"file://{ROOT / 'var' / 'store'}")

# The gateway of the agents
GATEWAY_LISTEN = text("TRAINMASTER_GATEWAY_LISTEN", "127.0.0.1:7600")
# HOST:PORT that agents dial; empty: as it listens, or the host of PUBLIC_URL where it listens everywhere.
GATEWAY_ADDRESS = text("TRAINMASTER_GATEWAY_ADDRESS", "")
GATEWAY_TLS = flag("TRAINMASTER_GATEWAY_TLS", True)
GATEWAY_CERTIFICATE = text("TRAINMASTER_GATEWAY_CERTIFICATE", "")
GATEWAY_KEY = text("TRAINMASTER_GATEWAY_KEY", "")
# Accepted beside those made in the browser.
BOOTSTRAP_TOKEN = os.environ.get("TRAINMASTER_BOOTSTRAP_TOKEN", "")
HEARTBEAT_SECONDS = integer("TRAINMASTER_HEARTBEAT_SECONDS", 3, 1, 60)
SUSPECT_AFTER_SECONDS = integer("TRAINMASTER_SUSPECT_AFTER_SECONDS", 10, 2, 3600)
LOST_AFTER_SECONDS = integer("TRAINMASTER_LOST_AFTER_SECONDS", 120, 3, 7200)

# Scheduling and recovery
TICK_SECONDS = integer("TRAINMASTER_TICK_SECONDS", 2, 1, 60)
LEASE_SECONDS = integer("TRAINMASTER_LEASE_SECONDS", 8, 3, 60)
# The most urgent priorities that people may use; admins may use all.
PRIORITY_OF_MEMBERS = integer("TRAINMASTER_PRIORITY_OF_MEMBERS", DEFAULT_PRIORITY, MOST_URGENT, LEAST_URGENT)
PRIORITY_OF_LEADS = integer("TRAINMASTER_PRIORITY_OF_LEADS", 10, MOST_URGENT, LEAST_URGENT)
SCHEDULING_PREEMPTION = flag("TRAINMASTER_SCHEDULING_PREEMPTION", PRODUCTION.evicts)
SCHEDULING_LEAST_RUN_SECONDS = integer(
    "TRAINMASTER_SCHEDULING_LEAST_RUN_SECONDS", PRODUCTION.least_run_ms // 1000, 0, 86_400
)
SCHEDULING_ELASTIC = flag("TRAINMASTER_SCHEDULING_ELASTIC", PRODUCTION.elastic)
SCHEDULING_PLACE_WAIT_SECONDS = integer(
    "TRAINMASTER_SCHEDULING_PLACE_WAIT_SECONDS", PRODUCTION.place_wait_ms // 1000, 0, 30 * 86_400
)
SCHEDULING_RECLAIM = flag("TRAINMASTER_SCHEDULING_RECLAIM", PRODUCTION.reclaims)
SPOT_PREEMPTIBLE_ONLY = flag("TRAINMASTER_SPOT_PREEMPTIBLE_ONLY", True)
# A job below this utilisation for so many minutes is idle: its owner is warned, and it may be preempted.
IDLE_PERCENT = integer("TRAINMASTER_IDLE_PERCENT", 5, 0, 100)
IDLE_MINUTES = integer("TRAINMASTER_IDLE_MINUTES", 30, 1, 10_000)
IDLE_RECLAIM = flag("TRAINMASTER_IDLE_RECLAIM", False)
STOP_GRACE_SECONDS = integer("TRAINMASTER_STOP_GRACE_SECONDS", PRODUCTION.stop_grace_ms // 1000, 0, 3600)
# How long deleted runs and experiments can be restored.
RUN_RETENTION_DAYS = integer("TRAINMASTER_RUN_RETENTION_DAYS", 30, 0, 36_500)
# A run of the SDK outside the platform that has reported nothing for so long has failed.
RUN_SILENCE_SECONDS = integer("TRAINMASTER_RUN_SILENCE_SECONDS", 900, 60, 30 * 86_400)
# Of each rank of a running attempt, kept in the database.
LOG_LIMIT_BYTES = integer("TRAINMASTER_LOG_LIMIT_BYTES", 64 * 2**20, 2**16, 2**40)
# The points of runs that have reported nothing for so many days are deleted; 0: never.
METRIC_RETENTION_DAYS = integer("TRAINMASTER_METRIC_RETENTION_DAYS", 0, 0, 36_500)
# Logs of ended jobs and events that are older are deleted, and code bundles that no job has used since; 0: never.
LOG_RETENTION_DAYS = integer("TRAINMASTER_LOG_RETENTION_DAYS", 0, 0, 36_500)
EVENT_RETENTION_DAYS = integer("TRAINMASTER_EVENT_RETENTION_DAYS", 0, 0, 36_500)
BUNDLE_RETENTION_DAYS = integer("TRAINMASTER_BUNDLE_RETENTION_DAYS", 0, 0, 36_500)
# Versions of followed datasets that are older and that nothing uses are forgotten; 0: never.
FOLLOWED_VERSION_DAYS = integer("TRAINMASTER_FOLLOWED_VERSION_DAYS", 90, 0, 36_500)
# Where models and datasets may be registered from in place; the platform's own credentials read them.
SOURCE_PREFIXES = words("TRAINMASTER_SOURCE_PREFIXES", "")
NETWORK_BYTES_PER_SECOND = integer(
    "TRAINMASTER_NETWORK_BYTES_PER_SECOND", 1_250_000_000, 1000, 10**12
)  # 10 Gbit/s
# TensorBoards that one web machine runs at once, and where their event files lie ("": the folder for temporary files)
TENSORBOARDS = integer("TRAINMASTER_TENSORBOARDS", 4, 0, 100)
TENSORBOARD_IDLE_SECONDS = integer("TRAINMASTER_TENSORBOARD_IDLE_SECONDS", 1800, 10, 86_400)
TENSORBOARD_DIR = text("TRAINMASTER_TENSORBOARD_DIR", "")
_HARMLESS = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
TENSORBOARD_ENVIRONMENT = {name: os.environ[name] for name in _HARMLESS if name in os.environ}  # no secret

# Names, addresses and networks beyond the public internet that sources of code and data may lie in.
OUTBOUND_HOSTS = words("TRAINMASTER_OUTBOUND_HOSTS", "")
IMAGE_REGISTRIES = words("TRAINMASTER_IMAGE_REGISTRIES", "docker.io,ghcr.io,quay.io,nvcr.io,gcr.io")
UPLOAD_LIMIT_BYTES = integer("TRAINMASTER_UPLOAD_LIMIT_BYTES", 64 * 2**30, 2**20, 2**50)  # one file
TEAM_UPLOAD_LIMIT_BYTES = integer(
    "TRAINMASTER_TEAM_UPLOAD_LIMIT_BYTES", 10 * 2**40, 2**20, 2**60
)  # all of a team
# Dollars that a TiB in the store costs a month; 0: nobody is told a price.
STORAGE_PRICE = integer("TRAINMASTER_STORAGE_PRICE", 0, 0, 1_000_000)
# Datasets and models that nobody has used for so many days move there; "": they stay. With the price of a TiB a month.
COLD_STORE_URL = text("TRAINMASTER_COLD_STORE_URL", "")
COLD_AFTER_DAYS = integer("TRAINMASTER_COLD_AFTER_DAYS", 90, 1, 36_500)
COLD_STORAGE_PRICE = integer("TRAINMASTER_COLD_STORAGE_PRICE", 0, 0, 1_000_000)
SCRUB_DAYS = integer("TRAINMASTER_SCRUB_DAYS", 30, 0, 3_650)
# Between finding bytes that nobody needs and deleting them; 0: they are never deleted.
LEFTOVER_GRACE_DAYS = integer("TRAINMASTER_LEFTOVER_GRACE_DAYS", 7, 0, 3_650)
# Of one dataset version that is registered where it lies.
DATASET_FILES_LIMIT = integer("TRAINMASTER_DATASET_FILES_LIMIT", 1_000_000, 1, 10**8)
DATASET_BYTES_LIMIT = integer("TRAINMASTER_DATASET_BYTES_LIMIT", 100 * 2**40, 2**20, 2**60)

INSTALLED_APPS = [
    "webapp.base",
    "webapp.sockets",
    "webapp.events",
    "webapp.accounts",
    "webapp.artifacts",
    "webapp.recalls",
    "webapp.datasets",
    "webapp.nodes",
    "webapp.quotas",
    "webapp.jobs",
    "webapp.checkpoints",
    "webapp.metrics",
    "webapp.experiments",
    "webapp.sweeps",
    "webapp.serving",
    "webapp.reports",
    "webapp.registry",
    "webapp.evaluations",
    "webapp.deployments",
    "webapp.rollouts",
    "webapp.retraining",
    "webapp.scheduling",
    "webapp.lineage",
    "webapp.storage",
    "webapp.service_levels",
    "webapp.alerts",
    "webapp.pages",
    "webapp.rest",
    "webapp.mlflow",
    "webapp.rpc",
    "webapp.config",
    "webapp.operations",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
]

MIDDLEWARE = [
    "webapp.base.connections.ConnectionMiddleware",
    "webapp.base.tracing.TraceMiddleware",
    "webapp.base.traffic.TrafficMiddleware",
    "webapp.base.addresses.AddressMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "webapp.config.compression.CompressText",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "webapp.base.problems.ProblemMiddleware",  # a domain error anywhere becomes its page or its problem document
]

ROOT_URLCONF = "webapp.config.urls"
ASGI_APPLICATION = "webapp.config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.pages.frame.frame",
            ]
        },
    }
]

# People
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "overview:home"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_SECURE = SECURE
CSRF_COOKIE_SECURE = SECURE
# Two platforms on one host (two folders, two ports) must not overwrite each other's cookies.
_PORT = urllib.parse.urlsplit(PUBLIC_URL).port
SESSION_COOKIE_NAME = f"trainmaster_session_{_PORT}" if _PORT else "trainmaster_session"
CSRF_COOKIE_NAME = f"trainmaster_csrf_{_PORT}" if _PORT else "trainmaster_csrf"
SECURE_SSL_REDIRECT = SECURE
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE else None
SECURE_HSTS_SECONDS = 31_536_000 if SECURE else 0
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],  # Plotly draws its downloads through blobs
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# Redis protocol: cache (liveness, live progress), channel layer, broker
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_timeout": 5, "socket_connect_timeout": 5},  # a page says so rather than wait
    }
}
# With it Prometheus reads /metrics; empty: no token is accepted.
METRICS_TOKEN = secret("TRAINMASTER_METRICS_TOKEN", "")
# HOST:PORT of the /metrics of the gateway's and the worker's own process; empty: none. They need the token.
GATEWAY_METRICS_LISTEN = text("TRAINMASTER_GATEWAY_METRICS_LISTEN", "")
WORKER_METRICS_LISTEN = text("TRAINMASTER_WORKER_METRICS_LISTEN", "")
# The mail server: smtp://user:password@host:587, smtps:// for TLS from the start; empty: no mail is sent.
MAIL_URL = secret("TRAINMASTER_MAIL_URL", "")
REPORT_RECIPIENTS = words("TRAINMASTER_REPORT_RECIPIENTS", "")
DEFAULT_FROM_EMAIL = text("TRAINMASTER_MAIL_FROM", "trainmaster@localhost")
EMAIL_TIMEOUT = 10  # seconds
_mail = urllib.parse.urlsplit(MAIL_URL)
EMAIL_HOST, EMAIL_PORT = _mail.hostname or "localhost", _mail.port or 25
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = (
    urllib.parse.unquote(_mail.username or ""),
    urllib.parse.unquote(_mail.password or ""),
)
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_USE_TLS = not EMAIL_USE_SSL and bool(EMAIL_HOST_USER)  # a password never goes in the clear

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "live"},
    }
}
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True  # a task is idempotent, so a killed worker's task runs again
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Beats expire before the next one: a worker that was away does not run a backlog of clock ticks.
CELERY_BEAT_SCHEDULE = beat_schedule(TICK_SECONDS)

REST_FRAMEWORK, SPECTACULAR_SETTINGS = REST, OPENAPI

# Static files: ours, and third-party assets straight out of their installed packages
STATIC_URL = "/static/"
# The folder of `manage.py collectstatic`: hashed names, compressed, cached for ever. Empty: straight from the packages.
STATIC_ROOT = text("TRAINMASTER_STATIC_ROOT", "") or None
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "webapp.config.static.HashedFiles"
        if STATIC_ROOT and not DEBUG
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
STATICFILES_DIRS = [ROOT / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "webapp.config.static.PlotlyFinder",
]
WHITENOISE_USE_FINDERS = DEBUG or not STATIC_ROOT
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 2**20
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # a deployment's form names each of its nodes
OTLP_TRACES_ENDPOINT, OTLP_HEADERS = otlp(
    text("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""),
    secret("OTEL_EXPORTER_OTLP_HEADERS", ""),
)
LOGGING = logging_settings(
    choice("TRAINMASTER_LOG_FORMAT", "plain", *FORMATS),
    choice("TRAINMASTER_LOG_LEVEL", "INFO", "DEBUG", "INFO", "WARNING", "ERROR"),
)
