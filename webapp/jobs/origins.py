"""What a job names by a word that moves, such as a branch or a tag: resolved when it is submitted, and kept so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from platform_core.jobs.spec import JobSpec, Problem, SpecError
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.artifacts import git, images


def resolve(actor: Actor, spec: JobSpec, lineage: Mapping[str, str]) -> tuple[JobSpec, dict[str, str]]:
    """The job with the digest of its image, its bundle and commit, and where they come from.

    Blocks while the registry answers and the repository is fetched.

    Raises SpecError when the repository gives no code, and TrainmasterError of what an upload raises.
    """
    if spec.container_image:
        spec = replace(spec, container_image=images.pinned(spec.container_image, actor.username))
    if not spec.git.url or spec.code:
        return spec, dict(lineage)
    try:
        found = git.bundle(actor, spec.team, spec.git.url, spec.git.ref, spec.git.folder, _credential(spec))
    except git.GitError as error:
        raise SpecError((Problem("git.url", f"{error}."),)) from error
    origin = {"git_remote": found.url, "git_commit": found.commit}
    if spec.git.ref != found.commit:
        origin["git_branch"] = spec.git.ref or "HEAD"
    resolved = replace(spec, code=found.manifest, git=replace(spec.git, ref=found.commit))
    return resolved, {**lineage, **origin}


def same_request(
    kept: Mapping[str, object], lineage: Mapping[str, object], asked: Mapping[str, object]
) -> bool:
    """Whether a kept job is what was asked for, before its ref was resolved to a commit."""
    image, asked_image = str(kept.get("container_image")), str(asked.get("container_image"))
    if image.startswith(f"{asked_image}@"):
        kept = {**kept, "container_image": asked_image}
    if kept == asked:
        return True
    source, wanted = kept.get("git"), asked.get("git")
    if not isinstance(source, dict) or not isinstance(wanted, dict) or not wanted.get("url"):
        return False
    ref = source.get("ref") if wanted.get("ref") == source.get("ref") else lineage.get("git_branch")
    unresolved = {**source, "ref": "" if ref == "HEAD" else ref}
    return {**kept, "code": "", "git": unresolved} == asked


def _credential(spec: JobSpec) -> str:
    name = spec.git.secret
    if not name:
        return ""
    if name not in accounts.secret_names(spec.team):
        sentence = f"The team has no secret {name}; a lead can add it on the team's page."
        raise SpecError((Problem("git.secret", sentence),))
    return accounts.secret_values(spec.team, [name])[name]
