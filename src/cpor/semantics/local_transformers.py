"""Models on this machine through Hugging Face transformers: Qwen-VL, InternVL, Gemma and others.

Yes and no come from the logits of the first token. Torchvision is not needed: where it is absent, the
slow image processor is used and video, which we never send, is left out.
"""

import hashlib
import importlib
import importlib.util
import inspect
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cpor.semantics.config import ScorerConfig, scrub
from cpor.semantics.provider import Completion, ProviderFailure, Question, Readiness
from cpor.semantics.reply_parser import is_yes_or_no
from cpor.semantics.scorer import RelationScorer, ScorerError
from cpor.semantics.vlm import VlmScorer

_OPTIONS = ("device", "dtype", "local_files_only", "trust_remote_code", "template_arguments")
_LISTED = 20  # candidates for the first token to keep, beside yes and no in every spelling


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "transformers"."""
    # One model on one device: calls at the same time would only wait for each other.
    config = config.model_copy(update={"at_once": 1, "attempts": 1})
    return VlmScorer(config, LocalProvider(config))


class LocalProvider:
    """A model held in memory, loaded when first asked."""

    def __init__(self, config: ScorerConfig) -> None:
        config.check_options(_OPTIONS)
        self.config = config
        self._device = config.option("device", str, "auto")
        self._dtype = config.option("dtype", str, "auto")
        self._local_files_only = config.option("local_files_only", bool, False)
        self._trust_remote_code = config.option("trust_remote_code", bool, False)
        self._template_arguments = config.option("template_arguments", dict, {})
        self._lock = threading.Lock()
        self._torch: Any = None
        self._processor: Any = None
        self._model: Any = None
        self._yes_no: dict[str, int] = {}

    def identity(self) -> Mapping[str, object]:
        """See `Provider`."""
        return {
            "kind": "transformers",
            "model": self.config.model,
            "files": _fingerprint(self._folder()),
            "dtype": self._dtype,
            "template_arguments": self._template_arguments,
        }

    def readiness(self) -> Readiness:
        """See `Provider`."""
        absent = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
        missing = None
        if not self.config.model:
            missing = "model is not set"
        elif self.config.model.startswith((".", "/", "~")) and not self._folder().is_dir():
            missing = f"there is no folder {self.config.model}"
        return Readiness("pip install 'cpor-grasp[local-vlm]'" if absent else None, missing)

    def complete(self, question: Question) -> Completion:
        """See `Provider`."""
        with self._lock:
            if self._model is None:
                self._load()
            return self._reply(question)

    def _folder(self) -> Path:
        return Path(self.config.model).expanduser()

    def _load(self) -> None:
        try:
            import torch
            import transformers
        except ImportError as problem:
            raise ScorerError(
                f"scorer {self.config.name} needs {problem.name}: pip install 'cpor-grasp[local-vlm]'"
            ) from None
        where = str(self._folder()) if self._folder().is_dir() else self.config.model
        common = {
            "local_files_only": self._local_files_only,
            "trust_remote_code": self._trust_remote_code,
        }
        device = self._device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            processor = _load_processor(transformers, where, common)
            model = transformers.AutoModelForImageTextToText.from_pretrained(
                where, dtype=self._dtype, **common
            )
            self._torch, self._processor, self._model = torch, processor, model.to(device).eval()
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as problem:
            raise ScorerError(
                f"scorer {self.config.name}: cannot load {self.config.model!r}: {scrub(problem, None)}"
            ) from None
        vocabulary = processor.tokenizer.get_vocab()
        self._yes_no = {token: place for token, place in vocabulary.items() if is_yes_or_no(token)}

    def _reply(self, question: Question) -> Completion:
        try:
            inputs = self._inputs(question)
            read = int(inputs["input_ids"].shape[1])
            with self._torch.inference_mode():
                if question.wants_yes_no:
                    return self._first_token(inputs, read)
                written = self._model.generate(
                    **inputs, max_new_tokens=question.max_output_tokens, do_sample=False
                )[0, read:]
        except self._torch.OutOfMemoryError:
            raise ProviderFailure(
                "refused_request", "the model and the picture do not fit into memory"
            ) from None
        except (ValueError, TypeError, KeyError) as problem:  # no template for chats, or no pictures in it
            raise ScorerError(
                f"the model does not take a chat with a picture: {scrub(problem, None)}"
            ) from None
        text = self._processor.tokenizer.decode(written, skip_special_tokens=True)
        cut = len(written) >= question.max_output_tokens
        return Completion(text, None, False, cut, read, len(written))

    def _inputs(self, question: Question) -> Any:
        from PIL import Image

        content = [
            {"type": "image", "image": Image.fromarray(question.picture.rgb)},
            {"type": "text", "text": question.prompt},
        ]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if question.system:
            system = {"role": "system", "content": [{"type": "text", "text": question.system}]}
            messages.insert(0, system)
        inputs = self._processor.apply_chat_template(
            messages,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            **self._template_arguments,
        )
        return inputs.to(self._model.device)

    def _first_token(self, inputs: Any, read: int) -> Completion:
        logits = self._model(**inputs).logits[0, -1].float()
        logprobs = self._torch.log_softmax(logits, dim=-1)
        best = self._torch.topk(logprobs, min(_LISTED, len(logprobs)))
        tokenizer = self._processor.tokenizer
        listed = {
            tokenizer.convert_ids_to_tokens(place): value
            for place, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        }
        listed |= {token: float(logprobs[place]) for token, place in self._yes_no.items()}
        text = tokenizer.decode([int(best.indices[0])])
        return Completion(text, listed, False, False, read, 1)


def _fingerprint(folder: Path) -> str | None:
    """What tells one state of a folder from another without reading gigabytes; None for a name on the hub."""
    if not folder.is_dir():
        return None
    files = sorted(path for path in folder.iterdir() if path.is_file())
    state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr((str(folder.resolve()), state)).encode()).hexdigest()


def _load_processor(transformers: Any, where: str, common: Mapping[str, Any]) -> Any:
    """The model's processor; without torchvision, the same less its part for video."""
    if importlib.util.find_spec("torchvision") is not None:
        return transformers.AutoProcessor.from_pretrained(where, **common)
    names = importlib.import_module("transformers.models.auto.processing_auto").PROCESSOR_MAPPING_NAMES
    name = names.get(transformers.AutoConfig.from_pretrained(where, **common).model_type)
    if name is None:
        return transformers.AutoProcessor.from_pretrained(where, **common)
    base: Any = getattr(transformers, name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(where, **common)
    written, _ = base.get_processor_dict(where, local_files_only=common["local_files_only"])
    taken = inspect.signature(base.__init__).parameters
    parts = {key: value for key, value in written.items() if key in taken and not isinstance(value, dict)}
    parts |= {
        "image_processor": transformers.AutoImageProcessor.from_pretrained(where, **common),
        "tokenizer": tokenizer,
        "chat_template": written.get("chat_template") or tokenizer.chat_template,
    }

    class StillsProcessor(base):  # type: ignore[misc]
        """The processor for photographs alone: its video part needs torchvision."""

        def check_argument_for_proper_class(self, argument_name: str, argument: object) -> object:
            if argument_name == "video_processor":
                return None
            return super().check_argument_for_proper_class(argument_name, argument)

    if "video_processor" in base.get_attributes():
        parts["video_processor"] = None
    return StillsProcessor(**parts)
