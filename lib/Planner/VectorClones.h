// SPDX-License-Identifier: Apache-2.0
// Hot loops of the planner, compiled once per kind of vector unit and chosen when the program
// starts.
#pragma once

/// In front of a function whose loops are worth it.
#if defined(__x86_64__) && defined(__clang__)
#define AUTOPAR_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define AUTOPAR_VECTOR_CLONES
#endif
