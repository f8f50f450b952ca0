"""Where data lie that do not come with the repository: CPOR_DATA, or shared/data beside the checkout."""

import os
from pathlib import Path

DATA = Path(os.environ.get("CPOR_DATA") or Path(__file__).parents[3] / "shared" / "data")
