"""Whether MuJoCo is there, and which one; it comes with the extra `sim` only."""

from importlib.metadata import version

from cpor.errors import SimulationError


def require_mujoco() -> None:
    """Say what to do where MuJoCo is missing."""
    try:
        import mujoco  # noqa: F401
    except ModuleNotFoundError:
        raise SimulationError(
            "the simulator needs MuJoCo, which is not installed; get it with: pip install 'cpor-grasp[sim]'"
        ) from None
    except (ImportError, OSError) as error:
        # With MUJOCO_GL set, MuJoCo looks for OpenGL while it is imported; we never need it.
        raise SimulationError(
            f"MuJoCo cannot be loaded ({error}); if MUJOCO_GL is set, unset it: no OpenGL is needed"
        ) from None


def versions() -> dict[str, str]:
    """What simulated results hang on: other versions may give other ones."""
    return {name: version(name) for name in ("cpor-grasp", "mujoco-core")}
