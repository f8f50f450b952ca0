"""The demo as people see it: plain words, a live view, and at the end the story with its film."""

import io
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from rich.console import Console

from cpor.decision import Defer
from cpor.errors import InvalidSettingError
from cpor.io.whole_files import make_folder, write_bytes
from cpor.learn.modes import DEFAULT_MODE, Mode
from cpor.robot.cycle import Cycle
from cpor.robot.run_folder import RunFolder
from cpor.sim.arm.film import film_camera
from cpor.sim.dataset.manifest import Tier
from cpor.sim.dataset.recognition import Verdict
from cpor.sim.staged_run import Demonstration, DemoSettings, Eyes, Stage, demonstrate, set_stage
from cpor.system import System
from cpor.truth import right_actions
from cpor.viz.live import LiveView
from cpor.viz.overlay import Marks, draw_scene, encode_picture, window_around
from cpor.viz.progress import progress_bars
from cpor.viz.rerun_scene import check_recording, log_cycle, log_end, open_recording
from cpor.viz.story import Story, write_story
from cpor.viz.words import ENDS, NOBODY_SEGMENTED, namer, names_in

_DEPTHS = {
    "easy": "nothing lies on it",
    "medium": "something lies on it",
    "hard": "it lies under things that lie under others",
}

_SEES = {True: "knows where the objects are", False: "finds the objects in the picture"}


class DemoShow:
    """Runs the demo; story, first look, film and record go into the folder `out`."""

    def __init__(self, out: Path, quiet: bool = False, film: bool = True, rerun: Path | None = None) -> None:
        if rerun is not None:
            check_recording(rerun)
        if out.is_file():
            raise InvalidSettingError(f"{out} is a file; the demo needs a folder, so choose another --out")
        if out.is_dir() and any(out.iterdir()):
            raise InvalidSettingError(f"{out} already exists and is not empty; choose another --out")
        self.out = out
        self._quiet = quiet
        self._film = film
        self._rerun = rerun
        self._console = Console(quiet=quiet, highlight=False)

    def run(
        self,
        seed: int,
        tier: Tier | None,
        model: Path | None = None,
        eyes: Eyes = "networks",
        mode: Mode = DEFAULT_MODE,
        tau: float | None = None,
    ) -> dict[str, object]:
        """Everything, from the heap to the story; what to tell programs."""
        settings = DemoSettings(tier=tier, eyes=eyes, mode=mode, tau=tau)
        self._make_folder()
        self._say(f"Filling a bin with objects, in simulation (seed {seed}) …")
        stage = set_stage(seed, settings)
        system = settings.system(stage.segmenter, model)
        wanted = self._introduce(stage, system)
        with ExitStack() as stack:
            recording = None
            if self._rerun is not None:
                recording = stack.enter_context(open_recording(self._rerun, f"Fetching {wanted}"))
            view = stack.enter_context(LiveView(f"Fetching {wanted}", self._console))

            def over(cycle: Cycle, verdict: Verdict | None) -> None:
                wrong = verdict is not None and verdict.is_wrong
                view.acted(cycle, f"(This was wrong: {verdict.because}.)" if verdict and wrong else "")
                if recording is not None:
                    log_cycle(recording, cycle, verdict)

            done = demonstrate(
                stage,
                settings,
                system,
                RunFolder(self.out / "run", {"seed": seed, "tier": stage.heap.tier, "request": wanted}),
                view.decided,
                over,
            )
            if recording is not None:
                log_end(recording, wanted, *done.how_it_ended)
        self._tell(stage, wanted, done, seed)
        story = self.out / "story.html"
        return {**done.to_json(), "seed": seed, "tier": stage.heap.tier, "story": str(story)}

    def _make_folder(self) -> None:
        """Before anything else: a demo that cannot write its story need not begin."""
        make_folder(self.out)
        if not os.access(self.out, os.W_OK):
            raise InvalidSettingError(f"cannot write into {self.out}; choose another --out")

    def _introduce(self, stage: Stage, system: System) -> str:
        """Take a first look and describe the heap; what the robot calls the wanted object."""
        scene = system.look(stage.robot.observe()).scene
        target = stage.find_target(scene)
        wanted = stage.target_name if target is None else names_in(scene).get(target, stage.target_name)
        picture = draw_scene(scene, Marks(target), window=window_around(scene))
        place = self.out / "first_look.webp"
        write_bytes(place, encode_picture(picture))
        count, tier = len(stage.world.objects), stage.heap.tier
        self._say(
            f"It holds {count} objects. Wanted: {wanted} ({tier}: {_DEPTHS[tier]}).\n"
            f"A simulated UR3e looks with a noisy depth camera, {_SEES[stage.ids_are_kept]}, decides what\n"
            "to remove next, removes it and looks again, until it can grasp the wanted object. Grasps may\n"
            "slip, and piles may fall.\n"
            f"First look: {place}"
        )
        return wanted

    def _tell(self, stage: Stage, wanted: str, done: Demonstration, seed: int) -> None:
        """Write the story, say how it ended, then add the film, which takes a while."""
        result = done.result
        ended, detail = done.how_it_ended
        facts = {
            "seed": str(seed),
            "tier": stage.heap.tier,
            "objects": str(len(stage.world.objects)),
            "cycles": str(len(result.cycles)),
            "actions": str(result.actions),
            "wrong removals": str(done.wrong_removals),
            "wrong grasps": str(done.wrong_grasps),
            "deferrals": str(result.deferrals),
        }
        if wanted != stage.target_name:
            facts["the simulator's name"] = stage.target_name
        story = Story(
            wanted,
            result.cycles,
            ended,
            detail,
            result.final_scene,
            done.verdicts,
            _right_instead(done),
            facts,
            pointed=not stage.ids_are_kept,
        )
        write_story(story, self.out / "story.html")
        words = f"{wanted[:1].upper()}{wanted[1:]} was {ENDS[ended]}"
        wrong = done.wrong_removals + done.wrong_grasps
        self._say(
            f"{words}. Actions: {result.actions}, wrong in truth: {wrong}, deferrals: {result.deferrals}.\n"
            f"The story, with a picture of every step: {self.out / 'story.html'}"
        )
        if self._rerun is not None:
            self._say(f"The same for the Rerun viewer: {self._rerun}")
        if self._film and len(stage.film):
            write_story(self._with_film(story, stage), self.out / "story.html")
            self._say(f"A film of the arm was added to it: {self.out / 'arm.webp'}")

    def _with_film(self, story: Story, stage: Stage) -> Story:
        with progress_bars(self._quiet) as progress:
            frames, frame_s = stage.film.develop(stage.world, stage.look, film_camera(), progress=progress)
        speed = playing_speed(frame_s)
        moving = animate(frames, frame_s / speed)
        write_bytes(self.out / "arm.webp", moving)
        still = encode_picture(Image.fromarray(frames[len(frames) // 2]))
        return replace(story, animation=moving, still=still, speed=speed)

    def _say(self, words: str) -> None:
        self._console.print(words, markup=False, soft_wrap=True)


def _right_instead(done: Demonstration) -> dict[int, str]:
    """What would have been right where the robot did nothing, in words, by the index of the cycle."""
    said = {}
    for cycle in done.result.cycles:
        moment = done.moments.get(cycle.index)
        if not isinstance(cycle.action, Defer) or moment is None or moment.target is None:
            continue
        name, ways = namer(cycle.scene), []
        for obj in sorted(right_actions(moment.target, moment.truth)):
            found = moment.recognition.find(obj)
            seen = name(found) if found in cycle.scene.ids else NOBODY_SEGMENTED
            ways.append(f"{'grasp' if obj == moment.target else 'remove'} {seen}")
        said[cycle.index] = " or ".join(dict.fromkeys(ways)) or "do nothing: no order of removal exists"
    return said


FASTEST_S = 0.08
"""Browsers do not show frames of much less than this in time. [s]"""

_LAST_S = 1.5


def playing_speed(frame_s: float, most: float = 8.0) -> float:
    """How many times as fast as it was a film is shown: up to `most`, less where frames would rush by.

    Args:
        frame_s: Time from one frame to the next, when it was taken. [s]
        most: The highest speed.
    """
    return min(most, frame_s / FASTEST_S)


def animate(frames: Sequence[UInt8[np.ndarray, "h w 3"]], frame_s: float = FASTEST_S) -> bytes:
    """An animated WebP image, repeated for ever, the last frame held.

    Args:
        frames: Pictures of one size. Each of shape (h, w, 3).
        frame_s: Time a frame is shown. [s]
    """
    if not frames:
        raise InvalidSettingError("there are no frames to animate; record some first")
    pictures = [Image.fromarray(frame) for frame in frames]
    times = [round(1e3 * frame_s)] * (len(pictures) - 1) + [round(1e3 * _LAST_S)]
    buffer = io.BytesIO()
    pictures[0].save(
        buffer,
        format="WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=times,
        loop=0,
        quality=70,
        method=2,
    )
    return buffer.getvalue()
