"""python examples/tour [CHAPTER ...]"""

from __future__ import annotations

import sys
from pathlib import Path

sys.dont_write_bytecode = True
# Started by its folder's name it knows nothing of the folder around it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tour.run import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
