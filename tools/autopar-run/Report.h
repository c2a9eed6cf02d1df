// SPDX-License-Identifier: Apache-2.0
// What autopar-run prints and writes besides outputs: verification, dry run, profile, trace.
#pragma once

#include "RunOptions.h"
#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <string>
#include <vector>

namespace autopar::tools {

/// Checks weights too and prints the sections.
Status reportVerification(const artifact::Reader &reader, const RunOptions &options);
/// Memory per rank, inputs and outputs.
Status reportDryRun(const artifact::Reader &reader, const RunOptions &options);
/// High-water mark of this process' resident memory, in bytes; 0 where the system does not tell.
int64_t peakMemoryBytes();
/// One JSON line: step times, planned memory of the ranks of this process, and how much the peak
/// grew since `peakBefore`.
void reportBenchmark(const runtime::Session &session, const std::vector<double> &stepMs,
                     int64_t peakBefore);
/// Time per op, summed over the measured steps, of the first of the ranks: a table, or one JSON
/// line {"ops": [{"op", "key", "calls", "ms_per_call", "median_ms", "flops", "bytes"}],
/// "total_ms"}.
void reportProfile(const artifact::Reader &reader, const std::vector<runtime::RankEvents> &ranks,
                   bool asJson);
/// Chrome trace: pid = rank, tid = queue, names = op ids.
Status writeTrace(const artifact::Reader &reader, const std::vector<runtime::RankEvents> &ranks,
                  const std::string &path);

} // namespace autopar::tools
