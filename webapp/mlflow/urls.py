"""The addresses of the MLflow API. A browser of MLflow calls /ajax-api what a client calls /api."""

from collections.abc import Iterator, Sequence

from django.urls import URLPattern, path, re_path

from webapp.mlflow import artifacts, graphql, routes, server
from webapp.mlflow.endpoint import Endpoint, unknown, view_of


def addresses(prefix: str, endpoints: Sequence[Endpoint]) -> Iterator[URLPattern]:
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    for place, methods in by_path.items():
        yield path(f"{prefix}{place}", view_of(methods))


urlpatterns = [
    path("health", server.health, name="mlflow-health"),
    path("version", server.version, name="mlflow-version"),
    path("graphql", graphql.view, name="mlflow-graphql"),
    *addresses("", routes.PLAIN),
    *addresses("ajax-api/2.0/mlflow/", routes.PAGE_ONLY),
    path("api/2.0/mlflow-artifacts/parts/<str:signed>", artifacts.put_part),
    *(
        pattern
        for api in ("api", "ajax-api")
        for pattern in (
            path(f"{api}/3.0/mlflow/server-info", server.server_info),
            *addresses(f"{api}/2.0/mlflow/", routes.TRACKING),
            *addresses(f"{api}/2.0/mlflow-artifacts/", routes.PROXY),
            *addresses(f"{api}/3.0/mlflow/", routes.WORKSPACES),
        )
    ),
    re_path(r"^(?:ajax-api/|api/[0-9]+\.[0-9]+|model-versions/)", unknown),
]
