"""Tags of container images, resolved to digests: the same image starts on every node and at every restart."""

from __future__ import annotations

import json
import re
import urllib.parse
from dataclasses import dataclass

from django.conf import settings

from platform_core.errors import TrainmasterError
from webapp.base import outbound, turns
from webapp.base.connections import outside

SECONDS = 5.0  # for each of the three requests
_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_INSECURE = ("localhost", "127.0.0.1")  # as container engines have it
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
# OCI distribution specification 1.1, "Pulling manifests": an index stands for an image of several platforms.
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


@dataclass(frozen=True, slots=True)
class Image:
    registry: str  # with its port, such as registry.example:5000
    name: str
    tag: str


def pinned(image: str, person: str) -> str:
    """The image with the digest that its tag has now, as name:tag@sha256:…

    As it was given where its registry is not one of TRAINMASTER_IMAGE_REGISTRIES, does not answer, or wants a password:
    the nodes then pull what the tag means to them. Raises rate_limited where the person looks up too many at once.
    """
    parsed = parse(image)
    if parsed is None or parsed.registry not in settings.IMAGE_REGISTRIES:
        return image
    try:
        with turns.turn("image", person), outside():
            digest = _digest(parsed)
    except TrainmasterError as error:
        if error.code == "rate_limited":
            raise
        return image
    except (outbound.NoAnswer, ValueError, RecursionError, AttributeError):
        return image
    return f"{image}@{digest}" if _DIGEST.fullmatch(digest) else image


def parse(image: str) -> Image | None:
    """None for an image that has a digest already, and for what is no name of an image."""
    if "@" in image:
        return None
    first, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if is_registry else (_HUB, image)
    name, _, tag = path.partition(":")
    if registry == _HUB and "/" not in name:
        name = f"library/{name}"
    if not _NAME.fullmatch(name) or not _TAG.fullmatch(tag or "latest"):
        return None
    return Image(registry, name, tag or "latest")


def _digest(image: Image) -> str:
    host = _HUB_HOST if image.registry == _HUB else image.registry
    scheme = "http" if host.partition(":")[0] in _INSECURE else "https"
    url = f"{scheme}://{host}/v2/{image.name}/manifests/{image.tag}"
    answer = outbound.request("HEAD", url, headers={"Accept": _ACCEPT}, deadline=SECONDS)
    if answer.status == 401:
        token = _token(answer.headers.get("WWW-Authenticate", ""), image)
        headers = {"Accept": _ACCEPT, "Authorization": f"Bearer {token}"}
        answer = outbound.request("HEAD", url, headers=headers, deadline=SECONDS)
    return answer.headers.get("Docker-Content-Digest", "") if answer.status == 200 else ""


def _token(challenge: str, image: Image) -> str:
    """An anonymous token to pull, from where the registry says. Raises ValueError where it gives none."""
    fields = dict(_CHALLENGE.findall(challenge))
    asked = {"service": fields.get("service", ""), "scope": f"repository:{image.name}:pull"}
    url = f"{fields.get('realm', '')}?{urllib.parse.urlencode(asked)}"
    document = json.loads(outbound.request("GET", url, deadline=SECONDS).body)
    return str(document.get("token") or document.get("access_token") or "")
