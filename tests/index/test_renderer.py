"""Where the objects of a plan come from."""

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.index.compile import RenderedObject
from reconciler.index.renderer import Renderer
from tests.index.fleets import MemoryFleet


def bodies(renderer: Renderer, paths: list[str]) -> dict[str, Mapping[str, Any]]:
    return {path: renderer.body(path, content) for path, content in renderer.contents(paths).items()}


def test_objects_are_read_from_rendered_where_it_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same as compiled ones, and only the sources of the others are compiled."""
    compiled: list[str] = []
    compile_sources = Renderer.compile

    def noted(self: Renderer, sources: list[str], *, cluster: str = "") -> list[dict[str, RenderedObject]]:
        compiled.extend(sources)
        return compile_sources(self, sources, cluster=cluster)

    fleet = MemoryFleet()
    before = fleet.plan()
    paths = sorted(before.index.desired)
    expected = {path: before.renderer.object(path).manifest.body for path in paths}
    assert bodies(before.renderer, paths) == expected != {}
    for path, content in before.contents().items():
        assert content is not None
        fleet.files[path] = content
    missing = min(paths)
    del fleet.files[f"rendered/{missing}"]
    fleet.repository.save({})
    after = fleet.plan()
    monkeypatch.setattr(Renderer, "compile", noted)
    assert bodies(after.renderer, paths) == expected
    assert compiled == [after.index.sources[missing]]
