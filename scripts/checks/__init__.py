# SPDX-License-Identifier: Apache-2.0
"""What the commands in scripts/ do, one module per command or idea. Started by scripts/run-check inside .venv."""
