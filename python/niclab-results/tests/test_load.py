"""`load` on a directory of the repository, on spoiled ones, and on one that niclab makes."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import niclab_results
from niclab_results import Damaged, Newer, NotResult, ResultError
from niclab_results.results import FIXED

DATA = Path(__file__).parent / "data" / "two-cards"
CARDS = ["model:connectx-5", "model:connectx-6"]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the directory that a test may spoil."""
    return Path(shutil.copytree(DATA, tmp_path / "run"))


def lines(directory: Path) -> list[str]:
    return (directory / "samples.jsonl").read_text().splitlines()


def write(directory: Path, lines: list[str], end: str = "\n") -> None:
    (directory / "samples.jsonl").write_text("\n".join(lines) + end)


def test_samples_have_axes_metrics_and_units():
    results = niclab_results.load(DATA)
    samples = results.samples
    assert len(samples) == len(lines(DATA))
    assert list(samples.columns[: len(FIXED)]) == FIXED
    assert results.axes == ["cores", "flows", "frame", "queues"]
    assert sorted(samples["device"].unique()) == CARDS
    assert str(samples["time"].dt.tz) == "UTC" and samples["time"].is_monotonic_increasing
    assert results.units["throughput_pps"] == "pps"
    assert samples.attrs["units"] == results.units
    first = json.loads(lines(DATA)[0])
    assert samples.loc[0, "frame"] == first["point"]["frame"]
    for name, quantity in first["metrics"].items():
        assert samples.loc[0, name] == quantity["value"], name
    assert samples.loc[0, "marks"] == tuple(first["marks"])
    assert results.skipped == []


def test_the_long_form_has_the_same_numbers():
    results = niclab_results.load(DATA)
    of = results.metrics
    long = of[of["metric"] == "throughput_pps"].set_index("order")["value"]
    wide = results.samples.set_index("order")["throughput_pps"].dropna()
    pd.testing.assert_series_equal(long, wide, check_names=False)
    assert set(results.metrics["unit"]) >= {"pps", "ns", "frames"}


def test_one_trial_has_no_empty_columns():
    results = niclab_results.load(DATA)
    saturated = results.measured("frame-size", "saturate")
    assert (saturated["outcome"] == "measured").all()
    assert "frame" in saturated and not saturated.drop(columns=["reason"]).isna().all().any()
    longest = saturated[saturated["frame"] == saturated["frame"].max()]
    shortest = saturated[saturated["frame"] == saturated["frame"].min()]
    assert shortest["throughput_pps"].max() > longest["throughput_pps"].max()


def test_findings_and_facts_are_those_of_the_documents():
    results = niclab_results.load(DATA)
    summary = json.loads((DATA / "summary.json").read_text())
    assert len(results.findings) == len(summary["findings"]) > 0
    for (_, row), finding in zip(results.findings.iterrows(), summary["findings"], strict=True):
        assert row["sentence"] == finding["sentence"]
        assert (row["value"], row["unit"]) == tuple(finding["value"].values())
        low, high = finding["interval"] or (None, None)
        assert pd.isna(row["low"]) if low is None else row["low"] == low
        assert pd.isna(row["high"]) if high is None else row["high"] == high
    assert results.warnings == summary["warnings"]
    facts = results.facts
    assert results.program.startswith("niclab ")
    program = facts[(facts["of"] == "run") & (facts["name"] == "program")]
    assert program["value"].item() == results.program
    assert {"run", "machine", *CARDS} == set(facts["of"])
    kernel = facts[(facts["of"] == "machine") & (facts["name"] == "kernel")]
    assert kernel["value"].item().startswith("Linux ")


def test_a_comparison_with_an_earlier_run_changes_nothing_of_the_run(copied: Path):
    before = niclab_results.load(copied)
    summary = json.loads((copied / "summary.json").read_text())
    series = summary["experiments"][0]["figures"][0]["series"]
    series.append({**series[0], "name": "before", "origin": "baseline"})
    summary["baseline"] = {"schema": 1, "directory": "before", "sentences": ["All the same."]}
    (copied / "summary.json").write_text(json.dumps(summary))
    results = niclab_results.load(copied)
    pd.testing.assert_frame_equal(results.findings, before.findings)
    pd.testing.assert_frame_equal(results.metrics, before.metrics)
    assert (results.warnings, results.skipped) == (before.warnings, [])


def test_nothing_is_written(copied: Path):
    before = {path: path.stat().st_mtime_ns for path in [copied, *copied.iterdir()]}
    niclab_results.load(copied)
    assert {path: path.stat().st_mtime_ns for path in [copied, *copied.iterdir()]} == before


def test_a_torn_last_line_is_skipped_and_a_whole_one_counts(copied: Path):
    all_lines = lines(copied)
    write(copied, all_lines, end="")
    assert len(niclab_results.load(copied).samples) == len(all_lines)
    write(copied, [*all_lines[:-1], all_lines[-1][:40]], end="")
    results = niclab_results.load(copied)
    assert len(results.samples) == len(all_lines) - 1
    torn = f"samples.jsonl, line {len(all_lines)}: torn, as a killed run leaves it"
    assert results.skipped == [torn]


def test_other_damage_is_an_error_with_its_line(copied: Path):
    all_lines = lines(copied)
    sample = json.loads(all_lines[1])
    wrong = {
        "no JSON": all_lines[1][:40],
        "not an object": "[]",
        "is no number": all_lines[1].replace('"value":', '"value":1e999,"was":', 1),
        "NaN": all_lines[1].replace('"value":', '"value":NaN,"was":', 1),
        "says no schema": json.dumps({**sample, "schema": None}),
        "`device`": json.dumps({**sample, "device": 1}),
        "`order`": json.dumps({**sample, "order": 2**63}),
        "`repeat`": json.dumps({**sample, "repeat": True}),
        "`frame`": json.dumps({**sample, "point": {"frame": [64]}}),
        "`x`": json.dumps({**sample, "metrics": {"x": 1.0}}),
        "recursion": "[" * 100_000,
    }
    for reason, line in wrong.items():
        write(copied, [all_lines[0], line, *all_lines[2:]])
        with pytest.raises(Damaged, match="samples.jsonl:2: ") as raised:
            niclab_results.load(copied)
        assert reason in str(raised.value)
        assert (raised.value.line, raised.value.path) == (2, copied / "samples.jsonl")


@pytest.mark.parametrize("name", ["run.toml", "samples.jsonl", "summary.json", "environment.json"])
def test_a_later_version_is_refused_with_the_program_that_wrote_it(copied: Path, name: str):
    run = copied / "run.toml"
    run.write_text(run.read_text().replace("niclab 0.1.0", "niclab 9.0.0"))
    path = copied / name
    text = path.read_text()
    for written in ["schema = 1", '"schema":1', '"schema": 1']:
        text = text.replace(written, written.replace("1", "7"), 1)
    path.write_text(text.replace("niclab 0.1.0", "niclab 9.0.0"))
    said = "schema 7, this reader reads up to 1: .* niclab 9.0.0"
    with pytest.raises(Newer, match=said) as raised:
        niclab_results.load(copied)
    assert raised.value.path == path


def test_no_link_and_no_pipe_is_followed(copied: Path, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    for name in ["run.toml", "samples.jsonl", "summary.json", "environment.json"]:
        path = copied / name
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        with pytest.raises(Damaged, match=f"{name}: a symbolic link, not a file"):
            niclab_results.load(copied)
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(Damaged, match=f"{name}: a pipe, not a file"):
            niclab_results.load(copied)
        path.unlink()
        path.mkdir()
        with pytest.raises(Damaged, match=f"{name}: a directory, not a file"):
            niclab_results.load(copied)
        path.rmdir()
        elsewhere.rename(path)
    niclab_results.load(copied)
    # The directory itself is what the user has named.
    link = tmp_path / "link"
    link.symlink_to(copied)
    assert len(niclab_results.load(link).samples) == len(lines(DATA))


def test_no_more_is_read_than_niclab_writes(copied: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("niclab_results.folder.LINE_LEN_MAX", 10)
    with pytest.raises(Damaged, match="samples.jsonl:1: longer than 10 bytes"):
        niclab_results.load(copied)
    monkeypatch.undo()
    for name in ["run.toml", "environment.json", "samples.jsonl", "summary.json"]:
        monkeypatch.setitem(niclab_results.folder.LEN_MAX, name, 10)
        with pytest.raises(Damaged, match=f"{name}: longer than 10 bytes"):
            niclab_results.load(copied)
        monkeypatch.undo()


def test_what_is_no_result_is_refused(tmp_path: Path):
    with pytest.raises(NotResult, match="nowhere"):
        niclab_results.load(tmp_path / "nowhere")
    with pytest.raises(NotResult, match="has no run.toml; give the directory"):
        niclab_results.load(tmp_path)
    (tmp_path / "run.toml").write_text("schema =")
    with pytest.raises(ResultError, match="run.toml: no TOML"):
        niclab_results.load(tmp_path)


def test_what_is_missing_is_said(copied: Path):
    for name in ["samples.jsonl", "summary.json", "environment.json"]:
        (copied / name).unlink()
    results = niclab_results.load(copied)
    assert [sentence.split()[0] for sentence in results.skipped] == [
        "samples.jsonl",
        "summary.json",
        "environment.json",
    ]
    assert results.samples.empty and results.metrics.empty and results.findings.empty
    assert list(results.samples.columns) == FIXED
    assert set(results.facts["of"]) == {"run", *CARDS}


def test_of_two_samples_of_one_measurement_the_later_one_counts(copied: Path):
    all_lines = lines(copied)
    first = json.loads(all_lines[0])
    again = {**first, "metrics": {"throughput_pps": {"value": 5.0, "unit": "pps"}}}
    gone = {**first, "outcome": "failed", "reason": "down", "dropped": True, "metrics": {}}
    write(copied, [*all_lines, json.dumps(again), json.dumps(gone)])
    results = niclab_results.load(copied)
    assert len(results.samples) == len(all_lines)
    assert results.samples.loc[0, "throughput_pps"] == 5.0
    assert results.skipped == ["2 samples were measured again: the later measurement counts"]


def test_outcomes_have_their_reason_and_odd_names_their_own_columns(copied: Path):
    sample = json.loads(lines(copied)[0])
    lacking = {**sample, "outcome": "not_supported", "capability": "rules", "metrics": {}}
    odd = {
        **sample,
        "repeat": 1,
        "point": {"device": "a", "frame": "imix"},
        "metrics": {"frame": {"value": 1, "unit": "B"}, "trial": {"value": 2, "unit": "1"}},
    }
    other = {**odd, "repeat": 2, "metrics": {"frame": {"value": 1, "unit": "bits"}}}
    write(copied, [json.dumps(one) for one in (lacking, odd, other)])
    results = niclab_results.load(copied)
    samples = results.samples
    assert samples["reason"].tolist() == ["rules", "", ""]
    assert samples["device_axis"].tolist()[1:] == ["a", "a"]
    assert samples.loc[1, "frame"] == "imix" and samples.loc[1, "frame_metric"] == 1
    assert samples.loc[1, "trial_metric"] == 2
    assert results.skipped == ["frame has several units (B, bits): see `metrics`"]


def test_the_results_of_the_book_are_read():
    book = Path(__file__).parents[3] / "docs" / "results" / "2026-11-21-epyc-zen3-three-devices"
    if not book.is_dir():
        pytest.skip("outside of the repository")
    results = niclab_results.load(book)
    assert "soft" in set(results.facts["of"])
    assert results.findings["sentence"].str.startswith("soft forwards at least").any()
    sure = results.findings.dropna(subset=["low", "high"])
    assert len(sure) > 0 and (sure["low"] <= sure["high"]).all()
    assert sure["value"].between(sure["low"], sure["high"]).all()
    assert results.skipped == ["samples.jsonl is missing or empty: there are no samples"]


def test_a_run_that_niclab_makes_is_read_as_its_export_has_it(tmp_path: Path):
    niclab = os.environ.get("NICLAB")
    if niclab is None:
        pytest.skip("NICLAB does not name the niclab to run")
    run = [niclab, "run", "occupancy", "--device", "soft", "--set", "rules=0,16", "--repeats", "2"]
    run += ["--set", "duration_ms=5", "--set", "warmup_ms=1", "--output", str(tmp_path / "run")]
    subprocess.run(run, check=True, capture_output=True, timeout=60)
    results = niclab_results.load(tmp_path / "run")
    export = subprocess.run(
        [niclab, "export", str(tmp_path / "run"), "--csv"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (tmp_path / "run.csv").write_text(export.stdout)
    exported = pd.read_csv(tmp_path / "run.csv")
    assert len(results.samples) == len(exported) > 0
    compared = 0
    for name in [*results.axes, *results.units]:
        ours, theirs = results.samples[name], exported[name]
        if pd.api.types.is_numeric_dtype(ours):
            pd.testing.assert_series_equal(ours.astype(float), theirs.astype(float), rtol=0, atol=0)
            compared += 1
    assert compared > len(results.axes)
    assert set(exported.columns) == {*results.samples.columns} - {"time"} | {"time_unix_ns"}
