"""What the objects of a scene are, in a word or two each: asked of a model that was allowed to name them.

A reply can give names to objects of the scene and nothing else. Names are short and on one line; whoever gave
an object a name is not overruled by a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cpor.scene import Scene
from cpor.semantics.matching import NumberedMarks
from cpor.semantics.reply_parser import list_schema, objects_with
from cpor.semantics.scorer import Spent
from cpor.semantics.words_question import object_line, plain

LONGEST_NAME = 30
"""A longer name is none. [characters]"""

NAMES_SCHEMA = list_schema("names", object="integer", name="string")

NAMES_SYSTEM = (
    "You look at photographs of cluttered objects for a robot. You say what each object is, as a person "
    "would call it who wants somebody else to fetch it."
)


@dataclass(frozen=True)
class NamesReply:
    """What was said to the question what the objects are.

    Attributes:
        names: Name of each object that got one, by id; None: no answer.
        namer: The namer's name.
        problems: What went wrong, in words.
        spent: Calls, tokens and money it took.
    """

    names: Mapping[int, str] | None
    namer: str
    problems: tuple[str, ...] = ()
    spent: Spent = field(default_factory=Spent)

    @property
    def note(self) -> str:
        """What to know about it, in a sentence."""
        cost = f" Spent: {self.spent.calls} calls, {self.spent.tokens} tokens." if self.spent.calls else ""
        if self.names is None:
            why = f" ({self.problems[-1]})" if self.problems else ""
            return f"{self.namer} gave no names{why}; colours and shapes do.{cost}"
        return f"{self.namer} named {len(self.names)} objects.{cost}"


@runtime_checkable
class Namer(Protocol):
    """Can be asked what objects are. A relation scorer may be one too; it need not."""

    def name_objects(self, scene: Scene) -> NamesReply | None:
        """Ask. A failure is no answer. None where it is not to be asked."""
        ...


def names_prompt(scene: Scene, number: Mapping[int, int]) -> str:
    """The question.

    Args:
        scene: The scene.
        number: Badge number by object id.
    """
    objects = "\n".join(object_line(number[o.id], o.name) for o in scene.objects)
    return "\n\n".join(
        [
            "Every object carries a badge with its number. A badge beside an object is joined to it by a "
            "line that ends on the object.",
            f"Objects, with their names where they have one, quoted:\n{objects}",
            "What is each object that has no name yet? Give it a colour and an everyday noun, two or three "
            'words in lower case such as "red mug". No place, no number, no sentence. Leave out an object '
            "that you cannot tell.",
            'Reply with JSON only: {"names": [{"object": badge number, "name": words}, ...]}.',
        ]
    )


def read_names_reply(text: str, marks: NumberedMarks) -> tuple[dict[int, str] | None, tuple[str, ...]]:
    """Names by object id, None where the reply cannot be read, and what was wrong with it.

    Args:
        text: The reply, with prose or code fences around the JSON, as it may be.
        marks: What numbers in it mean.
    """
    lists = [each["names"] for each in objects_with(text, ("names",))]
    if not lists or not isinstance(lists[0], list) or any(each != lists[0] for each in lists):
        return None, ("the reply holds no list of names",)
    names: dict[int, str] = {}
    problems: list[str] = []
    for entry in lists[0]:
        number, name = (entry.get("object"), entry.get("name")) if isinstance(entry, dict) else (None, None)
        label = None if isinstance(number, list) else marks.object_of(number)
        said = plain(name).strip("\"'.") if isinstance(name, str) else ""
        if label is None or label in names:
            problems.append(f"{number!r:.40} is no object, or named twice")
        elif not said or len(said) > LONGEST_NAME or not any(c.isalpha() for c in said):
            problems.append(f"object {label}: {name!r:.40} is no name")
        else:
            names[label] = said
    return names, tuple(problems)
