"""Every module can be imported, or the package that it lacks belongs to an extra that is not installed."""

import json
import subprocess
import sys

import pytest

IMPORT_ALL = """
import importlib, json, pkgutil, warnings
import cpor
from cpor.perception.network_file import MissingExtraError

warnings.simplefilter("error")
lacking, modules = {}, [each.name for each in pkgutil.walk_packages(cpor.__path__, "cpor.")]
for name in modules:
    try:
        importlib.import_module(name)
    except MissingExtraError as error:
        assert "cpor-grasp[" in str(error), name
    except ModuleNotFoundError as error:
        lacking[name] = error.name.partition(".")[0]
print(json.dumps([modules, lacking]))
"""

OF_EXTRAS = {
    "fastapi",
    "gymnasium",
    "h11",
    "httpx",
    "httpx2",
    "mujoco",
    "prometheus_client",
    "python_multipart",
} | {
    "starlette",
    "uvicorn",
}
"""Packages that modules of the simulator and the service import at their beginning."""


@pytest.mark.slow
def test_every_module_can_be_imported_or_lacks_the_package_of_an_extra():
    ran = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    modules, lacking = json.loads(ran.stdout)
    assert len(modules) > 300
    assert set(lacking.values()) <= OF_EXTRAS, lacking
