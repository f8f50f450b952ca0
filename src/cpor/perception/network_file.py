"""Networks on disk: read once, compared with their checksums, opened on two threads."""

import hashlib
import importlib
import json
import logging
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from cpor.errors import InputFileError, MissingExtraError, one_of

log = logging.getLogger(__name__)

PACKAGED = Path(__file__).parent / "weights"
"""Where the networks lie that come with the package."""

CHECKSUMS = "checksums.json"
"""File beside the networks: name -> SHA-256 in hex."""

THREADS = 2
"""Threads of one network: what a small robot computer spares."""

Session: TypeAlias = Any
"""An onnxruntime session, which has no types."""

CPU = "CPUExecutionProvider"
"""Execution provider that every onnxruntime has."""

DEVICES: dict[str, tuple[str, ...]] = {
    "cpu": (),
    "cuda": ("CUDAExecutionProvider",),
    "tensorrt": ("TensorrtExecutionProvider", "CUDAExecutionProvider"),
    "coreml": ("CoreMLExecutionProvider",),
    "openvino": ("OpenVINOExecutionProvider",),
}
"""Execution providers of onnxruntime that make up a device, the first choice first."""


class HoldsNetwork:
    """Base of a dataclass that opens a network when it is first used."""

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the open network, so that worker processes can have a copy."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}  # type: ignore[arg-type]


def read_network(path: Path) -> bytes:
    """Content of a network file that agrees with its checksum.

    A packaged file must have one; a file of the user's own is compared where a list lies beside it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        remedy = "install the package again" if path.parent == PACKAGED else "give the path of an ONNX file"
        raise InputFileError(f"{path} cannot be read ({error.strerror}); {remedy}") from error
    expected = _checksums(path.parent).get(path.name)
    if expected is None:
        if path.parent == PACKAGED:
            raise InputFileError(
                f"{path.parent / CHECKSUMS} does not list {path.name}; install the package again"
            )
        return content
    if hashlib.sha256(content).hexdigest() != expected:
        raise InputFileError(
            f"{path} is damaged: its checksum is not the one in {CHECKSUMS}; install the package again, "
            f"or fetch the file again"
        )
    return content


def parse_device(name: str) -> str:
    """The device of a name: one of `DEVICES`, or `auto` for the best one that is installed."""
    return one_of("device", name, ("auto", *DEVICES))


def open_network(
    path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...], device: str = "cpu"
) -> Session:
    """Open a network that has the given inputs and outputs.

    Where onnxruntime cannot use the device (`parse_device`), the CPU runs it, and a logged warning says so.
    """
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError(
            "our own networks run on onnxruntime, which is not installed; "
            "run: pip install 'cpor-grasp[perception]'"
        ) from error
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    # Waiting threads would burn a core that the arm's driver or the camera needs; nothing is lost by it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # it writes warnings about the graph to stderr otherwise
    content = read_network(path)
    # Not tensorrt by itself: it compiles for minutes.
    wanted = ("cuda", "coreml", "openvino") if device == "auto" else (device,)
    installed = ort.get_available_providers()
    providers = [each for name in wanted for each in DEVICES[name] if each in installed]
    try:
        session: Session = ort.InferenceSession(content, options, providers=[*providers, CPU])
    except _failures() as error:
        reason = str(error).splitlines()[0][:200]
        raise InputFileError(
            f"{path} is not an ONNX file that runs here ({reason}); export it again"
        ) from error
    if device not in ("auto", "cpu") and session.get_providers()[0] == CPU:
        log.warning("onnxruntime cannot use %s here; %s runs on the CPU", device, path.name)
    for kind, needed, there in (
        ("input", inputs, session.get_inputs()),
        ("output", outputs, session.get_outputs()),
    ):
        names = [each.name for each in there]
        if lacking := [name for name in needed if name not in names]:
            raise InputFileError(f"{path} has no {kind} {lacking[0]!r}; it has: {', '.join(names)}")
    return session


def _failures() -> tuple[type[Exception], ...]:
    """The exceptions onnxruntime raises for a file it cannot use; they share no base of their own."""
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented")
    return RuntimeError, ValueError, *(getattr(state, name) for name in names if hasattr(state, name))


def _checksums(folder: Path) -> dict[str, str]:
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputFileError(f"{path} is damaged ({error}); install the package again") from error
