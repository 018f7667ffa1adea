"""aimock, installed once for the checkout and started once for a test session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator

import pytest

from tests.support.aimock import NotInstalled, aimock_version, installed, serving
from tests.support.peers import PROVIDERS, Peer, Provider


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Generator[Peer]:
    """Run aimock until the session ends.

    The first session of a checkout fetches it with npm into `.cache/peers`, which git ignores; later ones need no network.
    Where there is no node or npm, its tests are skipped. Where npm cannot fetch it they are skipped too, except in CI
    (the environment variable CI is `true`), which has a registry: there they fail, so that they are not lost unseen.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or no npm on the PATH: aimock cannot run")
    try:
        folder = installed(npm)
    except NotInstalled as error:
        words = f"node is here, but npm could not fetch aimock {aimock_version()} (is its registry in reach?): {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(words, pytrace=False)
        pytest.skip(words)
    with serving(node, folder, tmp_path_factory.mktemp("aimock") / "log.txt") as address:
        yield Peer(address)


@pytest.fixture
def peer(aimock: Peer, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """aimock with an empty journal."""
    monkeypatch.delenv("UNDERSTUDY_OFFLINE", raising=False)
    aimock.forget()
    return aimock


@pytest.fixture(params=PROVIDERS, ids=lambda provider: provider.name)
def provider(request: pytest.FixtureRequest) -> Provider:
    """Each API that aimock speaks, one test each."""
    found = request.param
    assert isinstance(found, Provider)
    return found
