# SPDX-License-Identifier: Apache-2.0
"""What `scripts/gpu-check` shows, one module per part of its table. On its machine there is Python with NumPy and nothing else: no module here imports more."""
