"""Runs the notebooks of this folder; a cell that fails ends it. Nothing is written.

    python python/examples/run.py [NOTEBOOK...]
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

#: Seconds that a cell may take.
CELL_TIMEOUT_S = 60


def main() -> int:
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as sockets:
        paths = [Path(name) for name in sys.argv[1:]] or sorted(here.glob("*.ipynb"))
        return 0 if all([runs(path, sockets) for path in paths]) else 1


def runs(path: Path, sockets: str) -> bool:
    """Runs a notebook in its folder; whether every cell did."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        resources={"metadata": {"path": str(path.parent)}},
        # By sockets in a folder of ours: no port that others of this machine could reach.
        config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return False
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"{path}: {count} cells ran")
    return True


if __name__ == "__main__":
    sys.exit(main())
