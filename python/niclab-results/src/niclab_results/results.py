"""`load`: a result directory as data frames."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from niclab_results.documents import SCHEMA, Reader, check_schema, parse_json, parse_toml
from niclab_results.errors import Damaged, NotResult
from niclab_results.folder import Folder

RUN, SAMPLES = "run.toml", "samples.jsonl"
ENVIRONMENT, SUMMARY = "environment.json", "summary.json"

#: Columns that `samples` has for every run; axes and metrics stand behind them.
FIXED = [
    "order",
    "time",
    "experiment",
    "device",
    "trial",
    "repeat",
    "outcome",
    "reason",
    "marks",
]
_FINDINGS = [
    "id",
    "experiment",
    "device",
    "sentence",
    "implication",
    "value",
    "low",
    "high",
    "unit",
    "figure",
]
_METRICS = ["order", "experiment", "device", "trial", "repeat", "metric", "value", "unit"]
_FACTS = ["of", "name", "value"]


@dataclass(frozen=True)
class Results:
    """What a run has measured."""

    #: The directory.
    path: Path
    #: Program and version that wrote it, such as `niclab 0.1.0`.
    program: str
    #: One row a measurement, as `niclab export --csv` has them: the columns of `FIXED`, one column
    #: an axis and one a metric. `time` is UTC, `marks` a tuple, `samples.attrs["units"]` is `units`.
    samples: pd.DataFrame
    #: The same in long form: one row a measurement and metric, with its unit.
    metrics: pd.DataFrame
    #: Unit of each metric.
    units: dict[str, str]
    #: Names of the axes, which are columns of `samples`.
    axes: list[str]
    #: One row a finding: sentence, value, 95 % interval (`low` to `high`) and unit.
    findings: pd.DataFrame
    #: Facts about the run, the machine and each device; `of` says whose.
    facts: pd.DataFrame
    #: Warnings about the data as a whole.
    warnings: list[str]
    #: What the directory has and the data frames have not, a sentence each.
    skipped: list[str] = field(default_factory=list)

    def measured(self, experiment: str, trial: str) -> pd.DataFrame:
        """The measured samples of a trial, without the columns that it has not."""
        of = self.samples
        rows = of[(of["experiment"] == experiment) & (of["trial"] == trial)]
        rows = rows[rows["outcome"] == "measured"]
        empty = [name for name in rows.columns if name not in FIXED and rows[name].isna().all()]
        return rows.drop(columns=empty)


def load(directory: str | os.PathLike[str]) -> Results:
    """Reads a result directory.

    Raises `NotResult` where it is none, `Newer` where a later version wrote it and `Damaged` where
    a document is not as niclab writes it. A torn last line, as a killed run leaves it, is skipped.
    """
    with Folder(directory) as folder:
        skipped: list[str] = []
        run = _run(folder)
        program = Reader(folder.path / RUN, run).text("program", "a later niclab")
        samples = list(_counting(_samples(folder, program, skipped), skipped))
        summary = _json(folder, SUMMARY, program)
        if summary is None:
            skipped.append(f"{SUMMARY} is missing: `niclab report DIR` writes it")
        environment = _json(folder, ENVIRONMENT, program)
        if environment is None:
            skipped.append(f"{ENVIRONMENT} is missing: there are no facts of the machine")
        metrics = _long(samples)
        units = _units(metrics, skipped)
        axes = sorted({axis for sample in samples for axis in sample["point"]})
        of_summary = Reader(folder.path / SUMMARY, summary or {})
        return Results(
            path=folder.path,
            program=program,
            samples=_wide(samples, axes, units),
            metrics=metrics,
            units=units,
            axes=axes,
            findings=_findings(of_summary, folder.path / SUMMARY),
            facts=_facts(folder.path, run, environment or {}),
            warnings=[str(warning) for warning in of_summary.listed("warnings")],
            skipped=skipped,
        )


def _run(folder: Folder) -> dict[str, Any]:
    text = folder.read(RUN)
    if text is None:
        advice = "give the directory that `niclab run` printed as its result"
        raise NotResult(f"{folder.path} has no {RUN}; {advice}")
    path = folder.path / RUN
    run = parse_toml(path, text)
    check_schema(path, run, str(run.get("program", "a later niclab")))
    return run


def _json(folder: Folder, name: str, program: str) -> dict[str, Any] | None:
    text = folder.read(name)
    if text is None:
        return None
    document = parse_json(folder.path / name, text)
    check_schema(folder.path / name, document, str(document.get("program", program)))
    return document


def _samples(folder: Folder, program: str, skipped: list[str]) -> Iterator[dict[str, Any]]:
    """Every whole sample, in the order of measurement."""
    path, found = folder.path / SAMPLES, False
    for number, line, is_whole in folder.lines(SAMPLES):
        found = True
        if not line.strip():
            continue
        try:
            document = parse_json(path, line, number)
        except Damaged:
            if is_whole:
                raise
            skipped.append(f"{SAMPLES}, line {number}: torn, as a killed run leaves it")
            return
        check_schema(path, document, program, number)
        yield _sample(Reader(path, document, number), document)
    if not found:
        skipped.append(f"{SAMPLES} is missing or empty: there are no samples")


def _sample(reader: Reader, document: dict[str, Any]) -> dict[str, Any]:
    point = {}
    for axis, at in reader.table("point").items():
        point[axis] = at if isinstance(at, str) else reader.number(axis, at)
    metrics = {name: reader.quantity(name, of) for name, of in reader.table("metrics").items()}
    return {
        "order": reader.whole("order"),
        "time": reader.whole("time_unix_ns"),
        "experiment": reader.text("experiment"),
        "device": reader.text("device"),
        "trial": reader.text("trial"),
        "repeat": reader.whole("repeat"),
        "outcome": reader.text("outcome"),
        "reason": reader.text("reason", reader.text("capability", "")),
        "marks": tuple(str(mark) for mark in reader.listed("marks")),
        "dropped": document.get("dropped") is True,
        "point": point,
        "metrics": metrics,
    }


def _counting(samples: Iterator[dict[str, Any]], skipped: list[str]) -> list[dict[str, Any]]:
    """Of two samples of one measurement the later one, unless its device had gone away."""
    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    replaced = 0
    for sample in samples:
        point = tuple(sorted(sample["point"].items()))
        key = (*(sample[name] for name in ("experiment", "device", "trial", "repeat")), point)
        before = latest.get(key)
        replaced += before is not None
        if before is None or not sample["dropped"] or before["dropped"]:
            latest[key] = sample
    if replaced:
        count = "1 sample was" if replaced == 1 else f"{replaced} samples were"
        skipped.append(f"{count} measured again: the later measurement counts")
    return sorted(latest.values(), key=lambda sample: sample["order"])


def _wide(samples: list[dict[str, Any]], axes: list[str], units: dict[str, str]) -> pd.DataFrame:
    """One row a sample. An axis or a metric that has the name of another column gets a suffix."""
    axis_columns = _columns(axes, FIXED, "_axis")
    metric_columns = _columns(sorted(units), [*FIXED, *axis_columns.values()], "_metric")
    rows = []
    for sample in samples:
        row = {name: sample[name] for name in FIXED}
        row |= {axis_columns[axis]: at for axis, at in sample["point"].items()}
        row |= {metric_columns[name]: value for name, (value, _) in sample["metrics"].items()}
        rows.append(row)
    columns = [*FIXED, *axis_columns.values(), *metric_columns.values()]
    frame = pd.DataFrame(rows, columns=columns)
    frame["time"] = pd.to_datetime(frame["time"], unit="ns", utc=True)
    frame.attrs["units"] = {metric_columns[name]: unit for name, unit in units.items()}
    return frame


def _columns(names: list[str], taken: list[str], suffix: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name in names:
        column = name
        while column in taken or column in columns.values():
            column += suffix
        columns[name] = column
    return columns


def _long(samples: list[dict[str, Any]]) -> pd.DataFrame:
    fixed = _METRICS[:5]
    rows = [
        [*(sample[name] for name in fixed), metric, value, unit]
        for sample in samples
        for metric, (value, unit) in sample["metrics"].items()
    ]
    return pd.DataFrame(rows, columns=_METRICS)


def _units(metrics: pd.DataFrame, skipped: list[str]) -> dict[str, str]:
    """The unit of each metric: where it has several, the first, and a sentence about it."""
    units: dict[str, str] = {}
    for name, found in metrics.groupby("metric", sort=True)["unit"].unique().items():
        units[str(name)] = str(found[0])
        if len(found) > 1:
            skipped.append(f"{name} has several units ({', '.join(found)}): see `metrics`")
    return units


def _findings(summary: Reader, path: Path) -> pd.DataFrame:
    rows = []
    for document in summary.listed("findings"):
        if not isinstance(document, dict):
            raise summary.wrong("a finding is no object")
        reader = Reader(path, document)
        value, unit = reader.quantity("value", document.get("value"))
        low, high = _interval(reader, document.get("interval"))
        texts = {name: reader.text(name, "") for name in _FINDINGS[:5]}
        numbers = {"value": value, "low": low, "high": high, "unit": unit}
        rows.append({**texts, **numbers, "figure": document.get("figure")})
    numbers = {"value": float, "low": float, "high": float}
    return pd.DataFrame(rows, columns=_FINDINGS).astype(numbers)


def _interval(reader: Reader, interval: Any) -> tuple[float | None, float | None]:
    if interval is None:
        return None, None
    if not isinstance(interval, list) or len(interval) != 2:
        raise reader.wrong("`interval` has not two ends")
    low, high = (reader.number("interval", end) for end in interval)
    return low, high


def _facts(path: Path, run: dict[str, Any], environment: dict[str, Any]) -> pd.DataFrame:
    """Facts of the run, of each device and of the machine; what is not as expected is left out."""
    rows: list[tuple[str, str, Any]] = []
    simple = (str, int, float)
    rows += [("run", name, value) for name, value in run.items() if isinstance(value, simple)]
    for device in Reader(path / RUN, run).listed("devices"):
        about = device.get("about", {}) if isinstance(device, dict) else {}
        if not isinstance(about, dict):
            continue
        of = str(device.get("name"))
        facts = [fact for fact in about.get("facts", []) if isinstance(fact, dict)]
        rows += [(of, str(fact.get("name")), fact.get("value")) for fact in facts]
        rows += [(of, "not supported", what) for what in about.get("not_supported", [])]
    machine = Reader(path / ENVIRONMENT, environment)
    pairs = [fact for fact in machine.listed("facts") if isinstance(fact, list) and len(fact) == 2]
    rows += [("machine", str(name), value) for name, value in pairs]
    rows += [("machine", "noise", str(noise)) for noise in machine.listed("noise")]
    return pd.DataFrame(rows, columns=_FACTS)
