"""All surfaces go one way: one frame and one target get one answer, whoever is asked."""

from pathlib import Path

import pytest
from support.data import DATA
from support.surfaces import ask_everywhere, bare_frame

import cpor
from cpor.serve.client import Client

FRAMES = {
    "simulated": "examples/scenes/sim/scene_00007",
    "photograph": DATA / "osd_learn" / "learn7",
}


@pytest.fixture
def client(service):
    with Client(service) as talks:
        yield talks


@pytest.mark.parametrize("kind", FRAMES)
def test_every_surface_gives_the_same_answer(kind, client, tmp_path, evidence):
    source = Path(FRAMES[kind])
    if not (source / "depth.png").is_file():
        pytest.skip(f"{source} is not there; set CPOR_DATA")
    frame = bare_frame(source, tmp_path / "frame")
    targets = cpor.System().look(frame).scene.ids[:1]
    first, surfaces = {}, set()
    for surface, target, said in ask_everywhere(frame, targets, client, tmp_path):
        surfaces.add(surface)
        reference = first.setdefault(target, said)
        assert said.why_not(reference) is None, f"{surface}: {said.why_not(reference)}"
    assert len(surfaces) == 10
    evidence("decides", f"surfaces that give the same answer, {kind}", "10 of 10", f"{len(surfaces)} of 10")
