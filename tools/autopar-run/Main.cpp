// SPDX-License-Identifier: Apache-2.0
// autopar-run: runs a compiled.bin. All ranks live in this process unless a launcher says that this
// is one rank of many.
#include "Inputs.h"
#include "Launch.h"
#include "Report.h"
#include "RunOptions.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace autopar;
using namespace autopar::tools;

namespace {

/// One line on stderr that is rewritten, only where a person watches.
class ProgressLine {
public:
  ProgressLine(bool wanted, int64_t total)
      : isShown(wanted && isatty(STDERR_FILENO)), hasColor(!std::getenv("NO_COLOR")), total(total) {
  }
  void step(int64_t done, double ms) {
    if (isShown)
      std::fprintf(stderr, "\r%sstep %lld/%lld%s  %.2f ms/step  %.1f s left   ",
                   hasColor ? "\033[1m" : "", static_cast<long long>(done),
                   static_cast<long long>(total), hasColor ? "\033[0m" : "", ms,
                   ms * double(total - done) / 1e3);
  }
  ~ProgressLine() {
    if (isShown)
      std::fprintf(stderr, "\r\033[K");
  }

private:
  bool isShown, hasColor;
  int64_t total;
};

Status runSteps(runtime::Session &session, const RunOptions &options, bool isRoot,
                int64_t peakBefore) {
  AUTOPAR_RETURN_IF_ERROR(setInputs(session, options.inputs));
  auto data = openData(session, options);
  if (!data)
    return data.status();
  if (*data) {
    if (int64_t unused = (*data)->unusedTokens(); unused > 0 && isRoot && !options.quiet)
      std::fprintf(stderr, "autopar-run: remark: %s: the last %lld tokens fill no sample\n",
                   options.data.c_str(), static_cast<long long>(unused));
    AUTOPAR_RETURN_IF_ERROR(setBatch(session, **data, 0));
  }
  int64_t warmup = options.warmup > 0 ? options.warmup : options.benchmark ? 2 : 0;
  AUTOPAR_RETURN_IF_ERROR(session.run(0, warmup));
  if (warmup > 0)
    session.clearEvents();
  std::vector<double> stepMs;
  {
    ProgressLine line(isRoot && !options.quiet && options.steps > 1, options.steps);
    for (int64_t step = 0; step < options.steps; ++step) {
      auto begin = std::chrono::steady_clock::now();
      if (*data)
        AUTOPAR_RETURN_IF_ERROR(setBatch(session, **data, step));
      AUTOPAR_RETURN_IF_ERROR(session.run(warmup + step, 1));
      stepMs.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
              .count());
      line.step(step + 1, stepMs.back());
    }
  }
  if (!options.outputFolder.empty()) {
    AUTOPAR_RETURN_IF_ERROR(session.collectOutputs());
    if (isRoot)
      AUTOPAR_RETURN_IF_ERROR(writeOutputs(session, options.outputFolder));
  }
  if (isRoot && options.profile)
    reportProfile(session);
  if (!options.trace.empty()) {
    AUTOPAR_RETURN_IF_ERROR(session.collectEvents());
    if (isRoot)
      AUTOPAR_RETURN_IF_ERROR(writeTrace(session, options.trace));
  }
  if (isRoot && (options.benchmark || options.json))
    reportBenchmark(session, stepMs, peakBefore);
  return Status::ok();
}

Status runArtifact(artifact::Reader reader, const RunOptions &options, const Launch &launch,
                   World &world) {
  runtime::SessionOptions session;
  session.threads = options.threads;
  session.ranksHere = launch.ranksHere;
  session.record = options.profile || !options.trace.empty();
  if (!options.initializer.empty()) {
    auto initializer = runtime::Initializer::parse(options.initializer);
    if (!initializer)
      return initializer.status();
    session.initializer = *initializer;
  }
  session.transport = std::move(world.transport);
  if (runtime::Rendezvous *rendezvous = world.rendezvous.get())
    session.verdict = [rendezvous] { return rendezvous->verdict(); };
  int64_t peakBefore = peakMemoryBytes();
  auto opened = runtime::Session::open(std::move(reader), std::move(session));
  if (!opened)
    return opened.status();
  bool isRoot = launch.rank == 0;
  for (const runtime::RankMemory &memory : (*opened)->memory())
    if (memory.unplannedBytes > memory.arenaBytes[0] / 100 && !options.quiet)
      std::fprintf(stderr,
                   "autopar-run: remark: rank %d uses %lld bytes beyond the plan: this CPU or "
                   "thread count wants more "
                   "scratch than the one it was compiled for\n",
                   memory.rank, static_cast<long long>(memory.unplannedBytes));
  return runSteps(**opened, options, isRoot, peakBefore);
}

Status run(const RunOptions &options, int32_t &rank) {
  auto launch = detectLaunch(options);
  if (!launch)
    return launch.status();
  if (launch->kind != Launch::Kind::InProcess)
    rank = launch->rank;
  if (options.verify || options.dryRun) {
    if (launch->rank != 0)
      return Status::ok();
    auto reader = artifact::Reader::open(options.artifact);
    if (!reader)
      return reader.status();
    return options.verify ? reportVerification(*reader, options) : reportDryRun(*reader, options);
  }
  // Join first: a rank whose file is wrong can then tell the others instead of leaving them
  // waiting.
  auto world = joinWorld(*launch, options);
  if (!world)
    return world.status();
  auto reader = artifact::Reader::open(options.artifact);
  Status status = reader ? runArtifact(reader.take(), options, *launch, *world) : reader.status();
  if (world->transport && !status.isOk())
    world->transport->abort(status);
  if (world->rendezvous && !status.isOk())
    world->rendezvous->fail(status);
  return status;
}

} // namespace

int main(int argc, char **argv) {
  RunOptions options;
  if (int code = parseCommandLine(argc, argv, options); code >= 0)
    return code;
  int32_t rank = -1;
  Status status = run(options, rank);
  if (status.isOk())
    return 0;
  std::string who = rank < 0 ? "" : "[rank " + std::to_string(rank) + "] ";
  std::fprintf(stderr, "%sautopar-run: %s\n", who.c_str(), status.message().c_str());
  return status.exitCode();
}
