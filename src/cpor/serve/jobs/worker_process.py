"""The life of a worker process; it imports little, so that a new one is quickly there."""

import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

from cpor.errors import CporError
from cpor.io.pool import end_with_parent

_ALARM_S = 2.0
"""How much longer than its limit a worker runs when the service is gone and cannot end it. [s]"""

BEGUN = "begun"
"""What a worker says before it works, so that a job which it never got can be given to another."""


def do_jobs(pipe: Connection, prepare: Callable[[], object], limit_s: float) -> None:
    """Do job after job: an error that is not ours ends the process, and its traceback goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers itself
    end_with_parent()
    tools = prepare()
    answer: object = True
    while True:
        try:
            pipe.send(answer)
            job, args, kwargs = pipe.recv()
            pipe.send(BEGUN)
        except (EOFError, OSError):  # the service is gone
            return
        _set_alarm(limit_s + _ALARM_S)
        try:
            answer = (True, job(tools, *args, **kwargs))
        except CporError as error:
            answer = (False, error)
        _set_alarm(0.0)


def _set_alarm(seconds: float) -> None:
    """End this process after so long; compiled code keeps threads from running, but not the system."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
