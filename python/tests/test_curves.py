# SPDX-License-Identifier: Apache-2.0
"""`python3 -m autopar.curves`: metrics files as one page, whole, torn, interrupted and wrong ones."""

import json
import math
import pathlib
import re
import xml.etree.ElementTree
from typing import Dict, List

import pytest

from autopar import curves


def write(path: pathlib.Path, steps: List[Dict[str, object]], tail: str = "") -> pathlib.Path:
    path.write_text("".join(json.dumps(step) + "\n" for step in steps) + tail)
    return path


@pytest.fixture(name="run")
def fixture_run(tmp_path: pathlib.Path) -> pathlib.Path:
    """100 steps, evaluated four times."""
    steps = []
    for step in range(100):
        line: Dict[str, object] = {"step": step, "loss": 4 / (1 + step), "accuracy": step / 100, "ms": 3.5, "samples_per_s": 100}
        if step % 25 == 24:
            line["eval_loss"] = 5 / (1 + step)
        steps.append(line)
    return write(tmp_path / "run <1>.jsonl", steps)


def test_every_metric_has_a_chart_and_its_numbers(run: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """Held-out data stands in the chart of its metric; the page is well-formed and needs nothing but itself."""
    assert curves.main([str(run), "-o", str(tmp_path / "c.html")]) == 0
    page = (tmp_path / "c.html").read_text()
    assert [re.sub("<.*?>", "", title) for title in re.findall("<h2>(.*?)</h2>", page)] == ["loss", "accuracy", "samples_per_s", "Numbers"]
    charts = [xml.etree.ElementTree.fromstring(chart) for chart in re.findall("<svg.*?</svg>", page)]
    assert [sum("held" in line.get("class", "") for line in chart.iter("polyline")) for chart in charts] == [1, 0, 0]
    assert len(charts[0].findall("circle")) == 1 + 4
    assert "run &lt;1&gt;, 100 steps" in page and "<td>eval_loss</td><td>0.05</td><td>0.05</td><td>100</td><td>0.2</td><td>25</td>" in page
    assert "http" not in page and not capsys.readouterr().err and not list(tmp_path.glob("*.partial"))


def test_curves_lie_where_their_values_are(run: pathlib.Path) -> None:
    chart = xml.etree.ElementTree.fromstring(curves.draw_chart("accuracy", [curves.read_metrics(run)]))
    (line,) = chart.iter("polyline")
    places = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert len(places) == 100
    assert places[0] == (curves.LEFT, curves.HEIGHT - curves.BOTTOM) and places[-1] == (curves.WIDTH - curves.RIGHT, curves.TOP)
    labels = {text.text: float(text.get("y")) - 4 for text in chart.iter("text") if text.get("text-anchor") == "end"}
    assert labels["0.4"] == pytest.approx(places[40][1], abs=0.11)


def test_a_run_that_went_back_to_a_checkpoint_has_each_step_once(tmp_path: pathlib.Path) -> None:
    steps = [{"step": step, "loss": 1.0} for step in range(10)] + [{"step": step, "loss": 2.0} for step in range(5, 8)]
    run = curves.read_metrics(write(tmp_path / "m.jsonl", steps, tail='{"step": 8, "lo'))
    assert run.values("loss") == [(step + 1, 1.0 if step < 5 else 2.0) for step in range(8)]


def test_many_steps_are_joined_and_keep_their_range() -> None:
    points = curves.thinned([(float(step), math.sin(step)) for step in range(10_001)], most=100)
    assert len(points) <= 100 and all(point.least <= point.mean <= point.most for point in points)
    assert min(point.least for point in points) == min(math.sin(step) for step in range(10_001))
    assert points[0].step == 50 and points[1].step - points[0].step == 101


@pytest.mark.parametrize("is_log", [False, True])
def test_axes_have_round_numbers(is_log: bool) -> None:
    for low, high in ((0.001, 1000.0), (1.0, 1.3), (3.0, 3.0), (250.0, 101_000.0)):
        ticks = curves.Scale([low, high], 0, 100, is_log).ticks()
        assert 1 <= len(ticks) <= 12 and ticks == sorted(ticks)
        for tick in ticks:
            assert f"{abs(tick):e}"[0] in "0123456789" and float(f"{tick:.2g}") == pytest.approx(tick)


def test_what_is_no_number_is_left_out(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"step":0,"loss":NaN}\n{"step":1,"loss":2.0}\n{"step":2,"loss":Infinity}\n{"step":3,"loss":-1.0}\n')
    run = curves.read_metrics(tmp_path / "m.jsonl")
    assert run.values("loss") == [(2, 2.0), (4, -1.0)]
    assert "<svg" in curves.draw_chart("loss", [run], is_log=True) and curves.draw_chart("accuracy", [run]) == ""


@pytest.mark.parametrize("text, words, code, says", [
    (None, [], 66, "cannot read"),
    ("", [], 65, "holds no step; autopar-run --metrics writes a line for each"),
    ('{"loss": 1}\n{"step": 1}\n', [], 65, "line 1: expected a line of autopar-run --metrics"),
    ('[1]\n{"step": 1}\n', [], 65, "line 1: expected a line of autopar-run --metrics"),
    ('{"step": 0, "loss": 1}\n', ["--log", "los"], 2, "--log los: the runs tell loss"),
    ('{"step": 0, "loss": 1}\n', ["-o", "/none/c.html"], 73, "cannot create /none/c.html: No such file or directory"),
])
def test_what_cannot_be_drawn_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture, text: str, words: List[str], code: int, says: str) -> None:
    if text is not None:
        (tmp_path / "m.jsonl").write_text(text)
    assert curves.main([str(tmp_path / "m.jsonl"), "-o", str(tmp_path / "c.html"), *words]) == code
    assert says in capsys.readouterr().err and not (tmp_path / "c.html").exists()
