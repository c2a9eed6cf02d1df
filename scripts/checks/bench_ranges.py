# SPDX-License-Identifier: Apache-2.0
"""Programs that take ranges of batches, lengths and sizes, given the most of each, against programs for just that.

Both sides: float32, the same cores and number of threads, separate processes, alternating runs, median.
"""

import os
import pathlib
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import autopar
from autopar import models

from . import measuring, package_models
from .bench_inference import RUNS, prepare_autopar
from .model import Model


class Subject(NamedTuple):
    """A model and its ranges: by extent, (least, most, step)."""

    model: Model
    ranges: Dict[str, Tuple[int, int, int]]

    def at_most(self) -> Model:
        """The model where all extents are the most."""
        return self.model._replace(bind={**self.model.bind, **{name: most for name, (_, most, _) in self.ranges.items()}})


#: Of package_models: the ranges of batch, height and width, by their place among the extents that are bound.
PACKAGED = {"ocr-det": {-2: (64, 640, 32), -1: (64, 640, 32)}, "ocr-v6-det": {-2: (64, 640, 32), -1: (64, 640, 32)}, "ocr-rec": {0: (1, 4, 1), -1: (32, 320, 8)}}


def subjects(folder: pathlib.Path) -> Iterator[Subject]:
    """Text and images."""
    text = {"batch": (1, 8, 1), "seq": (1, 128, 1)}
    for name in ("bert-base", "gpt2-124m"):
        path = folder / f"{name}.onnx"
        models.save(name, path, layers=4)
        yield Subject(Model(f"{name}, 4 layers, 8x128", path, {}), text)
    for model in package_models.packages(folder, only=list(PACKAGED)):
        names = list(model.bind)
        yield Subject(model, {names[place]: each for place, each in PACKAGED[model.path.stem].items()})


def cases() -> Iterator[Dict[str, Any]]:
    """One case per model."""
    cores: List[int] = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = pathlib.Path(name)
        for subject in subjects(folder):
            most = subject.at_most()
            sides = {}
            for side, bind in (("ranges", {**most.bind, **subject.ranges}), ("alone", most.bind)):
                artifact = folder / f"{most.path.stem}-{side}.bin"
                autopar.compile(most.path, artifact, bind=bind, ranks=1, threads=len(cores))
                sides[side] = measuring.Side(prepare_autopar, (str(artifact), most, len(cores)), cores)
            times = measuring.alternate(sides, RUNS)
            for each in sides.values():
                each.close()
            yield measuring.case(most.name, measuring.median(times["ranges"]), "ms", measuring.median(times["alone"]), threads=len(cores), raw=times)
