"""Leaves of a behaviour tree (py_trees): look, decide what is next, ask a person, act, check a delivery.

They write to the blackboard, in the namespace `cpor`:

    view       what was seen last                                     Look
    target     id of the object asked for in it; None: not seen       Look
    answer     what was decided                                       DecideNext
    next       "grasp", "remove" or "ask"                             DecideNext, AskPerson
    action     what to do; None where `next` is "ask"                 DecideNext, AskPerson
    outcome    what came of the last action                           Act
    acted_on   the look that was acted on, by which to check          Act
    delivery   what is known of a target said to be delivered         CheckDelivery

No leaf blocks a tick: what takes time runs in a thread, and the leaf is RUNNING meanwhile. A leaf that is
cancelled stops the arm and waits for it to stand still. A failure is never "grasp". Needs the extra `trees`.
"""

import operator
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from cpor.answer import Answer
from cpor.decision import Action, Defer, Grasp
from cpor.errors import CporError, needing
from cpor.robot.checked import checked, why_it_must_stay
from cpor.robot.confirm import Delivery
from cpor.robot.cycle import LoopSettings
from cpor.robot.protocol import Outcome, Robot
from cpor.robot.safe_stop import stop_for_sure, stopping
from cpor.robot.steps import Frames, check_delivery
from cpor.system import System
from cpor.tracking.memory import Memory
from cpor.tracking.target import TargetFinder

with needing("trees", "behaviour trees need py-trees"):
    import py_trees
    from py_trees.behaviour import Behaviour
    from py_trees.common import Access, Status

Next: TypeAlias = Literal["grasp", "remove", "ask"]

NAMESPACE = "cpor"
KEYS = ("view", "target", "answer", "next", "action", "outcome", "acted_on", "delivery")

AskFor: TypeAlias = Callable[[Answer | None], Action | None]
"""Asks a person; may take its time. None, or a deferral: no answer."""


@dataclass(frozen=True)
class Cell:
    """What the leaves work with.

    `find` finds the object asked for in a scene, or is its id, where ids are kept. Of the loop's settings
    count how often a lost frame is tried again, whether frames may repeat, and how a delivery is looked at.
    """

    robot: Robot
    system: System
    find: TargetFinder | int
    settings: LoopSettings = field(default_factory=LoopSettings)


class _Leaf(Behaviour):
    """A leaf whose work runs in a thread; it may move the robot, as long as the tree is not cancelled."""

    def __init__(self, name: str, cell: Cell) -> None:
        super().__init__(name)
        self.cell = cell
        self.board = _open_board(self)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def initialise(self) -> None:
        """Begin."""
        self._done: Status = Status.FAILURE
        self._failed: BaseException | None = None
        self._said, self._stop = "", threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"cpor-{self.name}", daemon=True)
        self._thread.start()

    def update(self) -> Status:
        """RUNNING until the work is done; an error of ours is FAILURE, any other is raised."""
        if self._thread is not None and self._thread.is_alive():
            return Status.RUNNING
        if self._failed is not None and not isinstance(self._failed, CporError):
            raise self._failed
        self.feedback_message = str(self._failed) if self._failed is not None else self._said
        return self._done

    def terminate(self, new_status: Status) -> None:
        """Where it is cancelled: stop the arm at once, and wait until the work has ended."""
        if new_status == Status.INVALID and self._thread is not None:
            self._stop.set()
            stop_for_sure(self.cell.robot)
            self._thread.join()
        if new_status != Status.RUNNING:
            self._thread = None

    @abstractmethod
    def work(self) -> Status:
        """The work."""

    def _work(self) -> None:
        try:
            self._done = self.work()
        except BaseException as error:  # told by the next tick, which runs in the tree's thread
            self._failed = error

    @contextmanager
    def robot(self) -> Iterator[tuple[Robot, str | None]]:
        """The robot with a heartbeat, driven by this leaf alone, and why it must not move yet."""
        robot = checked(self.cell.robot)
        with stopping(robot, self._stop) as left:
            yield robot, why_it_must_stay(robot, left, None)


def _open_board(behaviour: Behaviour) -> Any:
    """The blackboard, with leave to write all of our keys."""
    board = behaviour.attach_blackboard_client(behaviour.name, NAMESPACE)
    for key in KEYS:
        board.register_key(key, access=Access.WRITE)
    return board


class Look(_Leaf):
    """Take a picture and find the objects; FAILURE where no picture comes or the target is not seen."""

    def work(self) -> Status:
        """Look; what was known before is gone first, so that nothing stale is decided on."""
        board, find = self.board, self.cell.find
        board.view = board.target = board.answer = board.action = None
        board.next = "ask"
        with self.robot() as (robot, why):
            if why is not None:
                self._said = why
                return Status.FAILURE
            frame = robot.observe()
        view = self.cell.system.look(frame)
        found = find if isinstance(find, int) else find(view.scene)
        board.view, board.target = view, found if found in view.scene.ids else None
        return Status.SUCCESS if board.target is not None else Status.FAILURE


class DecideNext(_Leaf):
    """Decide what is next: `next` on the blackboard is grasp, remove or ask. SUCCESS in all three."""

    def work(self) -> Status:
        """Decide; FAILURE where there is no look, and `next` is ask then."""
        board = self.board
        board.next, board.action = "ask", None
        if board.view is None or board.target is None:
            return Status.FAILURE
        board.answer = answer = self.cell.system.decide(board.view, board.target)
        action = answer.action
        if action is not None and not isinstance(action, Defer) and action.obj in board.view.scene.ids:
            board.action, board.next = action, _next(action)
        return Status.SUCCESS


class AskPerson(_Leaf):
    """Ask a person what to do where `next` is ask; FAILURE without an answer."""

    def __init__(self, name: str, cell: Cell, ask: AskFor) -> None:
        super().__init__(name, cell)
        self._ask = ask

    def work(self) -> Status:
        """Ask; SUCCESS at once where nothing is to be asked."""
        board = self.board
        if board.next != "ask":
            return Status.SUCCESS
        said = self._ask(board.answer)
        if said is None or isinstance(said, Defer) or board.view is None:
            return Status.FAILURE
        if said.obj not in board.view.scene.ids or isinstance(said, Grasp) != (said.obj == board.target):
            self._said = f"a person said {said}, which cannot be done in this scene"
            return Status.FAILURE
        board.action, board.next = said, _next(said)
        return Status.SUCCESS


class Act(_Leaf):
    """Carry out `action`; SUCCESS where the robot says that it is done. One look serves one action.

    It looks once more right before: where something changed since the look, the robot is not sent.
    """

    def work(self) -> Status:
        """Look, and move."""
        board = self.board
        action, view, target = board.action, board.view, board.target
        board.outcome = board.action = board.view = board.acted_on = board.delivery = None
        if action is None or view is None or self._stop.is_set():
            return Status.FAILURE
        scene, notes = view.scene, list[str]()
        with self.robot() as (robot, why):
            if why is None:
                frames = Frames(robot, self.cell.settings, scene.observation)
                if frames.look_before(scene, {int(action.obj), target}, notes):
                    self._said = notes[-1]
                    return Status.FAILURE
            send = robot.grasp if isinstance(action, Grasp) else robot.remove
            outcome = Outcome("stopped", why) if why else send(scene, int(action.obj))
        if robot.status().dry_run:
            outcome = Outcome("stopped", f"a dry run, nothing moved: {outcome.detail}")
        board.outcome, board.acted_on = outcome, scene
        self._said = outcome.detail
        return Status.SUCCESS if outcome.kind == "done" else Status.FAILURE


class CheckDelivery(_Leaf):
    """Look whether the target is out, after a grasp that the robot says is done; SUCCESS where it is."""

    def work(self) -> Status:
        """Look; `delivery` on the blackboard is `out`, `not_out` or `not_known`, and why."""
        board, settings = self.board, self.cell.settings
        scene, target, outcome, notes = board.acted_on, board.target, board.outcome, list[str]()
        if scene is None or outcome is None or outcome.kind != "done":
            return Status.FAILURE
        board.delivery = Delivery("not_known", "no look after it came")
        with self.robot() as (robot, _):
            frames = Frames(robot, settings, scene.observation)
            before = Memory().carry_to(scene, ids_are_kept=True)
            board.delivery, _ = check_delivery(
                robot, frames, self.cell.system, before, target, outcome, settings, notes
            )
        self._said = board.delivery.why
        return Status.SUCCESS if board.delivery.known == "out" else Status.FAILURE


def fetch_tree(cell: Cell, ask: AskFor, most_actions: int = 12, most_failures: int = 3) -> Behaviour:
    """An example: look, decide, ask where needed, act, until a look shows that the target is out.

    The root is SUCCESS then; FAILURE where looking, asking or acting failed too often, and where no look
    tells whether the target is out. `root.stop(INVALID)` cancels it at any tick and leaves the arm at rest.
    At most `most_failures` rounds in a row may fail.
    """

    def sequence(name: str, *children: Behaviour) -> Behaviour:
        return py_trees.composites.Sequence(name, memory=True, children=list(children))

    def next_is(wanted: Next) -> Behaviour:
        check = py_trees.common.ComparisonExpression(f"/{NAMESPACE}/next", wanted, operator.eq)
        return py_trees.behaviours.CheckBlackboardVariableValue(f"Next is {wanted}", check)

    remove_first = sequence("Put aside", next_is("remove"), Act("Remove", cell))
    round_ = sequence(
        "One round",
        Look("Look", cell),
        DecideNext("Decide", cell),
        AskPerson("Ask", cell, ask),
        py_trees.composites.Selector(
            "Do it",
            memory=True,
            children=[
                sequence("Clear the way", py_trees.decorators.SuccessIsFailure("Go on", remove_first)),
                sequence("Deliver", next_is("grasp"), Act("Grasp", cell), CheckDelivery("Check", cell)),
            ],
        ),
    )
    return _Rounds("Fetch", round_, cell, most_actions, most_failures)


class _Rounds(py_trees.decorators.Decorator):
    """Rounds until one succeeds; a removal that was done counts as going on, not as a failure."""

    def __init__(
        self, name: str, child: Behaviour, cell: Cell, most_actions: int, most_failures: int
    ) -> None:
        super().__init__(name=name, child=child)
        self._robot = cell.robot
        self._most_actions, self._most_failures = most_actions, most_failures
        self._board = _open_board(self)
        for key in KEYS:
            self._board.set(key, None)

    def initialise(self) -> None:
        """Begin anew."""
        self.actions = self.failures = 0

    def update(self) -> Status:
        """After each tick of the round."""
        if self.decorated.status == Status.RUNNING:
            return Status.RUNNING
        outcome: Outcome | None = self._board.outcome
        self._board.outcome = self._board.acted_on = None
        self.actions += outcome is not None
        if self.decorated.status == Status.SUCCESS:
            return Status.SUCCESS
        delivery: Delivery | None = self._board.delivery
        done = outcome is not None and outcome.kind == "done" and delivery is None
        self.failures = 0 if done else self.failures + 1
        ended = outcome is not None and outcome.kind in ("stopped", "fault")
        ended |= delivery is not None and delivery.known == "not_known"
        if ended or self.failures >= self._most_failures or self.actions >= self._most_actions:
            return Status.FAILURE
        return Status.RUNNING

    def terminate(self, new_status: Status) -> None:
        """Cancelled: the leaf under way has stopped the arm; between two leaves it is at rest anyway."""
        if new_status == Status.INVALID:
            stop_for_sure(self._robot)


def _next(action: Action) -> Next:
    return "grasp" if isinstance(action, Grasp) else "remove"
