"""UNOGrasp checkpoints: one question an object, answered with the chains of objects on top of it.

The reply is `<think>Path1: Object 4 is occluded by object 2. …</think><answer>[2]</answer>`. A relation that
the reply names scores high, one that it leaves out although it speaks of the blocked object scores low: a
hard answer has no confidence of its own, so the two numbers are settings, and calibration gives them meaning.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from cpor.scene import BlockedBy, Scene
from cpor.semantics.badges import draw_marks
from cpor.semantics.config import ScorerConfig
from cpor.semantics.local_transformers import LocalProvider
from cpor.semantics.matching import NumberedMarks
from cpor.semantics.openai_compatible import OpenAIProvider
from cpor.semantics.provider import Completion, EncodedPicture, Provider, Question
from cpor.semantics.scorer import RawReply, RelationScorer, ScoredPairs, ScorerError, check_pairs
from cpor.semantics.vlm import ModelScorer

SYSTEM = (
    "You help a robot to grasp objects in clutter. Given the number of a target object, work out which "
    "objects occlude it, which objects occlude those, and so on up to objects that nothing occludes. In "
    "<think> describe every occlusion path from the target outward, as `Path1: Object A is occluded by "
    "object B. Object B is occluded by object C.`; a target that nothing occludes is `Path1: Object A is "
    "not occluded.` In <answer> give nothing but the list of objects to be removed first, one for each "
    "path, such as [3, 5]; a target that nothing occludes is its own answer."
)
QUESTION = "Which object must be removed first to grasp object {target}?"

_OWN_OPTIONS = ("through", "system", "question", "score_named", "score_unnamed")

_THINK = re.compile(r"<think>(.*?)</think>", re.IGNORECASE | re.DOTALL)
_ANSWER = re.compile(r"<answer>\s*(\[.*?\])\s*</answer>", re.IGNORECASE)  # on one line, as there
_PATH = re.compile(r"Path\d*:")
_RELATION = re.compile(r"Object\s+(\d+)\s+is occluded by object\s+(\d+)")
_OBJECT = re.compile(r"Object\s+(\d+)")

ProblemKind: TypeAlias = Literal[
    "truncated_line",
    "unknown_case",
    "duplicate",
    "no_tags",
    "no_answer",
    "no_path",
    "empty_answer",
    "off_object",
]


@dataclass(frozen=True)
class FileAnswer:
    """What a reply says of one target.

    Attributes:
        objects: Next objects; None where there is no readable answer.
        paths: Paths, top first; None where there is none.
    """

    objects: frozenset[int] | None
    paths: tuple[tuple[int, ...], ...] | None


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "unograsp".

    `options.through` is `openai` (a compatible server) or `transformers` (a folder); what is left of the
    options goes there. `options.system` and `options.question` hold the checkpoint's own prompt.
    """
    through = config.option("through", str, "openai")
    rest = {key: value for key, value in config.options.items() if key not in _OWN_OPTIONS}
    inner = config.model_copy(update={"options": rest, "kind": through})
    if through == "openai":
        return UnoGraspScorer(config, OpenAIProvider(inner))
    if through == "transformers":
        single = config.model_copy(update={"at_once": 1, "attempts": 1})
        return UnoGraspScorer(single, LocalProvider(inner))
    raise ScorerError(f"scorer {config.name}: options.through is {through!r}; it is openai or transformers")


class UnoGraspScorer(ModelScorer):
    """Asks about one object after the other, as few as the pairs need."""

    def __init__(self, config: ScorerConfig, provider: Provider) -> None:
        super().__init__(config, provider)
        self._system = config.option("system", str, SYSTEM)
        self._question = config.option("question", str, QUESTION)
        self._named = _share(config, "score_named", 0.9)
        self._unnamed = _share(config, "score_unnamed", 0.1)
        if "{target}" not in self._question:
            raise ScorerError(
                f"scorer {config.name}: options.question must hold {{target}}, the object's number"
            )

    def score(self, scene: Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """See `RelationScorer`."""
        pairs = check_pairs(scene, pairs)
        before = self.caller.purse.spent
        picture, marks = draw_marks(scene)
        blockers: dict[int, frozenset[int] | None] = {}
        replies: list[RawReply] = []
        while waiting := [k for k in dict.fromkeys(pair.blocked for pair in pairs) if k not in blockers]:
            # One reply speaks of a whole chain, so ask in small groups and look what is still open.
            group = waiting[: self.config.at_once]
            questions = [self._ask(picture, marks, label) for label in group]

            def read(
                place: int, reply: Completion, group: list[int] = group
            ) -> Mapping[int, frozenset[int]] | None:
                return None if reply.refused else read_chains(reply.text, marks, group[place])

            found = self.caller.ask_all(questions, read)
            for place, (label, asked) in enumerate(zip(group, found, strict=True)):
                chains = read(place, asked.completion) if asked.completion is not None else None
                blockers.setdefault(label, None)
                for blocked, named in (chains or {}).items():
                    if blockers.get(blocked) is None:
                        blockers[blocked] = named
                about = tuple(pair for pair in pairs if pair.blocked == label)
                text = asked.completion.text if asked.completion is not None else None
                unread = (
                    () if chains is not None or text is None else ("no chain could be read from the reply",)
                )
                replies.append(RawReply(about, text, (*asked.problems, *unread), asked.attempts))
        scores = {pair: self._score(blockers[pair.blocked], pair.blocker) for pair in pairs}
        return ScoredPairs(scores, self.name, tuple(replies), self.caller.purse.spent - before)

    def _ask(self, picture: EncodedPicture, marks: NumberedMarks, label: int) -> Question:
        prompt = self._question.replace("{target}", str(marks.number[label]))
        return Question(picture, prompt, self._system, max_output_tokens=self.config.max_output_tokens)

    def _score(self, named: frozenset[int] | None, blocker: int) -> float | None:
        if named is None:
            return None
        return self._named if blocker in named else self._unnamed


def read_chains(text: str, marks: NumberedMarks, target: int) -> dict[int, frozenset[int]] | None:
    """Blockers of every object a reply speaks of, by object id; None where it cannot be relied on.

    A reply counts only if all its paths begin at the target and name objects of the scene, and "not
    occluded" only if the answer is the target itself: otherwise an omission would pass for "free".
    """
    try:
        answer, _ = parse_reply(text)
    except ValueError:  # a number of more digits than Python reads
        return None
    if not answer.paths:
        return None
    if len(answer.paths) > 1 and any(len(path) == 1 for path in answer.paths):
        return None  # a path of which only its first object could be read, beside others
    blockers: dict[int, set[int]] = {}
    for numbers in answer.paths:
        path = [marks.object_of(number) for number in numbers]
        ids = [label for label in path if label is not None]
        if len(ids) < len(path) or ids[-1] != target:
            return None
        for blocker, blocked in pairwise(ids):
            blockers.setdefault(blocked, set()).add(blocker)
        blockers.setdefault(ids[0], set())
    if not blockers[target] and answer.objects != frozenset({marks.number[target]}):
        return None
    return {blocked: frozenset(named) for blocked, named in blockers.items()}


def parse_reply(text: str) -> tuple[FileAnswer, tuple[ProblemKind, ...]]:
    """What a reply of UNOGrasp says, read the way its evaluator reads it, and what is wrong with it.

    On purpose unlike the evaluator: a reply without a <think> tag has no paths, instead of being
    "unobstructed", and one without a readable list has no answer, instead of an empty one.
    """
    think, answer = _THINK.search(text), _ANSWER.search(text)
    if think is None and answer is None:
        return FileAnswer(None, None), ("no_tags",)
    problems: list[ProblemKind] = []
    paths = parse_paths(think[1]) if think else ()
    if not paths:
        problems.append("no_path")
    objects = id_list(answer[1]) if answer else None
    if objects is None:
        problems.append("no_answer")
    elif not objects:
        problems.append("empty_answer")
    return FileAnswer(objects, paths or None), tuple(problems)


def parse_paths(think: str) -> tuple[tuple[int, ...], ...]:
    """Paths, top first, from the text of a <think> tag, read the way UNOGrasp's evaluator reads it."""
    paths = []
    for part in _PATH.split(think):
        relations = _RELATION.findall(part)
        if relations:
            outward = [relations[0][0], *(blocker for _, blocker in relations)]
        else:
            outward = _OBJECT.findall(part)[:1]
        if outward:
            # An id of 20 digits is a babble of the model's; int() would refuse some of them.
            paths.append(tuple(dict.fromkeys(int(v[:19]) for v in reversed(outward))))
    return tuple(paths)


def id_list(text: str) -> frozenset[int] | None:
    """Ids from the text of a list, in JSON or in Python's spelling, which the evaluator takes."""
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    ids = [whole_number(v) for v in values]
    return None if None in ids else frozenset(v for v in ids if v is not None)


def whole_number(value: object) -> int | None:
    """A number of zero or more, also as text; None for anything else."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value) if len(value) < 20 else None  # no id is that long; int() refuses 4,300 digits
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _share(config: ScorerConfig, name: str, default: float) -> float:
    value = float(config.option(name, float, default))
    if not 0.0 <= value <= 1.0:
        raise ScorerError(f"scorer {config.name}: options.{name} is {value}; it must lie in [0, 1]")
    return value
