"""The notebooks run from the first cell to the last."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat (extra dev)")
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient (extra dev)")
    pytest.importorskip("onnxruntime", reason="needs the extra perception")
    book = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "keep notebooks without outputs"
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", [])]
    assert any("data" in output for output in shown) and not any("ename" in output for output in shown)
