// SPDX-License-Identifier: Apache-2.0
// Times, bytes at every place, and the places worth asking the dynamic program about.
#include "ForwardChain.h"

#include "OpTime.h"

#include "autopar/Planner/StageCut.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

static double wholeTimeUs(Operation *op, const ::autopar::DeviceType &device) {
  auto types = [](auto values) {
    SmallVector<RankedTensorType> list;
    for (Value value : values)
      list.push_back(tensorTypeOf(value));
    return list;
  };
  return opTimeUs(op, types(op->getOperands()), types(op->getResults()), device, /*mayScale=*/true);
}

ForwardChain::ForwardChain(ArrayRef<Operation *> ops, const ::autopar::Cluster &cluster,
                           int64_t ranksPerStage, bool trains)
    : ops(ops) {
  const ::autopar::DeviceType &device = cluster.typeOfDevice(0);
  times.push_back(0);
  for (Operation *op : ops)
    times.push_back(times.back() + (trains ? 3 : 1) * wholeTimeUs(op, device) /
                                       static_cast<double>(ranksPerStage));
  findCrossings(trains);
  const ::autopar::Link &link = cluster.linkOfDevice(0, cluster.levels.size() - 1);
  for (int64_t bytes : crossing)
    transfers.push_back(bytes == 0 ? 0
                                   : link.latencyUs + 1e6 * static_cast<double>(bytes) /
                                                          static_cast<double>(ranksPerStage) /
                                                          link.bytesPerSecond);
}

::autopar::Result<ChainCut> ForwardChain::cut(int32_t stages, int64_t microBatches) const {
  std::vector<int32_t> places = placesToCut(stages);
  ::autopar::StageCutProblem problem;
  problem.layers = static_cast<int32_t>(places.size()) - 1;
  problem.devices = {stages};
  problem.subMeshes = {{"mesh", {1}, 0}};
  problem.useAllDevices = true;
  problem.leastStages = problem.mostStages = stages;
  problem.microBatches = microBatches;
  problem.inFlight = ::autopar::inFlight1F1B(microBatches);
  problem.cost = [&](int32_t begin, int32_t end, int32_t) {
    int32_t first = places[begin], last = places[end];
    return ::autopar::StageCost{times[last] - times[first] + transfers[first] + transfers[last], 0,
                                0, 0};
  };
  ::autopar::Result<::autopar::StageCut> found = ::autopar::cutStages(problem);
  if (!found)
    return found.status();
  ChainCut cut;
  double slowest = 0;
  for (const ::autopar::CutStage &stage : found->stages) {
    slowest = std::max(slowest, times[places[stage.end]] - times[places[stage.begin]]);
    if (stage.begin == 0)
      continue;
    cut.places.push_back(places[stage.begin]);
    cut.messagesUs += transfers[places[stage.begin]];
  }
  cut.slowestShare = times.back() > 0 ? slowest / times.back() : 1.0 / stages;
  return cut;
}

/// What a cut in front of each operation sends: values, and their gradients.
void ForwardChain::findCrossings(bool trains) {
  DenseMap<Operation *, size_t> position;
  for (auto [index, op] : llvm::enumerate(ops))
    position[op] = index;
  crossing.assign(ops.size() + 1, 0);
  for (auto [index, op] : llvm::enumerate(ops))
    for (Value value : op->getResults()) {
      size_t last = index;
      for (Operation *user : value.getUsers())
        if (auto it = position.find(user); it != position.end())
          last = std::max(last, it->second);
      for (size_t place = index + 1; place <= last; ++place)
        crossing[place] += bytesOf(tensorTypeOf(value)) * (trains ? 2 : 1);
    }
}

/// The ends, and the places where little is sent: no worse than those around them. At most about
/// 200 of them, the cheapest first.
std::vector<int32_t> ForwardChain::placesToCut(int32_t stages) const {
  constexpr size_t most = 200;
  int32_t end = static_cast<int32_t>(ops.size());
  std::vector<int32_t> places;
  for (int32_t place = 1; place < end; ++place)
    if (crossing[place] <= crossing[place - 1] && crossing[place] < crossing[place + 1])
      places.push_back(place);
  if (static_cast<int32_t>(places.size()) + 1 < stages) {
    places.clear();
    for (int32_t place = 1; place < end; ++place)
      places.push_back(place);
  }
  llvm::sort(places, [&](int32_t a, int32_t b) {
    return std::pair(crossing[a], a) < std::pair(crossing[b], b);
  });
  if (places.size() > std::max<size_t>(most, stages))
    places.resize(std::max<size_t>(most, stages));
  places.push_back(0);
  places.push_back(end);
  llvm::sort(places);
  return places;
}
