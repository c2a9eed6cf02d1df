// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "CollectiveTimes.h"

#include "ProbeMemory.h"
#include "autopar/Cost/CostModel.h"

#include <algorithm>
#include <string>

namespace autopar::tools {
namespace {

struct KindOfCollective {
  CollectiveKind kind;
  artifact::CollectiveKind own{}; ///< of a permute: none
};

Result<MeasuredCollective> measureCollective(const Machine &machine, KindOfCollective kind,
                                             int32_t together) {
  constexpr int64_t kRepeats = 4;
  Probe probe(std::string(name(kind.kind)), together);
  ProbeMemory memory(probe);
  MeasuredCollective measured{kind.kind, together, 1, {}};
  std::vector<double> sizes = steps(1024, double(int64_t{32} << 20), machine.quick ? 32 : 4);
  for (double size : sizes) {
    int64_t bytes = int64_t(size), part = bytes / together;
    int64_t sent = kind.kind == CollectiveKind::AllGather ? part : bytes;
    int64_t received = kind.kind == CollectiveKind::ReduceScatter ? part : bytes;
    for (int64_t i = 0; i < kRepeats; ++i) {
      int32_t from = memory.fresh(sent, DataType::F32), to = memory.result(received, DataType::F32);
      if (kind.kind == CollectiveKind::Permute)
        probe.add(artifact::Permute{from, to, 0, bytes});
      else
        probe.add(artifact::Collective{kind.own, from, to, 0, artifact::Reduction::Sum,
                                       DataType::F32, sent / byteSize(DataType::F32)});
    }
  }
  Effort effort = machine.quick ? Effort{0.05, 3} : Effort{0.5, 5};
  auto seconds = probe.secondsOfEach(machine.ranks, machine.threads, effort);
  if (!seconds)
    return seconds.status().at(std::string(name(kind.kind)));
  double longest = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    // The first waits for whichever rank is late.
    auto first = seconds->begin() + int64_t(i) * kRepeats;
    longest = std::max(longest, median({first + 1, first + kRepeats}) * 1e6);
    measured.times.push_back({sizes[i], longest});
  }
  return measured;
}

} // namespace

Result<std::vector<MeasuredCollective>> measureCollectives(const Machine &machine) {
  constexpr KindOfCollective kKinds[] = {
      {CollectiveKind::AllReduce, artifact::CollectiveKind::AllReduce},
      {CollectiveKind::AllGather, artifact::CollectiveKind::AllGather},
      {CollectiveKind::ReduceScatter, artifact::CollectiveKind::ReduceScatter},
      {CollectiveKind::AllToAll, artifact::CollectiveKind::AllToAll},
      {CollectiveKind::Permute}};
  std::vector<MeasuredCollective> collectives;
  for (int32_t together = 2; together <= machine.ranks; ++together)
    for (const KindOfCollective &kind : kKinds) {
      if (machine.ranks % together != 0)
        continue;
      auto measured = measureCollective(machine, kind, together);
      if (!measured)
        return measured.status();
      collectives.push_back(measured.take());
    }
  return collectives;
}

} // namespace autopar::tools
