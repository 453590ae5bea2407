#!/usr/bin/env python3
"""Writes the figures of a result directory as references of ReFrame, with bounds.

    niclab_references.py --test OneHost --scope lab:slurm result >references.yaml

A test reads the file by `reference = {"$ref": "references.yaml"}`. It fails if the whole
interval of a figure is beyond the tolerance; a figure without an interval is judged by its median.
"""

import argparse
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from niclab_figures import Figure, ResultError, read_figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="the result directory")
    parser.add_argument("--test", required=True, help="name of the test's class")
    parser.add_argument("--scope", default="*", help="SYSTEM or SYSTEM:PARTITION; all by default")
    parser.add_argument("--figures", default="*", help="pattern of the figures' names")
    parser.add_argument("--tolerance", type=_share, default=0.05, help="such as 5%% (the default)")
    options = parser.parse_args()
    try:
        figures = read_figures(options.directory)
    except ResultError as error:
        print(f"niclab_references.py: {error}", file=sys.stderr)
        return 1
    chosen = [figure for figure in figures if fnmatchcase(figure.name, options.figures)]
    # A bound of zero is a share of zero.
    sound = [figure for figure in chosen if not figure.marks and figure.value != 0]
    if not sound:
        print("niclab_references.py: no figure is without a mark: measure again", file=sys.stderr)
        return 1
    print(f"{json.dumps(options.test)}:\n  {json.dumps(options.scope)}:")
    for figure in sound:
        for name, bounds in _bounds(figure, options.tolerance):
            print(f"    {json.dumps(name)}: {json.dumps([figure.value, *bounds, figure.unit])}")
    if left_out := len(chosen) - len(sound):
        print(f"# {left_out} figures are marked or zero, and have no reference")
    return 0


def _bounds(
    figure: Figure, tolerance: float
) -> list[tuple[str, tuple[float | None, float | None]]]:
    if figure.interval is None:
        return [(figure.name, (-tolerance, tolerance))]
    return [(f"{figure.name}/high", (-tolerance, None)), (f"{figure.name}/low", (None, tolerance))]


def _share(text: str) -> float:
    share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100 %")
    return share


if __name__ == "__main__":
    sys.exit(main())
