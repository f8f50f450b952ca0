import numpy as np
import pytest

pytest.importorskip("torch", reason="the training needs the extra `train`")
pytest.importorskip("mujoco", reason="heaps need the extra `sim`")

from training.config import Config, ExportConfig, HeapConfig, NetworkConfig, TrainConfig, ViewConfig
from training.heaps import join, make_heap_arrays


@pytest.fixture(scope="session")
def tiny_config():
    return Config(
        heaps=HeapConfig(min_objects=3, max_objects=6, settle_steps=120),
        views=ViewConfig(height=96, width=128, batch=2, min_visible_px=30, textures=8, packages=2),
        network=NetworkConfig(widths=(16, 24, 32, 40), depths=(1, 1, 1, 1), pyramid=24),
        train=TrainConfig(batch=2, views=4, instances=6, checkpoint_s=0.0, learning_rate=3e-3),
        export=ExportConfig(height=96, width=128),
    )


@pytest.fixture(scope="session")
def heaps(tiny_config):
    return join(make_heap_arrays(np.random.default_rng((1, k)), tiny_config.heaps) for k in range(4))
