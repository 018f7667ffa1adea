"""The client of OpenAI's models on Microsoft Azure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Unpack
from urllib.parse import quote

from understudy.errors import ProviderError
from understudy.providers.http.client_options import ClientOptions
from understudy.providers.http.credentials import KeyLike, KeySource, Secret, key_source
from understudy.providers.http.environment import KEYS, first_set
from understudy.providers.http.model_client import HttpModel
from understudy.providers.http.options import checked_url, checked_version
from understudy.vocabulary.messages import JsonObject, ModelRequest, ModelTurn

from . import wire
from .stream import OpenAIStream

ENDPOINT = "AZURE_OPENAI_ENDPOINT"
VERSION = "OPENAI_API_VERSION"
TOKEN = "AZURE_OPENAI_AD_TOKEN"
V1 = ("v1", "preview")
"""Versions of the path `/openai/v1`; of these only `preview` stands in the query (Azure OpenAI, API version lifecycle)."""
DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
FIRST_WITH_NEW_FIELDS = "2024-09-01"
"""Azure OpenAI, API lifecycle: `max_completion_tokens` and `stream_options` from this version on."""


class AzureOpenAI(HttpModel):
    """A deployment of a model of OpenAI's on Azure, asked by chat completions.

    Blocking, and safe to share between threads. Making one checks the options and needs no key.

    Args:
        deployment: its name on Azure, which need not be the model's.
        endpoint: the resource's address, such as `https://NAME.openai.azure.com`; without it `AZURE_OPENAI_ENDPOINT` is read
            at each call.
        api_key: the key, a `Secret`, or a function that returns one, sent in the header `api-key`. Without it and without
            `token`, `AZURE_OPENAI_AD_TOKEN` or `AZURE_OPENAI_API_KEY` is read at each call.
        token: in place of a key, a token of Microsoft Entra ID, or a function that returns one, such as azure-identity's
            `get_bearer_token_provider(…)`; it is called before each attempt and once more after HTTP status 401.
        api_version: `v1` for the path `/openai/v1`, `preview` for its preview, or a date such as `2024-10-21` for the path of
            the deployment; without it `OPENAI_API_VERSION` is read at each call, else it is `v1`.
        options: those that all clients share, `ClientOptions`.
    """

    provider = "azure"
    _address_variable = ENDPOINT

    def __init__(
        self,
        deployment: str,
        *,
        endpoint: str | None = None,
        api_key: KeyLike | None = None,
        token: KeyLike | None = None,
        api_version: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if api_key is not None and token is not None:
            raise ValueError("AzureOpenAI takes api_key or token, not both")
        if token is not None:
            self._key_parameter = "token"
        self._has_token = token is not None
        self._given_version = None if api_version is None else _version(api_version, "api_version")
        given = None if endpoint is None else _endpoint(endpoint, "endpoint")
        super().__init__(deployment, api_key=api_key if token is None else token, base_url=given, **options)

    def unset_place(self) -> str:
        return ENDPOINT if self.base_url is None and first_set(ENDPOINT) is None else ""

    def _find_keys(self) -> KeySource:
        parameter = "api_key= or token" if self._given_key is None else self._key_parameter
        return key_source(self._given_key, KEYS[self.provider], parameter, self.provider)

    def _auth(self, key: Secret) -> Mapping[str, str]:
        from_environment = self._given_key is None and key.reveal() == first_set(TOKEN)
        if self._has_token or from_environment:
            return {"authorization": f"Bearer {key.reveal()}"}
        return {"api-key": key.reveal()}

    def _counted_by(self, key: Secret) -> str:
        return self.model  # Azure OpenAI, Quotas and limits: they are the deployment's

    def _api_version(self) -> str:
        found = first_set(VERSION) if self._given_version is None else None
        return self._given_version or ("v1" if found is None else _version(found, VERSION))

    def _url(self) -> str:
        found = first_set(ENDPOINT) if self.base_url is None else None
        root = self.base_url if found is None else _endpoint(found, ENDPOINT)
        if root is None:
            raise ProviderError(f"no endpoint for azure: set {ENDPOINT}, or pass endpoint=", provider=self.provider)
        version = self._api_version()
        if version in V1:
            return f"{root}/openai/v1/chat/completions" + ("?api-version=preview" if version == "preview" else "")
        place = f"openai/deployments/{quote(self.model, safe='')}"
        return f"{root}/{place}/chat/completions?api-version={version}"

    def _is_old(self) -> bool:
        version = self._api_version()
        return version not in V1 and version[: len(FIRST_WITH_NEW_FIELDS)] < FIRST_WITH_NEW_FIELDS

    def _encode(self, request: ModelRequest) -> JsonObject:
        body = {**wire.encode(request, self.model, official=True, provider=self.provider)}
        if self._is_old() and "max_completion_tokens" in body and "max_completion_tokens" not in request.settings.extra:
            body["max_tokens"] = body.pop("max_completion_tokens")
        return body

    def _encode_stream(self, request: ModelRequest) -> JsonObject:
        body = super()._encode_stream(request)
        return body if self._is_old() else {"stream_options": {"include_usage": True}, **body}

    def _decode(self, body: JsonObject) -> ModelTurn:
        return wire.decode(body)

    def _decoder(self) -> OpenAIStream:
        return OpenAIStream()


def _endpoint(endpoint: str, name: str) -> str:
    """Return the address of the resource; portals show it with the path of an API behind it, too."""
    return checked_url(endpoint, name).removesuffix("/openai/v1").removesuffix("/openai")


def _version(version: str, name: str) -> str:
    checked_version(version)
    if version not in V1 and not DATED.match(version):
        raise ValueError(f"{name} must be 'v1', 'preview' or a date such as '2024-10-21', got {version!r}")
    return version
