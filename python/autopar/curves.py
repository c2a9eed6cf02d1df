# SPDX-License-Identifier: Apache-2.0
"""Curves of training runs as one page: `python3 -m autopar.curves run.jsonl other.jsonl -o curves.html`.

Reads what `autopar-run --metrics FILE` writes, also while the run goes on. Exit codes: 0 written, 2 the request is wrong, 65 a file
holds no metrics, 66 a file cannot be read, 73 the page cannot be created.
"""

import argparse
import html
import json
import math
import os
import pathlib
import sys
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import Error

EXIT_USAGE, EXIT_BAD_INPUT, EXIT_NO_INPUT, EXIT_CANNOT_CREATE = 2, 65, 66, 73

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 250, 56, 12, 10, 26
MOST_POINTS = 400  # of a curve; more are joined
COLOURS = ("#4c7fd0", "#ef9a3d", "#4fae86", "#d9607a", "#9a77c7", "#8c6d4f", "#5bb8c9", "#7a8494")
NOT_DRAWN = ("step", "ms")

STYLE = """
:root { --ground: #f6f7f9; --card: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #dfe3e8; }
@media (prefers-color-scheme: dark) { :root { --ground: #12161c; --card: #1a2028; --ink: #e5e9ef; --soft: #9aa5b3; --line: #2d3641; } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 20px 56px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 6px; } p { margin: 0; color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 16px; margin-top: 16px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; overflow-x: auto; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); stroke-width: 1; } .curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .held { stroke-dasharray: 5 4; }
.legend span { display: inline-block; margin-right: 16px; } .legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; margin-top: 6px; }
th, td { text-align: right; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); white-space: nowrap; } th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; } tr:last-child td { border-bottom: none; }
"""


class Point(NamedTuple):
    """Neighbouring steps of a curve as one: where they lie, their mean, the least and the most of them."""

    step: float
    mean: float
    least: float
    most: float


class Run(NamedTuple):
    """The lines of a metrics file, one per step."""

    name: str
    lines: List[Dict[str, float]]

    def values(self, metric: str) -> List[Tuple[float, float]]:
        """(step, value) where a line has a finite one; steps are counted from 1."""
        return [(line["step"] + 1, line[metric]) for line in self.lines if math.isfinite(line.get(metric, math.nan))]


def read_metrics(path: Union[str, "os.PathLike[str]"]) -> Run:
    """The steps of a metrics file. A run that went on from an earlier checkpoint replaces what came behind it; a last line that is not
    whole yet is left out. Error: 66 no such file, 65 no metrics."""
    try:
        texts = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise Error(EXIT_NO_INPUT, f"cannot read {os.fspath(path)}: {error.strerror}") from None
    lines: List[Dict[str, float]] = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            if number == len(texts):
                continue
            raise Error(EXIT_BAD_INPUT, f"{os.fspath(path)}, line {number}: expected a line of autopar-run --metrics, such as "
                                        '{"step":0,"loss":3.2}')
        while lines and lines[-1]["step"] >= line["step"]:
            lines.pop()
        lines.append({name: value for name, value in line.items() if isinstance(value, (int, float)) and not isinstance(value, bool)})
    if not lines:
        raise Error(EXIT_BAD_INPUT, f"{os.fspath(path)} holds no step; autopar-run --metrics writes a line for each")
    return Run(pathlib.Path(path).stem, lines)


def thinned(values: Sequence[Tuple[float, float]], most: int = MOST_POINTS) -> List[Point]:
    """At most `most` points, each of as many neighbouring values."""
    points = []
    size = max(1, math.ceil(len(values) / most))
    for begin in range(0, len(values), size):
        part = values[begin:begin + size]
        numbers = [value for _, value in part]
        points.append(Point(sum(step for step, _ in part) / len(part), sum(numbers) / len(part), min(numbers), max(numbers)))
    return points


class Scale:
    """Numbers of an axis to places on the page."""

    def __init__(self, numbers: Iterable[float], first: float, last: float, is_log: bool = False) -> None:
        self.is_log, self.first, self.last = is_log, first, last
        given = [self._bent(number) for number in numbers]
        self.low, self.high = min(given), max(given)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def _bent(self, number: float) -> float:
        return math.log10(number) if self.is_log else number

    def place(self, number: float) -> float:
        """Beyond the ends it stays there."""
        share = (self._bent(number) - self.low) / (self.high - self.low)
        return self.first + min(1.0, max(0.0, share)) * (self.last - self.first)

    def ticks(self, about: int = 6) -> List[float]:
        """Round numbers on the axis: 1, 2 or 5 times a power of ten apart."""
        if self.is_log and self.high - self.low >= 1:
            return [10.0 ** power for power in range(math.ceil(self.low), math.floor(self.high) + 1)]
        low, high = (10 ** self.low, 10 ** self.high) if self.is_log else (self.low, self.high)
        raw = (high - low) / about
        unit = 10.0 ** math.floor(math.log10(raw))
        apart = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= raw)
        return [index * apart for index in range(math.ceil(low / apart), math.floor(high / apart) + 1)]


def draw_chart(metric: str, runs: Sequence[Run], is_log: bool = False) -> str:
    """One metric of all runs over their steps, that of held-out data dashed: an SVG element; "" where no run has it."""
    curves = [(number, name, thinned([(step, value) for step, value in run.values(name) if value > 0 or not is_log]))
              for number, run in enumerate(runs) for name in (metric, f"eval_{metric}")]
    curves = [(number, name, points) for number, name, points in curves if points]
    if not curves:
        return ""
    x = Scale((point.step for _, _, points in curves for point in points), LEFT, WIDTH - RIGHT)
    y = Scale((point.mean for _, _, points in curves for point in points), HEIGHT - BOTTOM, TOP, is_log)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(metric)}">']
    for tick in y.ticks():
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.place(tick):.1f}" y2="{y.place(tick):.1f}"/>'
                     f'<text x="{LEFT - 6}" y="{y.place(tick) + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in x.ticks(6):
        parts.append(f'<text x="{x.place(tick):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{tick:.10g}</text>')
    for number, name, points in curves:
        colour, is_held = COLOURS[number % len(COLOURS)], name != metric
        places = " ".join(f"{x.place(point.step):.1f},{y.place(point.mean):.1f}" for point in points)
        if any(point.least < point.most for point in points):
            edge = [(point.step, point.most) for point in points] + [(point.step, point.least) for point in reversed(points)]
            band = " ".join(f"{x.place(step):.1f},{y.place(value):.1f}" for step, value in edge)
            parts.append(f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>')
        parts.append(f'<polyline class="curve{" held" if is_held else ""}" points="{places}" stroke="{colour}"/>')
        for point in points if is_held or len(points) == 1 else points[-1:]:
            title = html.escape(f"{runs[number].name}: {name} {point.mean:.6g} at step {point.step:.10g}")
            parts.append(f'<circle cx="{x.place(point.step):.1f}" cy="{y.place(point.mean):.1f}" r="3" fill="{colour}"><title>{title}</title></circle>')
    return "".join(parts) + "</svg>"


def metrics_of(runs: Sequence[Run]) -> List[str]:
    """In the order in which the runs tell them; a metric of held-out data is drawn with its own."""
    names: Dict[str, None] = {}
    for run in runs:
        for line in run.lines:
            for name in line:
                names.setdefault(name[len("eval_"):] if name.startswith("eval_") else name)
    return [name for name in names if name not in NOT_DRAWN]


def write_table(runs: Sequence[Run]) -> str:
    """Last, least and most of each metric."""
    rows = ["<tr><th>Run</th><th>Metric</th><th>Last</th><th>Least</th><th>at step</th><th>Most</th><th>at step</th></tr>"]
    for run in runs:
        for metric in metrics_of(runs):
            for name in (metric, f"eval_{metric}"):
                values = run.values(name)
                if not values:
                    continue
                least, most = min(values, key=lambda pair: pair[1]), max(values, key=lambda pair: pair[1])
                cells = [html.escape(run.name), html.escape(name), f"{values[-1][1]:.5g}", f"{least[1]:.5g}", f"{least[0]}", f"{most[1]:.5g}", f"{most[0]}"]
                rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def write_page(runs: Sequence[Run], log: Sequence[str] = ()) -> str:
    """The whole page; metrics in `log` have a logarithmic axis."""
    legend = "".join(f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{html.escape(run.name)}, {run.lines[-1]["step"] + 1} steps</span>'
                     for number, run in enumerate(runs))
    charts = "".join(f"<section><h2>{html.escape(metric)}</h2>{chart}</section>"
                     for metric in metrics_of(runs) for chart in [draw_chart(metric, runs, metric in log)] if chart)
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>AutoPar training</title><style>{STYLE}</style></head><body><main><h1>Training</h1>"
            f'<p class="legend">{legend}</p><p>Over the steps; dashed: of held-out data; shaded: the range of steps that are drawn as one.</p>'
            f'<div class="charts">{charts}</div><section style="margin-top:16px"><h2>Numbers</h2>{write_table(runs)}</section></main></body></html>\n')


def save_page(page: str, path: Union[str, "os.PathLike[str]"]) -> None:
    """Whole or not at all. Error 73: it cannot be created."""
    partial = f"{os.fspath(path)}.partial"
    try:
        pathlib.Path(partial).write_text(page, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise Error(EXIT_CANNOT_CREATE, f"cannot create {os.fspath(path)}: {error.strerror}") from None


def main(words: Optional[Sequence[str]] = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python3 -m autopar.curves", description="Draws the metrics of training runs as one page.", allow_abbrev=False,
        epilog="examples:\n  python3 -m autopar.curves run.jsonl -o curves.html\n  python3 -m autopar.curves small.jsonl large.jsonl --log loss -o curves.html\n",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="metrics.jsonl", help="what autopar-run --metrics wrote")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the page")
    parser.add_argument("--log", action="append", default=[], metavar="METRIC", help="draw this metric on a logarithmic axis")
    given = parser.parse_args(words)
    try:
        runs = [read_metrics(path) for path in given.files]
        unknown = [name for name in given.log if name not in metrics_of(runs)]
        if unknown:
            raise Error(EXIT_USAGE, f"--log {unknown[0]}: the runs tell {', '.join(metrics_of(runs))}")
        save_page(write_page(runs, given.log), given.output)
    except Error as error:
        print(f"autopar.curves: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
