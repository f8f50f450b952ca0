"""What the build adds: the commit that a wheel or an sdist was made from, for `cpor --version`."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FILE = "commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts `commit.txt` into the package; an sdist hands it on to the wheel that is built from it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        if version == "editable":
            return  # a checkout asks git
        handed_on = Path(self.root, _FILE)
        if not handed_on.exists():
            command = ["git", "-C", self.root, "rev-parse", "--short=12", "HEAD"]
            try:
                commit = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            except (OSError, subprocess.CalledProcessError):
                return  # made from neither a checkout nor an sdist
            handed_on = Path(self.directory, _FILE)
            handed_on.parent.mkdir(parents=True, exist_ok=True)
            handed_on.write_text(commit + "\n")
        goal = _FILE if self.target_name == "sdist" else f"cpor/{_FILE}"
        build_data["force_include"][str(handed_on)] = goal

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when it has packed."""
        Path(self.directory, _FILE).unlink(missing_ok=True)
