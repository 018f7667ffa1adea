"""Models on Google Cloud's Vertex AI: the project, the location and the token of all of them, and the client of Gemini."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Unpack
from urllib.parse import quote

from understudy.errors import AuthenticationError
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, KeySource, Secret
from understudy.providers.http.environment import first_set
from understudy.providers.http.model_client import HttpModel
from understudy.providers.http.options import checked_version, checked_word

from .default_credentials import DefaultCredentials
from .gemini import GenerateContent

API_VERSION = "v1"
PROJECT = "GOOGLE_CLOUD_PROJECT"
LOCATION = "GOOGLE_CLOUD_LOCATION"
ANYWHERE = "global"  # Vertex AI, Locations: the endpoint without a region.


class VertexModel(HttpModel):
    """A model of a publisher on Vertex AI. The parameters are those of `Vertex`."""

    provider = "vertex"
    publisher: ClassVar[str]
    """The maker of the models, as it stands in the path."""
    _key_parameter = "access_token"

    def __init__(
        self,
        model: str,
        *,
        access_token: KeyLike | None = None,
        project: str | None = None,
        location: str | None = None,
        base_url: str | None = None,
        api_version: str = API_VERSION,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._given_project = None if project is None else checked_word(project, "project")
        self._given_location = None if location is None else checked_word(location, "location")
        self._added_version = checked_version(api_version)
        self._defaults = DefaultCredentials(self.provider)
        super().__init__(model, api_key=access_token, base_url=base_url, **options)
        self._check_maker()

    @abstractmethod
    def _check_maker(self) -> None:
        """Refuse a model of another maker, which has a client of its own; raises ValueError."""

    def unset_place(self) -> str:
        return PROJECT if self._given_project is None and first_set(PROJECT) is None else ""

    def _find_keys(self) -> KeySource:
        return self._defaults if self._given_key is None else super()._find_keys()

    def _project(self) -> str:
        project = self._given_project or first_set(PROJECT)
        if project is None and self._given_key is None:
            project = self._defaults.project()
        if project is None:
            raise AuthenticationError(f"no project for vertex: set {PROJECT}, or pass project=", provider=self.provider)
        return checked_word(project, PROJECT)

    def _counted_by(self, key: Secret) -> str:
        return self._project()  # Vertex AI, Quotas: they are the project's, and tokens are renewed each hour

    def _place(self) -> str:
        """Return the URL of the model, without the method."""
        location = self._given_location or checked_word(first_set(LOCATION) or ANYWHERE, LOCATION)
        place = f"projects/{self._project()}/locations/{location}"
        # Vertex AI, Model versions: a version stands behind '@'.
        model = f"publishers/{self.publisher}/models/{quote(self.model, safe='@')}"
        return f"{self._root(f'https://{host(location)}')}/{self._added_version}/{place}/{model}"

    def _auth(self, key: Secret) -> Mapping[str, str]:
        return {"authorization": f"Bearer {key.reveal()}"}


def host(location: str) -> str:
    """Return the host of a location (Vertex AI, Locations and endpoints)."""
    match location:
        case "global":
            return "aiplatform.googleapis.com"
        case "us" | "eu":
            return f"aiplatform.{location}.rep.googleapis.com"
        case _:
            return f"{location}-aiplatform.googleapis.com"


class Vertex(VertexModel, GenerateContent):
    """A Gemini model on Vertex AI; `VertexClaude` is the client of Claude there.

    Blocking, and safe to share between threads. Making one checks the options and needs no token.

    Args:
        model: such as `gemini-2.5-flash`.
        access_token: the token, a `Secret`, or a function that returns one, called before each attempt and once more after
            HTTP status 401. Without it Google's application default credentials are used, which needs the extra `vertex`;
            they are refreshed before they end, and once after HTTP status 401.
        project: the Google Cloud project; without it `GOOGLE_CLOUD_PROJECT` is read at each call, else it is the
            one of the default credentials.
        location: the region, or `global`, `us` or `eu`; without it `GOOGLE_CLOUD_LOCATION` is read at each call,
            else it is `global`.
        base_url: the address without a version; without it the location's own is asked.
        api_version: the version in the path.
        options: those that all clients share, `ClientOptions`.
    """

    publisher = "google"

    def _check_maker(self) -> None:
        if self.model.startswith("claude"):
            raise ValueError(f"Vertex is the client of Gemini; for Claude write VertexClaude({self.model!r})")
