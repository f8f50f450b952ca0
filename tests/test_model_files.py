"""A model file proves what it promises, or promises nothing."""

import json
import random

import pytest

from cpor.errors import CporError, InputFileError, InvalidSettingError
from cpor.io import seals
from cpor.model import BUNDLED_DIGESTS, FittedModel, TestedWith, bundled_model
from cpor.promise import make_promise
from cpor.scene import Sources

BUNDLED = json.loads(bundled_model("embedded").read_text())
BUNDLED |= {"parts": {}, "targets": {}}
for _part in ("reference", "setup"):
    BUNDLED[_part] = {name: values[:5] for name, values in BUNDLED[_part].items()}


@pytest.fixture
def account(tmp_path, monkeypatch):
    """An account without a key and without known signers."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def promises(model: FittedModel) -> bool:
    """Whether anything is promised where masks, scores and geometry are the tested ones."""
    tested = model.tested_with or TestedWith(segmenter="any @1", scorer=None)
    made = Sources("", "", tested.segmenter, "", tested.scorer, frozenset({"masks", "scores"}))
    promise, words = make_promise(model, made, {"geometry": model.geometry_weights}, (), as_tested=True)
    assert (promise is None) == words.startswith("No error rate is promised")
    return promise is not None


def changed(**parts) -> dict:
    """The bundled model with other values; a dict that is not empty is laid over the one that is there."""
    laid = {
        k: {**BUNDLED[k], **part} if part and isinstance(part, dict) else part for k, part in parts.items()
    }
    return BUNDLED | laid


def test_the_bundled_models_are_the_pinned_ones():
    found = {kind: FittedModel.load(bundled_model(kind)).digest for kind in BUNDLED_DIGESTS}
    assert found == BUNDLED_DIGESTS  # after a change of the files: put these digests into cpor.model
    assert promises(FittedModel.load(bundled_model("embedded")))


def sharper(source, **numbers):
    return {source: {**BUNDLED["calibration"][source], **numbers}}


FORGERIES = {
    "more errors": {"promise": {"n_wrong": 600}},
    "more errors, p as claimed": {"promise": {"n_wrong": 600, "p_value": 0.05}},
    "fewer errors": {"promise": {"n_wrong": 0}},
    "fewer errors, p computed": {"promise": {"n_wrong": 0, "p_value": 0.95**697}},
    "no threshold": {"promise": {"tau": 0.0}, "modes": {}},
    "alpha 0": {"promise": {"alpha": 0.0}},
    "confidence 0": {"promise": {"delta": 1.0}},
    "confidence of next to nothing": {"promise": {"delta": 0.99}},
    "a smaller rate": {"promise": {"alpha": 0.001}},
    "more scenes": {"promise": {"n": 90_000}},
    "negative counts": {"promise": {"n_wrong": -1}},
    "an infinite number": {"promise": {"tau": float("inf")}},
    "a mode that is never wrong": {"modes": {"bold": {**BUNDLED["modes"]["bold"], "n_wrong": 0}}},
    "a sharper calibrator": {"calibration": sharper("geometry", theta=[4.4, 0.0])},
    "another fusion": {"fusion": {"beta": {"semantic": 0.2, "geometry": 30.0}}},
    "other rates": {"rate": None},
    "no unseen blockers": {"unseen": None},
    "other networks": {"tested_with": {"segmenter": "embedded 9 @0"}},
    "other geometry": {"geometry_weights": "0" * 64},
    "any scene": {"reference": {}},
    "any camera": {"setup": {}},
    "a wider camera": {"setup": {"distance": [0.1, 9.0]}},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_file_that_somebody_changed_promises_nothing(name, account):
    try:
        model = FittedModel.from_json(json.dumps(changed(**FORGERIES[name])))
    except InputFileError:
        return
    assert not promises(model) and "claimed by the model file alone" in model.why_no_promise()
    assert model.tau("cautious") == 0.9


def test_two_hundred_forged_files_promise_nothing(account, evidence):
    rng = random.Random(20261118)
    stranger = seals.Seal(digest="", key=seals.ACCOUNT, value="0" * 64)
    sections = ("promise", "fusion", "fusion beta", "calibration semantic", "calibration geometry", "unseen")
    promised = loaded = 0
    for _ in range(200):
        forged = changed(**rng.choice(list(FORGERIES.values())))
        for _ in range(rng.randrange(3)):
            section, _, inner = rng.choice((*sections, "geometry")).partition(" ")
            whole = forged[section] or BUNDLED[section]
            part = whole[inner] if inner else whole
            field = rng.choice([k for k, v in part.items() if isinstance(v, int | float)])
            value = rng.choice([0, 1, -1, 0.5, 1e-9, 1e9, None, "1", part[field] * rng.uniform(0.5, 2)])
            part = {**part, field: value}
            forged[section] = {**whole, inner: part} if inner else part
        if rng.random() < 0.7:  # a seal of one's own making, over the right digest where the file can be read
            try:
                digest = FittedModel.from_json(json.dumps(forged)).digest
            except InputFileError:
                digest = BUNDLED_DIGESTS["embedded"]
            forged["seal"] = {**stranger.model_dump(), "digest": digest}
        try:
            model = FittedModel.from_json(json.dumps(forged))
        except InputFileError:
            continue
        loaded, promised = loaded + 1, promised + promises(model)
    assert loaded > 40 and promised == 0
    evidence("safe", "forged model files that were promised", "0", f"{promised} of 200")


def test_what_this_account_sealed_counts_and_a_change_does_not(account):
    model = FittedModel.load(bundled_model("embedded")).model_copy(update={"seed": 1})
    assert not promises(model) and "nothing says who made it" in model.unproven
    sealed = model.sealed()
    sealed.save(account / "model.json")
    again = FittedModel.load(account / "model.json")
    assert again == sealed and promises(again) and again.tau() == model.promise.tau
    key = seals.config_folder() / "seal.key"
    assert key.stat().st_mode & 0o077 == 0
    bolder = again.model_copy(update={"modes": {}})
    assert not promises(bolder) and "changed after it was sealed" in bolder.unproven
    assert promises(bolder.sealed())  # one's own word for one's own file
    key.write_text("0" * 64)
    assert "another account or machine" in FittedModel.load(account / "model.json").unproven


def test_a_model_without_a_place_for_the_key_stays_a_claim(account, monkeypatch):
    (account / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(account / "file"))
    model = FittedModel.load(bundled_model("embedded")).model_copy(update={"seed": 1}).sealed()
    assert model.seal is None and not promises(model)


@pytest.fixture
def key(account):
    """An Ed25519 key as OpenSSH keeps it."""
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    path = account / "lab_key"
    path.write_bytes(made.private_bytes(serialization.Encoding.PEM, *form))
    public = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    path.with_suffix(".pub").write_bytes(made.public_key().public_bytes(*public) + b" the lab\n")
    return path


def test_a_signature_counts_where_its_key_is_known(key):
    model = FittedModel.load(bundled_model("embedded")).model_copy(update={"seed": 1}).sealed(key)
    text = model.to_json()
    assert "is not listed in" in FittedModel.from_json(text).unproven
    known = seals.known_signers_file()
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text("# our robots\n" + key.with_suffix(".pub").read_text())
    assert promises(FittedModel.from_json(text))
    forged = model.model_copy(update={"modes": {}})
    seal = model.seal.model_copy(update={"digest": forged.digest})
    assert "its signature is wrong" in forged.model_copy(update={"seal": seal}).unproven


def test_a_key_that_cannot_sign_is_named(account, key):
    model = FittedModel.load(bundled_model("embedded"))
    with pytest.raises(InvalidSettingError, match="ssh-keygen -t ed25519"):
        model.sealed(account / "none")
    with pytest.raises(InvalidSettingError, match="is no SSH private key"):
        model.sealed(key.with_suffix(".pub"))


def test_without_cryptography_a_signature_is_unknown(key, monkeypatch):
    import sys

    model = FittedModel.load(bundled_model("embedded")).model_copy(update={"seed": 1}).sealed(key)
    known = seals.known_signers_file()
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(key.with_suffix(".pub").read_text())
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert (
        "needs cryptography: pip install 'cpor-grasp[sign]'"
        in FittedModel.from_json(model.to_json()).unproven
    )
    with pytest.raises(CporError, match="signing needs cryptography"):
        model.sealed(key)


DEFAULTS = {
    "FittedModel": {"kind": "cpor-model", "version": 2, "truth": "occlusion", "geometry_kind": "paper"},
    "ActionCalibrator": {"kind": "action", "version": 1},
    "BeliefBand": {"kind": "belief-band", "version": 1},
    "CandidateCoverage": {"kind": "candidate-coverage", "version": 1},
    "GatedFusion": {"kind": "gated-fusion", "version": 2},
    # The digest does cover these: a file without them means what it says under the same defaults only.
    "GeometrySettings": {
        "rho": 8, "sigma_z": 0.06, "kappa_o": 30.0, "kappa_c": 1.2, "kappa_z": 2.0, "o_star": 0.1,
        "c_star": 0.15, "b_cv": -0.3, "min_readings": 0.5,
    },
    "IsotonicCalibrator": {"kind": "isotonic", "version": 1},
    "IsotonicRate": {"method": "isotonic"},
    "LogisticCalibrator": {
        "kind": "logistic", "version": 1, "sees": "score", "mean": [], "scale": [], "penalty": 0.0,
    },
    "PlattRate": {"method": "platt"},
    "RiskPromise": {"kind": "risk-promise", "version": 1},
    "UnseenCalibrator": {"kind": "unseen-blocker", "version": 1},
}  # fmt: skip
"""The digest of a model leaves defaults out: another default would change what a sealed file means."""


def test_a_default_that_the_digest_leaves_out_stays_as_it_is():
    schema = FittedModel.model_json_schema()
    found: dict[str, dict] = {}
    for name, each in {"FittedModel": schema, **schema["$defs"]}.items():
        given = {field: at["default"] for field, at in each.get("properties", {}).items() if "default" in at}
        if given := {field: value for field, value in given.items() if value is not None}:
            found[name] = given
    assert found == DEFAULTS
