"""The process of a live run: light to import here, since the service itself never needs the simulator."""

import os
import signal
import threading
from multiprocessing.connection import Connection

from cpor.serve.api.messages import RunRequest
from cpor.serve.live.pipe_messages import Done, PipeMessage, RunOrder
from cpor.serve.live.run_limits import RunLimits


def live(pipe: Connection, request: RunRequest, limits: RunLimits, pictures: str) -> None:
    """Run to the end, obeying orders from the pipe and telling everything through it.

    Args:
        pipe: To the service; where its other end is closed, the process ends at once.
        request: What to run.
        limits: How many frames of the film.
        pictures: Path of the run's pictures, relative to the service.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its runs itself
    from cpor.serve.live.show import Show

    lock = threading.Lock()

    def tell(told: PipeMessage) -> None:
        try:
            with lock:
                pipe.send(told)
        except OSError:
            os._exit(0)

    show = Show(request, limits, pictures, tell)

    def obey() -> None:
        while True:
            try:
                order: RunOrder = pipe.recv()
            except (EOFError, OSError):
                os._exit(0)  # the service is gone
            tell(Done(order.number, show.controls.obey(order)))

    threading.Thread(target=obey, name="cpor-orders", daemon=True).start()
    show.run()
