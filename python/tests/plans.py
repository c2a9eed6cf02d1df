# SPDX-License-Identifier: Apache-2.0
"""Plans written by hand for a training step: everything of a given extent is split over a mesh axis, as data, tensor,
sequence and expert parallelism do; and optimizer state split by its first dimension. What no rule of these reaches stays
whole: the compiler moves data between the two."""

import dataclasses
import json
import pathlib
import re
from typing import Dict, List, Tuple

#: Operations whose factors are the dimensions of their result, and those where contracted or reduced ones follow.
BY_RESULT = {"unary", "binary", "compare", "select", "cast", "constant", "iota", "broadcast", "transpose", "softmax",
             "normalize", "cumulative"}
#: Along these dimensions an operation has to be whole.
WHOLE = re.compile(r"(?:dim|dims) \[?([\d, ]+)\]?")

Shape = Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Mesh axes with their sizes; extent -> axis; the axis of optimizer state, if any."""

    axes: Dict[str, int]
    extents: Dict[int, str]
    state: str = ""


def shapes(text: str) -> List[Shape]:
    """All tensor types in a text."""
    return [tuple(int(extent) for extent in found.split("x")[:-1]) for found in re.findall(r"tensor<([^>]*)>", text)]


def split(layout: Layout, extents: Shape) -> List[List[str]]:
    """Axes per extent; each axis once."""
    taken: set = set()
    lists = []
    for extent in extents:
        axis = layout.extents.get(extent)
        lists.append([axis] if axis and axis not in taken else [])
        taken.update(lists[-1])
    return lists


def split_state(layout: Layout, shape: Shape) -> List[List[str]]:
    """The first dimension that the axis of the state divides."""
    lists: List[List[str]] = [[] for _ in shape]
    for place, extent in enumerate(shape):
        if extent % layout.axes[layout.state] == 0:
            lists[place] = [layout.state]
            break
    return lists


def factors(layout: Layout, kind: str, line: str) -> List[List[str]]:
    """The axes of an operation's factors; nothing for those that stay whole."""
    types = shapes(line)
    result = types[-1]
    if kind in BY_RESULT:
        lists = split(layout, result)
        if kind == "broadcast":  # repeated dimensions of the input are factors of their own
            places = [int(place) for place in re.findall(r"\d+", re.search(r"dims \[([\d, ]*)\]", line)[1])]  # type: ignore[index]
            lists += [[] for extent, place in zip(types[0], places) if extent != result[place]]
        if kind in ("softmax", "normalize", "cumulative"):
            for place in map(int, re.search(WHOLE, line)[1].split(",")):  # type: ignore[index]
                lists[place] = []
        return lists
    if kind == "dot_general":
        contracted = re.search(r"contract \[([\d, ]+)\]", line)[1]  # type: ignore[index]
    elif kind == "reduce":
        contracted = re.search(r"dims \[([\d, ]+)\]", line)[1]  # type: ignore[index]
    else:
        return []
    return split(layout, (*result, *(types[0][int(place)] for place in contracted.split(","))))


def write(module: pathlib.Path, layout: Layout, path: pathlib.Path) -> None:
    """Writes the plan of a layout for the training step in `module` (autopar-compile --stop-after=train)."""
    text = module.read_text()
    head = text[text.index("func.func @main"):]
    head = head[:head.index("\n")]
    ops: Dict[str, List[List[str]]] = {}
    for line in text[text.index("func.func @main"):].splitlines()[1:]:
        found = re.search(r'= autopar\.(\w+).*?autopar\.id = "([^"]*)"', line)
        if not found:
            continue
        kind, name = found[1], found[2]
        of_state = layout.state and re.search(r"/(norm|clip|update)(/|\.|$)", name)
        if of_state and kind == "reduce":  # the norm, over all dimensions
            ops[name] = split_state(layout, shapes(line)[0])
        elif of_state and kind in BY_RESULT and shapes(line)[-1]:
            ops[name] = split_state(layout, shapes(line)[-1])
        elif lists := factors(layout, kind, line):
            ops[name] = lists
    shard = {}
    arguments, results = head.split(") -> (")
    for prefix, half in (("", arguments), ("output:", results)):
        for kind, attributes in re.findall(r"(tensor<[^>]*>) \{([^}]*)\}", half):
            name, shape = re.search(r'autopar\.name = "([^"]*)"', attributes)[1], shapes(kind)[0]  # type: ignore[index]
            is_state = layout.state and re.search(r"/(mean|square)s?$", name)
            shard[prefix + name] = split_state(layout, shape) if is_state else split(layout, shape)
    ranks = 1
    for size in layout.axes.values():
        ranks *= size
    axes = [{"name": name, "size": size} for name, size in layout.axes.items()]
    plan = {"kind": "autopar.plan", "version": 1, "cluster": f"cpux{ranks}", "devices": ranks,
            "meshes": {"mesh": {"axes": axes, "devices": list(range(ranks))}},
            "stages": [{"name": "s0", "mesh": "mesh", "ops": []}], "time": {"micro_batches": 1}, "schedule": "none",
            "recompute": [], "ops": ops, "shard": shard}
    path.write_text(json.dumps(plan))
