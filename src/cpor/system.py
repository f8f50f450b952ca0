"""The front door: look at a frame, decide for a target. Every surface calls this and nothing else.

look     the frame             -> a View: objects, and what may be wrong with the input
decide   a View and a request  -> an Answer: which object is meant, beliefs about every pair, an action
follow   frames and a request  -> an Answer for each: ids stay, and earlier looks count as evidence
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cpor.answer import Answer, DecideSettings
from cpor.conversation import Conversation, Relations
from cpor.decision import Decision
from cpor.errors import say_count, say_version
from cpor.evidence.source import Source
from cpor.gate.frame import check_frame
from cpor.gate.masks import check_masks
from cpor.io.frame_files import Picture, limit_to, read_picture
from cpor.learn.modes import DEFAULT_MODE, MODES, Mode, parse_mode
from cpor.model import FittedModel
from cpor.parts import GIVEN, OWN, Parts, doubt_merged, look_closer, own_segmenter, say_mode, tau_of
from cpor.perception.segmenter import Segmenter, guess_hidden_parts
from cpor.pipeline import Pipeline, Stopwatch
from cpor.promise import check_measured, check_source, check_used, promise_for, with_memory
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, Camera, PixelPoint, SemanticScores, Sources
from cpor.semantics.grounder import Grounder, ToldRequest, ground_with
from cpor.semantics.scorer import RelationScorer
from cpor.sources import describe_sources, digest_scores, fingerprint, verified_sources
from cpor.view import View
from cpor.words.grounding import ground_id
from cpor.words.grounding_answers import Found, Request, RequestLike, as_request, confirm

if TYPE_CHECKING:  # only where looks are followed
    from cpor.tracking.target import Track


class System:
    """Segmenter, scorer and model in one; networks are read when first used.

    A subclass may override `infer` or `decide` to decide in another way, as baselines do; every surface and
    the loop then use it.

    Args:
        segmenter: A segmenter, its name, or `module:attribute`; `given`: only masks that a scene came with.
            None: those, else ours.
        scorer: A relation scorer, its name or file, `module:attribute`, or `none`. None: the scores a scene
            came with, else ours.
        model: A fitted model, its file, `paper`, or `none`. None: the bundled one fitted to such scores.
        mode: The risk setting.
        grounder: Judges which object words mean; None: the scorer where it can, else our word judge.
        second_look: Whether our segmenter looks too where the masks are not its own, to find masks that hold
            two objects (`cpor.evidence.merged`). It takes about half a second of one core for each view.
            None: except for masks that a scene came with.
        sources: Further sources of belief that are not installed: objects, or `module:attribute`.
        tau: Act above this score, in place of the mode's threshold.
        settings: How to decide, where a call gives no settings of its own.
    """

    def __init__(
        self,
        segmenter: Segmenter | str | None = None,
        scorer: RelationScorer | str | None = None,
        model: FittedModel | str | Path | None = None,
        mode: Mode | str = DEFAULT_MODE,
        grounder: Grounder | None = None,
        second_look: bool | None = None,
        sources: Sequence[Source | str] = (),
        tau: float | None = None,
        settings: DecideSettings | None = None,
    ) -> None:
        self.mode, self.tau, self.second_look = parse_mode(mode), tau, second_look
        self.settings = settings or DecideSettings()
        self.parts = Parts(segmenter, scorer, model, sources)
        scorer = self.parts.scorer
        self._grounder = grounder or (scorer if isinstance(scorer, Grounder) else None)

    @property
    def model(self) -> FittedModel | None:
        """The model that was asked for; None: the bundled one that was fitted to such scores."""
        return self.parts.model

    def look(
        self,
        picture: Picture,
        depth: np.ndarray | str | Path | None = None,
        camera: Camera | None = None,
        depth_unit_m: float | None = None,
        *,
        workspace: Sequence[tuple[float, float]] | None = None,
        previous: View | None = None,
        frame: int | None = None,
    ) -> View:
        """Find the objects of a frame, and check what was given.

        Args:
            picture: The frame; see `Picture`.
            depth: Registered to the photograph: metres, or steps of `depth_unit_m`; or an image file.
                Shape (h, w).
            camera: What is known of the camera; None: what the files beside an image file say.
            depth_unit_m: Metres that one step of depth means. None: as those files say, else guessed. [m]
            workspace: Corners x, y of the polygon in which objects may be asked for; None: as the camera
                says. [px]
            previous: The last view of the same camera; a frame that repeats it is stale.
            frame: Which frame of a folder of frames, counted from 0; None: the first.
        """
        watch = Stopwatch()
        given, notes = read_picture(picture, depth, camera, depth_unit_m, frame)
        if workspace is not None:
            given = limit_to(given, workspace)
        watch.lap("read")
        checks = check_frame(given.observation, None if previous is None else previous.seen.observation)
        watch.lap("check")
        scene, masks, maker = self.parts.segment(given)
        scene, guessed = guess_hidden_parts(scene, own_segmenter)
        if guessed:
            maker, notes = maker and f"{maker} with hidden parts of ours", (*notes, guessed)
        watch.lap("segment")
        if masks != GIVEN:
            count = say_count(len(scene.objects), "object")
            notes = (*notes, f"The segmenter {say_version(masks)} found {count}.")
        recorded = (verified_sources(given) if masks == GIVEN else None) or Sources("")
        made_here = recorded.made_here if masks == GIVEN else {"masks"}
        with ThreadPoolExecutor(1) as side:  # hashing leaves the interpreter to the checks
            sources = side.submit(describe_sources, scene, maker, recorded.scorer, made_here)
            checks += (check_source("masks", given, maker), *(check_masks(scene) if scene.objects else ()))
        watch.lap("check_masks")
        names, namer = None, getattr(self._grounder, "name_objects", None)
        if namer is not None and (told := namer(scene)) is not None:
            names, notes = told[0], (*notes, told[1])
        watch.lap("ask_names")
        return View(scene, masks, sources.result(), checks, notes, watch.times, told=names)

    def decide(
        self,
        view: View,
        request: RequestLike = None,
        *,
        mode: Mode | str | None = None,
        tau: float | None = None,
        relations: Relations | None = None,
        settings: DecideSettings | None = None,
        replies: Sequence[str] = (),
    ) -> Answer:
        """Decide for one object.

        Args:
            view: What was seen.
            request: The object: its id, a pixel x, y that shows it (see `look_closer` where no mask holds
                it), words, or a `Request`. None: the request the scene came with.
            mode: The risk setting; None: the system's.
            tau: Act above this score instead.
            relations: Probabilities to use in place of what is believed, by `(blocked, blocker)`; None is no
                answer, 0 known not to obstruct. What a person corrected counts besides.
            settings: How to decide; None: as the system is set.
            replies: What a person replied to each question in turn; see `Answer.tell`.
        """
        given, settings = relations or {}, settings or self.settings

        def decides(asked: Request, said: Relations) -> Answer:
            return self._decide_once(view, asked, mode, tau, {**view.relations, **given, **said}, settings)

        answer = Conversation(decides, as_request(request)).decide()
        for reply in replies:
            answer = answer.tell(reply)
        return answer

    def _decide_once(
        self,
        view: View,
        asked: Request,
        mode: Mode | str | None,
        tau: float | None,
        relations: Relations,
        settings: DecideSettings,
    ) -> Answer:
        """Decide once, for what was said so far."""
        if asked.point is not None:
            view = self.look_closer(view, asked.point)
        chosen, given = self._limits(mode, tau)
        watch = Stopwatch(view.times_ms)
        told = self.ground(view, asked)
        watch.lap("ground")
        own = view.seen.request if not asked.ways else None
        notes = (*view.notes, *((f"The file request.txt asks for: {own}.",) if own else ()), *told.notes)
        ask = partial(Answer, None, None, view, checks=view.checks, notes=notes, times_ms=watch.times)
        if not isinstance(told.meant, Found):
            return ask(told.meant, chosen, given)
        target = told.meant.id
        view = self.believe(view, target, settings, watch)
        assert view.beliefs is not None
        model = self.parts.model_for(view.semantic)
        level = tau_of(model, chosen or self.mode) if given is None else given
        stages = self.parts.pipeline_for(view.semantic)
        pipeline = replace(stages, tau=level, method=settings.method, prior=settings.prior)
        posterior = pipeline.posterior(view.beliefs, target).with_answers(relations.items())
        decision = self.infer(pipeline, posterior, settings)
        decision = settings.withhold(decision, posterior, chosen, model.band if model else None)
        score, rate = pipeline.over_readings(decision, view.beliefs, told.meant, relations)
        if score is not None and score <= level:
            return ask(confirm(told.meant, view.scene), chosen, given)
        measured = check_measured(view.beliefs, target, decision.action)
        checks = (*check_used(view, model), measured)
        decision = settings.heed(checks, decision)
        watch.lap("decide")
        is_plain = settings == DecideSettings() and chosen == DEFAULT_MODE and told.meant.p is None
        plain = is_plain and view.is_as_tested(relations)
        promise, in_words = promise_for(view, model, pipeline, checks, plain, OWN)
        watch.lap("promise")
        notes += (*view.notes_on_beliefs(), say_mode(model, chosen), in_words)
        return Answer(
            decision, posterior, view, told.meant, chosen, level, promise, checks, rate, settings.prior,
            tuple(note for note in notes if note), watch.times,
        )  # fmt: skip

    def decide_all(self, view: View, mode: Mode | str | None = None) -> dict[int, Answer]:
        """The answer for every object of a view, by its id; beliefs are made once, for all of them."""
        return {obj: self.decide(view, obj, mode=mode) for obj in view.scene.ids}

    def _limits(self, mode: Mode | str | None, tau: float | None) -> tuple[Mode | None, float | None]:
        """The mode or the threshold in force: a call's before the system's, a threshold before a mode."""
        tau = self.tau if tau is None and mode is None else tau
        return (None if tau is not None else self.mode if mode is None else parse_mode(mode)), tau

    def infer(
        self, pipeline: Pipeline, posterior: ObstructionPosterior, settings: DecideSettings
    ) -> Decision:
        """The decision for the probabilities of one target; `pipeline` has the threshold in force."""
        return pipeline.decide(posterior, settings.deadline_ms, settings.require_certificate)

    def ground(self, view: View, request: RequestLike) -> ToldRequest:
        """The object of a view that a request means, or what to ask back; the view remembers it.

        Names are found only where words have to be read, or something has to be asked back.
        """
        asked = as_request(request)
        before = asked.before or view.exchange
        ways = asked.id, asked.point, asked.words, before
        by_words = asked.id is None and asked.point is None
        told = ground_with(self._grounder, view.scene if by_words else view.seen, *ways)
        if not by_words and not isinstance(told.meant, Found):
            told = ground_with(self._grounder, view.scene, *ways)
        view.exchange = before.after(told.meant)
        return told

    def follow(
        self,
        frames: Iterable[Picture | View],
        request: RequestLike = None,
        *,
        mode: Mode | str | None = None,
        tau: float | None = None,
        settings: DecideSettings | None = None,
    ) -> Iterator[Answer]:
        """Decide in every frame for the object that was asked for in the first one in which it is clear.

        In a frame in which it is not seen, or may be another one, the answer is a question.

        Args:
            frames: Frames of one camera in order, or the views of them.
            request: The object, in the first frame; see `decide`.
            mode: The risk setting; None: the system's.
            tau: Act above this score instead.
            settings: How to decide.
        """
        from cpor.tracking.target import Track

        track = Track(as_request(request))
        for number, frame in enumerate(frames):
            seen = frame if isinstance(frame, View) else self.look(frame)
            if number == 0 and track.asked_for is not None:
                ground_id(seen.seen, track.asked_for)  # an id that is not there is an error
            view = self.find(track, seen)
            if track.seen:
                answer = self.decide(view, track.target, mode=mode, tau=tau, settings=settings)
                track.memory = answer.view.memory if answer.view and answer.view.memory else track.memory
            else:
                unclear = None, None, view, track.unclear, *self._limits(mode, tau)
                answer = Answer(*unclear, checks=view.checks, notes=view.notes)
            yield answer

    def find(self, track: "Track", seen: View) -> View:
        """The next view of a track with the ids that its objects are known by; the track tells the target.

        Args:
            track: The target and what is known so far; it is brought up to date.
            seen: The next view, by the numbers of its segmenter.
        """
        memory = track.memory.carry_to(seen.seen, track.ids_are_kept)
        events = tuple(f"{event[:1].upper()}{event[1:]}." for event in memory.events)
        view = with_memory(replace(seen, notes=(*seen.notes, *events)), memory)
        if track.recognise(memory) is None:
            found, place, view = self._read_request(track, view)
            assert view.memory is not None
            if found is not None and found in view.memory.shown:
                view = with_memory(view, track.accept(found, view.memory, place))
        track.memory = view.memory or memory
        return view

    def _read_request(self, track: "Track", view: View) -> tuple[int | None, PixelPoint | None, View]:
        """The object that the request of a track means, where a person points at it, and the view with it."""
        request = track.request
        if isinstance(request, Request):
            is_over = request.point is not None and track.looks > 1
            if track.target is not None or request.id is not None or is_over:
                return None, None, view
            if request.point is not None:
                view = self.look_closer(view, request.point)
            told = self.ground(view, request)
            track.unclear = told.meant
            found = told.meant.id if isinstance(told.meant, Found) else None
            return found, request.point, replace(view, notes=(*view.notes, *told.notes))
        from cpor.tracking.target import Pointing

        found = request(view.seen)
        place = request.where(view.seen) if isinstance(request, Pointing) else None
        if found is None and place is not None and not track.doubted:
            view = self.look_closer(view, place)
            found = request(view.seen)
        return found, place, view

    def look_closer(self, view: View, point: PixelPoint) -> View:
        """The view with the object that a point shows, where the segmenter saw it too faintly to name it."""
        return look_closer(self.parts, view, point)

    def taus(self, view: View) -> dict[Mode, float]:
        """Threshold of each mode for a view."""
        model = self.parts.model_for(self.believe(view).semantic)
        return {mode: tau_of(model, mode) for mode in MODES}

    def outlook(self, view: View) -> Answer:
        """What holds for every target of a view: checks, and threshold and promise of the default mode."""
        view = self.believe(view)
        model = self.parts.model_for(view.semantic)
        checks = check_used(view, model)
        pipeline = self.parts.pipeline_for(view.semantic)
        plain = view.is_as_tested(view.relations)
        promise, in_words = promise_for(view, model, pipeline, checks, plain, OWN)
        notes = tuple(filter(None, (*view.notes, *view.notes_on_beliefs(), in_words)))
        limits = DEFAULT_MODE, tau_of(model, DEFAULT_MODE)
        return Answer(None, None, view, None, *limits, promise=promise, checks=checks, notes=notes)

    def believe(
        self,
        view: View,
        target: int | None = None,
        settings: DecideSettings | None = None,
        watch: Stopwatch | None = None,
    ) -> View:
        """The view with what is believed of every pair; scored once and kept.

        Args:
            view: What was seen.
            target: The object it is about, where only questions that matter are asked; the view itself stays
                without these beliefs, and a copy has them.
            settings: How many questions.
            watch: Notes the time of each stage.
        """
        if view.beliefs is not None:
            return view
        settings, watch = settings or DecideSettings(), watch or Stopwatch(view.times_ms)
        scene = replace(view.seen, semantic_scores=None) if self.parts.no_scorer else view.seen
        sources, memory = view.sources, view.memory
        kept: frozenset[BlockedBy] = frozenset()
        scorer = self.parts.scorer_for(scene)
        semantic = SemanticScores({}, scorer.name) if scorer is not None else scene.semantic_scores
        pipeline = self.parts.pipeline_for(semantic)
        asked_all, note = True, ""
        with ThreadPoolExecutor(1) as side:  # a scorer may wait for a model far away, or leave a core idle
            measured = side.submit(pipeline.measure, scene)
            if scorer is not None:
                scored, asked_all, note, kept = self.parts.score(view, scene, scorer, target, settings)
                scene = replace(scene, semantic_scores=scored.semantic_scores())
                sources = replace(
                    sources, scores=digest_scores(scene), scorer=fingerprint(scorer),
                    made_here=sources.made_here | {"scores"},
                )  # fmt: skip
            watch.lap("score")
        beliefs = pipeline.combine(measured.result(), scene.semantic_scores, pipeline.score_sources(scene))
        if self.second_look or (self.second_look is None and view.masks != GIVEN):
            beliefs = doubt_merged(view, beliefs, pipeline)
        if memory is not None and memory.pairs.pairs:
            beliefs = memory.pairs.apply(beliefs)
        watch.lap("relate")
        found = view if settings.questions is None else replace(view)
        found.beliefs, found.semantic, found.sources = beliefs, scene.semantic_scores, sources
        found.asked_all, found.kept, found.asking = asked_all, kept, note
        if found is view:
            view.times_ms = dict(watch.times)
            if memory is not None:
                is_free = scorer is None or getattr(scorer, "is_free", False)
                view.memory = memory.learn(beliefs, None if is_free else scene.semantic_scores)
        return found
