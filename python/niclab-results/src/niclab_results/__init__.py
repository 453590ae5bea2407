"""Result directories of niclab as pandas data frames.

    import niclab_results

    results = niclab_results.load("results/2026-11-26-120000")
    results.samples     # one row a measurement
    results.findings    # what niclab says of them
    results.facts       # the run, the machine and the devices

Nothing is written, and no link is followed. A directory of a later version is refused.
"""

from niclab_results.errors import Damaged, Newer, NotResult, ResultError
from niclab_results.results import SCHEMA, Results, load

__all__ = ["SCHEMA", "Damaged", "Newer", "NotResult", "ResultError", "Results", "load"]
