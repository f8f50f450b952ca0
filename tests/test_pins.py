"""Pinned packages: every requirement has a pin, every pin a hash, and a file without its hash is refused."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHA = "a" * 64
LOCK = {"numpy": ("2.4.6", frozenset({SHA})), "torch": ("2.13.0", frozenset({SHA}))}


@pytest.fixture(scope="module")
def pins():
    spec = importlib.util.spec_from_file_location("pins", ROOT / ".ci" / "pins.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def taken(name, version, sha=SHA, url="https://example.org/file.whl"):
    archive = {"hashes": {"sha256": sha}}
    return {
        "metadata": {"name": name, "version": version},
        "download_info": {"url": url, "archive_info": archive},
    }


def test_every_requirement_is_pinned_and_every_pin_is_hashed(pins):
    assert pins.unlocked(pins.read_pins(), pins.read_lock()) == []
    assert pins.unlocked({}, {})[0] == "axe-playwright-python has no pin in constraints.txt"
    stale = pins.unlocked(pins.read_pins() | {"numpy": "9.9"}, pins.read_lock())
    assert len(stale) == 1 and stale[0].startswith("numpy 9.9 has no hash in constraints.lock")


@pytest.mark.parametrize(
    ("each", "says"),
    [
        (taken("NumPy", "2.4.6"), None),
        (taken("numpy", "2.4.6", "b" * 64), "has the hash bbbb"),
        (taken("numpy", "2.4.6", None), "has the hash None"),
        (taken("numpy", "2.4.7"), "not pinned"),
        (taken("evil", "1.0"), "not pinned"),
        (taken("torch", "2.13.0+cpu", "b" * 64, "file:///wheels/torch.whl"), None),
        (taken("torch", "2.13.0+cpu", "b" * 64), "not pinned"),
        (taken("cpor_grasp", "0.1.0", None, "file:///here"), None),
    ],
)
def test_a_file_without_its_hash_is_refused(pins, each, says):
    wrong = pins.wrong_in_report({"install": [each]}, LOCK)
    assert wrong == [] if says is None else says in wrong[0]


def test_an_sbom_holds_pinned_packages_with_licences(pins):
    def component(name, version, *licenses):
        return {"name": name, "version": version, "licenses": list(licenses)}

    versions = {"numpy": "2.4.6", "torch": "2.13.0"}
    good = [
        component("numpy", "2.4.6", "BSD"),
        component("torch", "2.13.0+cpu", "BSD"),
        component("pip", "23"),
    ]
    assert pins.wrong_in_sbom({"components": good}, versions) == []
    bad = [component("numpy", "2.4.5", "BSD"), component("evil", "1.0", "MIT"), component("torch", "2.13.0")]
    wrong = pins.wrong_in_sbom({"components": bad}, versions)
    assert len(wrong) == 3 and "licence" in wrong[2]
