# SPDX-License-Identifier: Apache-2.0
"""The one exception of the package, with the exit code table that all commands share."""

from typing import Dict

#: Exit codes of the commands and codes of the C interface; the same table as docs/ExitCodes.md.
MEANINGS: Dict[int, str] = {
    0: "ok",
    2: "the command line is wrong",
    65: "a file or value is malformed, or a plan does not fit",
    66: "a file does not exist or cannot be read",
    69: "a device or library that the plan wants is missing",
    70: "internal error",
    73: "an output cannot be created",
    74: "reading or writing failed midway",
    75: "another rank died or is stuck",
    77: "the system refused",
    78: "ranks, artifact or machine do not fit each other",
}

#: Of an Error: the call itself is wrong (docs/ExitCodes.md).
EXIT_USAGE = 2


class Error(Exception):
    """A request that AutoPar refused or could not finish.

    `code` is the exit code that the command would have ended with (65: bad input, ...; negative: killed by that
    signal); `str(error)` names the thing, what was expected and what to do.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or MEANINGS.get(code, f"exit status {code}"))
        self.code = code

    @property
    def crashed(self) -> bool:
        """True when the tool died or met an internal error instead of refusing."""
        return self.code < 0 or self.code == 70
