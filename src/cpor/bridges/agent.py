"""What an agent may call: look, decide, answer, correct, follow, explain, plan, what to ask.

Plain methods that take and give JSON values and pictures; `mcp_server` puts them on the wire. The limits are
those of the web service. A failure is an error, never "free to grasp".
"""

import base64
import binascii
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from cpor.answer import Answer
from cpor.bridges.states import state_of
from cpor.errors import InvalidSettingError, SceneFileError
from cpor.infer.explain import explain
from cpor.infer.plan import plan
from cpor.relations import Label
from cpor.serve.api.asked import CorrectRequest, SceneDecideRequest, validated
from cpor.serve.api.correct_jobs import correct
from cpor.serve.api.decide_jobs import describe_answer, say_effect
from cpor.serve.api.kept_views import KeptView, ViewShelf, asked_of
from cpor.serve.api.look_jobs import look
from cpor.serve.http.refusals import Busy, TooMuch
from cpor.serve.http.settings import ServeSettings
from cpor.serve.http.uploads import Upload, UploadLimits
from cpor.system import System
from cpor.view import View
from cpor.viz.overlay import Marks, draw_scene, encode_picture, marks_for, window_around
from cpor.viz.words import namer, say_step

_DECIDED = (
    "action",
    "target",
    "scores",
    "words",
    "mode",
    "tau",
    "promise",
    "p_success",
    "odds_factor",
    "notes",
)
"""What of an answer an agent is told; the rest is for programs that draw."""

MOST_EFFECTS = 8
"""Relations that an explanation lists."""

_WAYS = ("target", "point", "request")


class Told(NamedTuple):
    """What a tool says: JSON values, and a picture as WebP where there is one to show."""

    content: dict[str, Any]
    picture: bytes | None = None


class AgentTools:
    """The tools over one system; `root` holds scene folders that may be named in place of a picture."""

    def __init__(
        self, system: System | None = None, settings: ServeSettings | None = None, root: Path | None = None
    ) -> None:
        self.system = system or System()
        self.settings = settings or ServeSettings()
        self._root = None if root is None else root.resolve()
        s = self.settings
        self.shelf = ViewShelf(s.most_scenes, s.most_scene_bytes, s.keep_scenes_s)
        self._work, self._places = threading.Lock(), threading.Semaphore(1 + s.most_waiting)

    def look(
        self,
        rgb: str | None = None,
        depth: str | None = None,
        camera: str | None = None,
        depth_unit_m: float | None = None,
        scene: str | None = None,
    ) -> Told:
        """Find the objects of a picture (base64: PNG, JPEG or WebP; depth as 16-bit PNG) or scene folder."""
        if (rgb is None) == (scene is None):
            raise InvalidSettingError("give a picture as `rgb`, or the name of a `scene`; one of the two")
        if scene is not None:
            folder = self._scene_folder(scene)
            try:
                with self.one_at_a_time():
                    return self.keep(whole(self.system.look(folder)))
            except SceneFileError as error:
                raise SceneFileError(str(error).replace(f"{folder.parent}/", "")) from None
        assert rgb is not None
        sent, limits = self._sent(rgb, depth, camera, depth_unit_m)
        with self.one_at_a_time():
            return self.keep(look(self.system, sent, limits)[1])

    def follow(
        self,
        view: str,
        rgb: str,
        depth: str | None = None,
        camera: str | None = None,
        depth_unit_m: float | None = None,
    ) -> Told:
        """Decide again in the next picture of the same camera; objects keep their ids, both looks count."""
        sent, limits = self._sent(rgb, depth, camera, depth_unit_m)
        with self.one_at_a_time():
            before = self.shelf.get(view)
            if before.asked is None:
                raise InvalidSettingError("nothing was asked in this view yet; call decide first")
            kept = look(self.system, sent, limits)[1]
            if kept.view.scene.observation.shape != before.view.scene.observation.shape:
                raise InvalidSettingError("this picture has another size; follow takes those of one camera")
            asked = before.asked.model_copy(update={"answers": []})  # they were about the picture before
            pair, request = (before.view, kept.view), asked_of(asked, before.shrunk)
            _, answer = self.system.follow(pair, request, mode=asked.mode)
            if isinstance(answer.target, int):
                asked = asked.model_copy(update={"target": answer.target, "point": None, "request": None})
            kept = replace(kept, view=answer.view or kept.view, asked=asked)
            said = self._describe(self.shelf.put(kept), kept) | self._say(answer, kept.view)
            return Told(said, _draw(kept.view, marks_for(answer)))

    def _sent(
        self, rgb: str, depth: str | None, camera: str | None, depth_unit_m: float | None
    ) -> tuple[Upload, UploadLimits]:
        sent = {"rgb": self._decode("rgb", rgb)}
        if depth is not None:
            sent["depth"] = self._decode("depth", depth)
        for name, value in (("camera", camera), ("depth_unit_m", depth_unit_m)):
            if value is not None:
                sent[name] = str(value).encode()
        return sent, (self.settings.most_pixels, self.settings.most_mask_pixels)

    def keep(self, kept: KeptView) -> Told:
        """Keep a view to be asked about, and tell what is in it."""
        return Told(self._describe(self.shelf.put(kept), kept), _draw(kept.view, Marks()))

    def _describe(self, name: str, kept: KeptView) -> dict[str, Any]:
        view = kept.view
        return {
            "view": name,
            "objects": [_in_picture(dict(each), kept.shrunk) for each in view.objects],
            "checks": [check.to_json() for check in view.checks if check.state != "pass"],
            "notes": list(view.notes),
        }

    def decide(
        self,
        view: str,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        request: str | None = None,
        mode: str | None = None,
        answers: list[str] | None = None,
    ) -> Told:
        """Whether the object asked for may be grasped, what to remove first, or what to ask."""
        asked = _as_request(target, point, request, mode, answers)
        with self.one_at_a_time():
            return self._decide(view, self.shelf.get(view), asked)

    def answer(self, view: str, says: str) -> Told:
        """The decision after one more reply of a person."""
        with self.one_at_a_time():
            kept = self.shelf.get(view)
            if kept.asked is None:
                raise InvalidSettingError("nothing was asked in this view yet; call decide first")
            asked = kept.asked.model_dump() | {"answers": [*kept.asked.answers, says]}
            return self._decide(view, kept, validated(SceneDecideRequest, asked))

    def correct(self, view: str, correction: dict[str, Any]) -> Told:
        """Correct what was seen, and decide again where something was asked."""
        made = validated(CorrectRequest, {"correction": correction})
        with self.one_at_a_time():
            before = self.shelf.get(view)
            kept, asked = correct(self.system, before, made)[0][1], before.asked
            if asked is not None and kept.history is not None and kept.history.changes_masks:
                asked = asked.model_copy(update={"answers": []})  # they were about other objects
            kept = replace(kept, asked=asked)
            self.shelf.replace(view, before, kept)
            if kept.asked is not None:
                return self._decide(view, kept, kept.asked)
        return Told(self._describe(view, kept), _draw(kept.view, Marks()))

    def picture(self, view: str) -> bytes:
        """The photograph of a view with the numbers of its objects, as WebP."""
        return _draw(self.shelf.get(view).view, Marks())

    def _decide(self, view: str, kept: KeptView, asked: SceneDecideRequest) -> Told:
        answer, seen = self._answer(view, kept, asked)
        return Told(self._say(answer, seen), _draw(seen, marks_for(answer)))

    def _say(self, answer: Answer, seen: View) -> dict[str, Any]:
        said = describe_answer(answer, 0, None, namer(seen.scene))
        content: dict[str, Any] = {"state": state_of(answer.action)}
        content |= {key: said[key] for key in _DECIDED if key in said}
        if answer.action is None:
            content |= _unclear(answer)
        content["ask"] = None if answer.asks is None else asdict(answer.asks)
        content["checks"] = [check.to_json() for check in answer.checks if check.state != "pass"]
        return content

    def explain(
        self,
        view: str,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        request: str | None = None,
        mode: str | None = None,
    ) -> Told:
        """Why, and what would change it."""
        with self._asked_again(view, _as_request(target, point, request, mode)) as (answer, name):
            if answer.posterior is None or answer.decision is None:
                return Told(_unclear(answer))
            said = explain(answer.posterior, answer.decision, k=0)
        words = describe_answer(answer, 0, None, name)["words"]
        effects = [say_effect(each, name) for each in said.relations[:MOST_EFFECTS]]
        content = {"state": state_of(answer.action), "words": words, "what_would_change_it": effects}
        return Told(content | {"not_examined": said.not_examined})

    def plan(
        self,
        view: str,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        request: str | None = None,
    ) -> Told:
        """The removals that lead to the target."""
        with self._asked_again(view, _as_request(target, point, request)) as (answer, name):
            if answer.posterior is None or answer.tau is None:
                return Told(_unclear(answer))
            found = plan(answer.posterior, tau=answer.tau)
        steps = [
            {"remove": step.obj, "name": name(step.obj), "p_valid_so_far": step.p_valid_so_far}
            for step in found.steps
        ]
        content = {"steps": steps, "then_grasp": found.target, "p_valid": found.p_valid, "note": found.note}
        return Told(content | {"first_action": say_step(found.first_action, name)})

    def what_to_ask(
        self,
        view: str,
        target: int | None = None,
        point: tuple[float, float] | None = None,
        request: str | None = None,
    ) -> Told:
        """The one question whose answer helps most; which object is meant, where that is not clear."""
        with self._asked_again(view, _as_request(target, point, request)) as (answer, name):
            if answer.posterior is None or answer.decision is None:
                return Told(_unclear(answer))
            ask = explain(answer.posterior, answer.decision, k=0).ask_next
        if ask is None:
            return Told({"question": None, "why": "No answer about one pair would change what to do."})
        question = f"Does {name(ask.blocker)} stand in the way of {name(ask.blocked)}?"
        content = {"question": question, "blocked": ask.blocked, "blocker": ask.blocker}
        return Told(content | {"p": None if ask.assumed else ask.p, "why": say_effect(ask, name)})

    @contextmanager
    def _asked_again(
        self, view: str, asked: SceneDecideRequest
    ) -> Iterator[tuple[Answer, Callable[[Label], str]]]:
        """One's turn, with the answer after what was replied to the same question, and the names."""
        with self.one_at_a_time():
            kept = self.shelf.get(view)
            before = kept.asked
            if before is not None and all(getattr(before, way) == getattr(asked, way) for way in _WAYS):
                asked = asked.model_copy(update={"answers": before.answers})
            answer, seen = self._answer(view, kept, asked)
            yield answer, namer(seen.scene)

    def _answer(self, view: str, kept: KeptView, asked: SceneDecideRequest) -> tuple[Answer, View]:
        """The answer, and the view, which is kept with what is believed and was asked."""
        request = asked_of(asked, kept.shrunk)
        answer = self.system.decide(kept.view, request, mode=asked.mode, replies=asked.answers)
        seen = answer.view or kept.view
        self.shelf.replace(view, kept, replace(kept, view=seen, asked=asked))
        return answer, seen

    def _decode(self, name: str, text: str) -> bytes:
        most = self.settings.most_upload_bytes
        if len(text) > most * 4 // 3 + 4:
            raise TooMuch(f"{name} has more than {most:,} bytes; send less")
        try:
            return base64.b64decode(text.removeprefix("data:image/png;base64,"), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidSettingError(f"{name} is no base64 ({error}); encode the file's bytes") from None

    def _scene_folder(self, name: str) -> Path:
        if self._root is None:
            raise InvalidSettingError("no folder of scenes was given to this server; send `rgb` instead")
        path = (self._root / name).resolve() if "\0" not in name else self._root
        if self._root not in path.parents or not path.is_dir():
            raise InvalidSettingError(f"there is no scene {name!r}")
        return path

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Wait for one's turn, no longer than the time limit and no more than may wait."""
        if not self._places.acquire(blocking=False):
            raise Busy("too many calls at once; try again in a moment")
        try:
            if not self._work.acquire(timeout=self.settings.time_limit_s):
                raise Busy("the calls before this one take too long; try again in a moment")
            try:
                yield
            finally:
                self._work.release()
        finally:
            self._places.release()


def _as_request(
    target: int | None,
    point: tuple[float, float] | None,
    request: str | None,
    mode: str | None = None,
    answers: list[str] | None = None,
) -> SceneDecideRequest:
    said = {"target": target, "point": point, "request": request, "mode": mode, "answers": answers or []}
    return validated(SceneDecideRequest, said)


def whole(view: View) -> KeptView:
    """A view of a picture that was not made smaller."""
    height, width = view.scene.observation.shape
    return KeptView(view, 1, (width, height))


def _unclear(answer: Answer) -> dict[str, Any]:
    meant = [{"id": each.id, "fit": each.fit} for each in answer.candidates]
    return {"state": "no_answer", "question": answer.question, "candidates": meant}


def _draw(view: View, marks: Marks) -> bytes:
    return encode_picture(draw_scene(view.scene, marks, window=window_around(view.scene)), quality=70)


def _in_picture(listed: dict[str, Any], shrunk: int) -> dict[str, Any]:
    """An object as listed, its pixels those of the picture that was sent."""
    sides = {key: [shrunk * side for side in listed[key]] for key in ("point", "box") if listed[key]}
    return listed | sides
