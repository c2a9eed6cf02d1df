# SPDX-License-Identifier: Apache-2.0
"""How long a step takes of models at full size."""

import json

from .check import CASE_S, Check, Row
from .machine import first_lines, lacking


def speed(check: Check, timing: dict) -> None:
    warmup, steps = timing.get("steps", (5, 20))
    words = [check.program("autopar-run"), timing["artifact"], *timing["arguments"], "--quiet", "--benchmark", "--warmup", str(warmup), "--steps", str(steps)]
    done, refused = check.start(words, check.folder, CASE_S), ""
    if done.returncode and not lacking(done.stderr):
        refused = f"captured it fails: {first_lines(done.stderr)}; "
        done = check.start([*words, "--no-capture"], check.folder, CASE_S)
    if done.returncode:
        return check.fail("speed", timing["name"], done.stderr, refused + first_lines(done.stderr))
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    times = sorted(answer["step_ms"])
    median = check.measured.step_ms[timing["name"]] = times[len(times) // 2]
    captured = "a captured step" if answer.get("captured") else f"not captured: {answer.get('why_uncaptured', 'no reason given')}"
    check.add(Row("speed", timing["name"], "FAILED" if refused else "ok",
                  f"{refused}{median:.2f} ms a step, {timing['tokens'] / median * 1e3:,.0f} tokens/s, {captured}"))


def run(check: Check) -> None:
    for timing in check.cases["speed"]:
        check.run("speed", timing["name"], speed, timing)
