"""The figures of a result directory: medians with their intervals, and why others do not count.

It reads summary.json and samples.jsonl, and needs nothing but Python.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Version of the documents that are read here.
SCHEMA = 1
#: The mark of a median that is sound, but has too few repeats for an interval.
FEW_SAMPLES = "few-samples"


class ResultError(Exception):
    """Why a directory gives no figures."""


@dataclass(frozen=True)
class Figure:
    """A point of a plot that this run has measured."""

    #: Plot, curve and place on the horizontal axis, such as `frame-size-pps/64`.
    name: str
    #: The median of its repeats.
    value: float
    #: Ends of its 95 % interval; `None` for both without one.
    interval: tuple[float, float] | None
    unit: str
    #: Marks that forbid a verdict about the device.
    marks: tuple[str, ...]

    def values(self) -> dict[str, float]:
        """The median by its name, and the ends of the interval by `NAME/low` and `NAME/high`."""
        if self.interval is None:
            return {self.name: self.value}
        low, high = self.interval
        return {self.name: self.value, f"{self.name}/low": low, f"{self.name}/high": high}


def read_figures(directory: Path) -> list[Figure]:
    """Every figure of a complete run, in the order of its report.

    Raises `ResultError` if there is no result, if the run was cut short, if a trial failed, or if
    nothing was measured.
    """
    summary = _read_summary(directory / "summary.json")
    try:
        _check_trials(directory / "samples.jsonl", summary)
        figures = list(_figures(summary))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ResultError(f"{directory}: not as niclab writes it: {error!r}") from None
    if not figures:
        hint = "no plot has a point; give an axis two values, such as --set frame=64,128"
        raise ResultError(f"{directory}: {hint}{_reasons(summary)}")
    names = [figure.name for figure in figures]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ResultError(f"{directory}: two figures have the name {twice[0]}")
    return figures


def _read_summary(path: Path) -> dict[str, Any]:
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}; niclab wrote no result") from None
    except ValueError as error:
        raise ResultError(f"{path}: no JSON: {error}") from None
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if not isinstance(schema, int):
        raise ResultError(f"{path}: it says no schema")
    if schema > SCHEMA:
        program = summary.get("program", "a later niclab")
        raise ResultError(f"{path} has schema {schema}: use contrib/reframe of {program}")
    if summary.get("partial"):
        raise ResultError(f"{path}: the run was cut short")
    return summary


def _check_trials(path: Path, summary: dict[str, Any]) -> None:
    """A trial that failed is an error. One that a device does not support is a result."""
    try:
        samples = [json.loads(line) for line in path.read_text().splitlines()]
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    outcomes = [sample["outcome"] for sample in samples]
    if failed := [sample for sample in samples if sample["outcome"] == "failed"]:
        count = f"{len(failed)} of {len(samples)} trials failed"
        raise ResultError(f"{count}; the first: {failed[0]['device']}: {failed[0]['reason']}")
    if not {"measured", "refused"} & set(outcomes):
        raise ResultError(f"{path.parent}: nothing was measured{_reasons(summary)}")


def _reasons(summary: dict[str, Any]) -> str:
    return "".join(f"; {warning}" for warning in summary.get("warnings", []))


def _figures(summary: dict[str, Any]) -> list[Figure]:
    plots = [plot for experiment in summary["experiments"] for plot in experiment["figures"]]
    # A distribution is no figure: its median and its tail have plots of their own.
    curves = [
        (plot, curve)
        for plot in plots
        for curve in plot["series"]
        if curve["origin"] == "measured" and curve["shape"] != "cdf"
    ]
    devices = {curve["device"] for _, curve in curves}
    return [
        _figure(plot, curve, point, devices) for plot, curve in curves for point in curve["points"]
    ]


def _figure(plot: dict[str, Any], curve: dict[str, Any], point: Any, devices: set[str]) -> Figure:
    place = point.get("x_word") or f"{point['x']:.10g}"
    texts = [plot["id"], curve["name"], place]
    # The device of a run that has one alone is left out: it may name the host.
    if len(devices) == 1:
        texts = [text.replace(curve["device"], "") for text in texts]
    low, high, marks = point["low"], point["high"], set(point["marks"])
    has_interval = low is not None and high is not None and FEW_SAMPLES not in marks
    return Figure(
        name="/".join(word for word in map(_word, texts) if word),
        value=_rounded(point["y"]),
        interval=(_rounded(low), _rounded(high)) if has_interval else None,
        unit=plot["y"]["unit"] or "1",
        marks=tuple(sorted(marks - {FEW_SAMPLES})),
    )


def _word(text: str) -> str:
    """Without what has a meaning in ReFrame's names and logs, such as `:`, `|` and spaces."""
    return re.sub(r"[^A-Za-z0-9.%+-]+", "-", text).strip("-")


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
