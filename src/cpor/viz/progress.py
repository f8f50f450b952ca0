"""Progress bars for long work, on stderr so that they never mix with results."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function to tell `(what, done, total)`; each `what` has a bar of its own."""
    if quiet:
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True)) as bars:

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield tell


def counting(tell: Callable[[str, int, int], None], what: str, total: int) -> Callable[[], None]:
    """A function to call after each of so many things."""
    done = count(1)
    return lambda: tell(what, next(done), total)
