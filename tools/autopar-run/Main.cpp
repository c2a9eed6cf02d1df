// SPDX-License-Identifier: Apache-2.0
// autopar-run: runs a compiled.bin. All ranks live in this process unless a launcher says that this
// is one rank of many.
#include "Report.h"
#include "RunOptions.h"
#include "Simulate.h"
#include "Steps.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/CpuMath/ThreadWait.h"

#include <cstdio>

using namespace autopar;
using namespace autopar::tools;

namespace {

Status runAndReport(runtime::Session &session, const RunOptions &options, bool isRoot,
                    int64_t peakBefore) {
  std::vector<double> stepMs;
  AUTOPAR_RETURN_IF_ERROR(runSteps(session, options, isRoot, stepMs));
  if (isRoot && options.profile)
    reportProfile(session.reader(), session.events(), options.json);
  if (!options.trace.empty()) {
    AUTOPAR_RETURN_IF_ERROR(session.collectEvents());
    if (isRoot)
      AUTOPAR_RETURN_IF_ERROR(writeTrace(session.reader(), session.events(), options.trace));
  }
  if (isRoot && (options.benchmark || options.json))
    reportBenchmark(session, stepMs, peakBefore);
  return Status::ok();
}

Status runArtifact(artifact::Reader reader, const RunOptions &options,
                   const runtime::LaunchedRank &launch, runtime::World &world) {
  if (!reader.target().isCuda() && (!options.cudaLibraries.empty() || options.noCapture))
    return {StatusCode::Usage, "--cuda-libraries and --no-capture are for GPUs, and the program is "
                               "for CPUs; leave them out"};
  runtime::SessionOptions session;
  session.threads = options.threads;
  session.ranksHere = launch.ranksHere;
  session.localRank = launch.localRank;
  session.cudaLibraries = options.cudaLibraries;
  session.captures = !options.noCapture;
  session.communication = options.communication == "nccl"     ? runtime::CommunicationChoice::Nccl
                          : options.communication == "staged" ? runtime::CommunicationChoice::Staged
                                                              : runtime::CommunicationChoice::Auto;
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
  (*opened)->setSkipNonFinite(options.onNan == "skip");
  bool isRoot = launch.rank == 0;
  if (std::string how = (*opened)->communication(); isRoot && !options.quiet && !how.empty())
    std::fprintf(stderr, "autopar-run: GPUs communicate %s\n", how.c_str());
  if (std::string why = (*opened)->whyUncaptured(); isRoot && !options.quiet && !why.empty())
    std::fprintf(stderr, "autopar-run: steps are not captured as CUDA graphs: %s\n", why.c_str());
  if (isRoot && !options.quiet)
    for (const std::string &remark : (*opened)->initializerRemarks())
      std::fprintf(stderr, "autopar-run: remark: --init: %s\n", remark.c_str());
  for (const runtime::RankMemory &memory : (*opened)->memory())
    if (memory.unplannedBytes > memory.arenaBytes[0] / 100 && !options.quiet)
      std::fprintf(stderr,
                   "autopar-run: remark: rank %d uses %lld bytes beyond the plan: this machine "
                   "or thread count wants more scratch than the one it was compiled for\n",
                   memory.rank, static_cast<long long>(memory.unplannedBytes));
  return runAndReport(**opened, options, isRoot, peakBefore);
}

Status run(const RunOptions &options, int32_t &rank) {
  auto launch = runtime::detectLaunch(options);
  if (!launch)
    return launch.status();
  if (launch->kind != runtime::LaunchedRank::Kind::InProcess)
    rank = launch->rank;
  if (options.verify || options.dryRun || !options.cluster.empty()) {
    if (launch->rank != 0)
      return Status::ok();
    auto reader = artifact::Reader::open(options.artifact);
    if (!reader)
      return reader.status();
    if (!options.cluster.empty())
      return simulate(reader.take(), options);
    return options.verify ? reportVerification(*reader, options) : reportDryRun(*reader, options);
  }
  // Join first: a rank whose file is wrong can then tell the others instead of leaving them
  // waiting.
  auto world = runtime::joinWorld(*launch, options);
  if (!world)
    return world.status();
  auto reader = artifact::Reader::open(options.artifact);
  Status status = reader ? runArtifact(reader.take(), options, *launch, *world) : reader.status();
  if (!status.isOk())
    world->fail(status);
  return status;
}

} // namespace

int main(int argc, char **argv) {
  autopar::cpumath::waitBriefly(argv);
  refuseOversizedFiles();
  RunOptions options;
  if (int code = parseCommandLine(argc, argv, options); code >= 0)
    return code;
  int32_t rank = -1;
  Status status = run(options, rank);
  if (status.isOk())
    status = flushStandardOutput();
  if (status.isOk())
    return stopSignal() ? 128 + stopSignal() : 0;
  std::string who = rank < 0 ? "" : "[rank " + std::to_string(rank) + "] ";
  std::fprintf(stderr, "%sautopar-run: %s\n", who.c_str(), status.message().c_str());
  return status.exitCode();
}
