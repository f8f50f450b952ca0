"""What trainings by the clock do alike: a log, a learning rate that rises and falls, a mean of weights."""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

Log = Callable[[str], None]
Net = TypeVar("Net", bound=nn.Module)

WARM_UP = 0.02
"""Share of the time in which the learning rate rises."""

LEAST_RATE = 0.002
"""Of the learning rate, at the end."""

LOG_S = 15.0
"""Seconds between lines of a log."""


def open_log(folder: Path) -> Log:
    """A log on the screen and in log.txt, with the seconds since it was opened."""
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()

    def log(line: str) -> None:
        told = f"{time.monotonic() - start:6.1f} s  {line}"
        print(told, flush=True)
        with (folder / "log.txt").open("a") as file:
            file.write(told + "\n")

    return log


class Averaging(Generic[Net]):
    """A network that learns for some seconds, and the running mean of its weights.

    Args:
        net: Where it shall be trained; a GPU computes it in half precision.
        seconds: How long; two steps are made in any case.
        rate, decay: Learning rate and weight decay of AdamW.
    """

    def __init__(self, net: Net, seconds: float, rate: float, decay: float) -> None:
        self.device = next(net.parameters()).device
        self.half = self.device.type == "cuda"
        if self.half:
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.net, self.mean = net, copy.deepcopy(net).eval().requires_grad_(False)
        self._optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay, fused=self.half)
        torch.backends.cudnn.benchmark = True
        # The very tensors that training changes, and their running means.
        self._here = [each for each in net.state_dict().values() if each.is_floating_point()]
        self._means = [each for each in self.mean.state_dict().values() if each.is_floating_point()]
        self._seconds, self._rate = seconds, rate
        self._start = self._told = time.monotonic()
        self.step, self.loss = 0, 0.0

    @property
    def spent(self) -> float:
        """Seconds since the training began."""
        return time.monotonic() - self._start

    def goes_on(self) -> bool:
        """Whether there is time for another step, whose learning rate is then set."""
        share = self.spent / self._seconds
        if share >= 1.0 and self.step >= 2:
            return False
        rate = share / WARM_UP if share < WARM_UP else 0.5 * (1.0 + np.cos(np.pi * min(share, 1.0)))
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * max(float(rate), LEAST_RATE)
        self.net.train()
        return True

    def ready(self, pictures: Tensor) -> Tensor:
        """Pictures as the device likes them best."""
        return pictures.contiguous(memory_format=torch.channels_last) if self.half else pictures

    def autocast(self) -> torch.autocast:
        """Where the network computes."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.half)

    def learn(self, loss: Tensor) -> None:
        """One step down a loss."""
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self.step += 1
        decay = min(0.999, (1.0 + self.step) / (10.0 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self._means, self._here, 1.0 - decay)
        if self.step % 50 == 0 or self.step < 3:
            self.loss = float(loss.detach())

    def tell(self, log: Log, more: str) -> None:
        """A line now and then."""
        if time.monotonic() - self._told > LOG_S:
            self._told = time.monotonic()
            log(f"{more}: step {self.step}, {self.spent:.0f} s, loss {self.loss:.4f}")
