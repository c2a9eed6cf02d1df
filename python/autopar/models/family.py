# SPDX-License-Identifier: Apache-2.0
"""What a model family is: its options, its published sizes and the function that emits its graph.

A family file ends with one `FAMILY = Family(...)`; `catalogue.py` lists them. Nothing else has to be registered:
the command line derives its options from the fields of the family's configuration.
"""

import dataclasses
from typing import Any, Callable, Dict, Type


class ModelError(ValueError):
    """A request that cannot be built: unknown model, unknown option, or a value that does not fit.

    The message names the thing, what was expected and what to do.
    """


def option(default: Any, help_text: str, choices=None) -> Any:
    """A configuration field with the help text the command line shows (and its allowed values, if few)."""
    return dataclasses.field(default=default, metadata={"help": help_text, "choices": choices})


@dataclasses.dataclass(frozen=True)
class Family:
    """One architecture with its named sizes.

    name: family name, e.g. "gpt2".
    summary: one line for `--list` and the documentation.
    config: frozen dataclass; every field is an option of the family.
    sizes: full model name -> configuration with the published hyperparameters.
    emit: writes the graph; called as `emit(graph_builder, config)`.
    sequence: whether inputs have a sequence dimension.
    """

    name: str
    summary: str
    config: Type[Any]
    sizes: Dict[str, Any]
    emit: Callable[[Any, Any], None]
    sequence: bool = True

    def configure(self, size: str, overrides: Dict[str, Any]) -> Any:
        """The configuration of `size` with `overrides` applied; raises ModelError on an unknown option or bad value."""
        known = {f.name: f for f in dataclasses.fields(self.config)}
        for key, value in overrides.items():
            if key not in known:
                raise ModelError(f"unknown option '{key}' of model '{size}', expected one of: {', '.join(known)}")
            default = known[key].default
            if isinstance(default, bool):
                if not isinstance(value, bool):
                    raise ModelError(f"option '{key}' of model '{size}' must be true or false, got {value!r}")
            elif isinstance(default, int):
                if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                    raise ModelError(f"option '{key}' of model '{size}' must be a whole number >= 0, got {value!r}")
            elif isinstance(default, float):
                if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                    raise ModelError(f"option '{key}' of model '{size}' must be a number >= 0, got {value!r}")
            elif not isinstance(value, str):
                raise ModelError(f"option '{key}' of model '{size}' must be text, got {value!r}")
            if value == 0 and default != 0 and not isinstance(default, bool):
                raise ModelError(f"option '{key}' of model '{size}' must be above 0, got {value!r}")
            choices = known[key].metadata.get("choices")
            if choices and value not in choices:
                raise ModelError(f"option '{key}' of model '{size}' must be one of {list(choices)}, got {value!r}")
        return dataclasses.replace(self.sizes[size], **overrides)


def require_divisible(value: int, by: int, value_name: str, by_name: str) -> int:
    """`value // by`, or a ModelError that names both when it does not divide."""
    if by <= 0 or value % by != 0:
        raise ModelError(f"{value_name}={value} is not divisible by {by_name}={by}, choose values that divide")
    return value // by
