"""The artifact_location of an experiment: a folder by which clients address its files in the store of this server."""

from urllib.parse import urlsplit

from django.conf import settings

from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from webapp.mlflow.errors import MlflowError, invalid

SCHEME = "mlflow-artifacts:"
MOST_CHARACTERS = 500
RESERVED = ("artifacts", "models", "model-versions")  # which the addresses of files use themselves


def folder_of(location: str) -> str:
    """Reads mlflow-artifacts:/FOLDER, or an address in the store of this server; "" for none.

    Raises INVALID_PARAMETER_VALUE with the reason for any other address.
    """
    store = settings.STORE_URL.rstrip("/")
    if f"{location.rstrip('/')}/".startswith(f"{store}/"):
        folder = location.rstrip("/")[len(store) :]
    elif location.startswith(SCHEME):
        folder = urlsplit(location).path
        if urlsplit(location).netloc:
            raise _refused(location, "it names a host; clients reach this server by their tracking address")
    elif location:
        raise _refused(location, "it lies outside the store of this server, through which all artifacts go")
    else:
        return ""
    return _checked(location, folder.strip("/"))


def _checked(location: str, folder: str) -> str:
    if not folder:
        return ""
    if len(folder) > MOST_CHARACTERS:
        raise _refused(location, f"its folder has {len(folder)} characters; the limit is {MOST_CHARACTERS}")
    if any(character in folder for character in "%?#"):
        raise _refused(location, "its folder has one of the characters %, ? and #")
    if reserved := sorted(set(folder.split("/")) & set(RESERVED)):
        raise _refused(
            location, f"the folder name {reserved[0]!r} is reserved for the files of runs and models"
        )
    try:
        return check_path(folder)
    except TrainmasterError as error:
        raise _refused(location, str(error.numbers["why"])) from error


def _refused(location: str, why: str) -> MlflowError:
    return invalid(
        f"Invalid artifact_location '{location[:200]}': {why}. Use mlflow-artifacts:/FOLDER, or leave it out."
    )
