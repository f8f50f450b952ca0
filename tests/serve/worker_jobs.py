"""Jobs for worker processes in tests; a process finds them by name."""

import ctypes
import os
import time

from cpor.errors import InvalidSceneError


def prepare() -> dict[str, int]:
    return {"pid": os.getpid(), "done": 0}


def add(tools: dict[str, int], a: int, b: int) -> tuple[int, int]:
    tools["done"] += 1
    return a + b, tools["done"]


def pid(tools: dict[str, int]) -> int:
    return tools["pid"]


def sleep(tools: dict[str, int], seconds: float) -> int:
    time.sleep(seconds)
    return tools["pid"]


def wait_for(tools: dict[str, int], path: str) -> int:
    """Work until somebody makes this file."""
    while not os.path.exists(path):
        time.sleep(0.01)
    return tools["pid"]


def refuse(tools: dict[str, int]) -> None:
    raise InvalidSceneError("no such scene")


def die(tools: dict[str, int]) -> None:
    os._exit(3)


def prepare_slowly() -> dict[str, int]:
    time.sleep(3.0)
    return prepare()


def hold_all_threads(tools: dict[str, int], seconds: int) -> None:
    """As compiled code does: no other thread of the process runs meanwhile."""
    ctypes.PyDLL(None).sleep(seconds)
