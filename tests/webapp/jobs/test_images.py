"""Container images whose tags a registry resolves to digests when a job is submitted."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pytest_django import Settings

from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts.images import Image, parse
from webapp.jobs import services
from webapp.jobs.models import Job

DIGEST = f"sha256:{'ab' * 32}"
Submit = Callable[..., Job]


class Registry(BaseHTTPRequestHandler):
    """Gives the digest of vision/train:1.2 to whoever shows the anonymous token, as public registries do."""

    def do_HEAD(self) -> None:
        if self.headers.get("Authorization") != "Bearer anonymous":
            self.send_response(401)
            realm = f"http://{self.headers['Host']}/token"
            self.send_header("WWW-Authenticate", f'Bearer realm="{realm}",service="registry"')
        elif self.path == "/v2/vision/train/manifests/1.2" and "oci.image.index" in self.headers["Accept"]:
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
        else:
            self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        known = self.path == "/token?service=registry&scope=repository%3Avision%2Ftrain%3Apull"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"token": "anonymous"} if known else {}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing on the terminal."""


@pytest.fixture
def registry(settings: Settings) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        host = f"127.0.0.1:{server.server_port}"
        settings.OUTBOUND_HOSTS, settings.IMAGE_REGISTRIES = ["127.0.0.0/8"], [host]
        yield host
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("cluster")
def test_a_tag_gets_the_digest_that_it_has_at_submission(submit: Submit, registry: str) -> None:
    image = f"{registry}/vision/train:1.2"
    assert submit(container_image=image).spec["container_image"] == f"{image}@{DIGEST}"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("name", ["vision/train:9.9", "other/train:1.2", f"vision/train@{DIGEST}"])
def test_what_the_registry_does_not_know_or_is_pinned_already_stays(
    name: str, submit: Submit, registry: str
) -> None:
    assert submit(container_image=f"{registry}/{name}").spec["container_image"] == f"{registry}/{name}"


@pytest.mark.usefixtures("cluster")
def test_a_registry_in_a_private_network_is_not_asked_unless_allowed(
    submit: Submit, registry: str, settings: Settings
) -> None:
    settings.OUTBOUND_HOSTS = []
    image = f"{registry}/vision/train:1.2"
    assert submit(container_image=image).spec["container_image"] == image


@pytest.mark.usefixtures("cluster")
def test_a_key_gives_the_same_job_with_its_image(submit: Submit, registry: str, owner: User) -> None:
    spec = submit(container_image=f"{registry}/vision/train:1.2").spec
    body = {**spec, "container_image": f"{registry}/vision/train:1.2"}
    first, _ = services.submit(actor_of(owner), body, idempotency_key="k")
    again, new = services.submit(actor_of(owner), body, idempotency_key="k")
    assert (again.id, new) == (first.id, False)


@pytest.mark.parametrize(
    ("image", "parsed"),
    [
        ("ubuntu", Image("docker.io", "library/ubuntu", "latest")),
        ("pytorch/pytorch:2.4", Image("docker.io", "pytorch/pytorch", "2.4")),
        ("registry.example:5000/a/b:1", Image("registry.example:5000", "a/b", "1")),
        ("localhost/a", Image("localhost", "a", "latest")),
        (f"a@{DIGEST}", None),
        ("Upper/Case:1", None),
        ("a/../b:1", None),
    ],
)
def test_the_parts_of_a_name(image: str, parsed: Image | None) -> None:
    assert parse(image) == parsed
