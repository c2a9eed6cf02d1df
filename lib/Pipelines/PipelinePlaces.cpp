// SPDX-License-Identifier: Apache-2.0
#include "PipelinePlaces.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

/// More stages than this have bubbles that no batch fills.
static constexpr int64_t kMostStages = 64;
/// Devices up to which numbers of stages are tried that do not divide them.
static constexpr int64_t kFewDevices = 16;
/// Devices up to which estimates begin with such numbers too.
static constexpr int64_t kVeryFewDevices = 8;
/// The ways to share devices that are tried, those that estimates begin with first.
static constexpr DeviceShares kShares[] = {DeviceShares::Given, DeviceShares::Equal,
                                           DeviceShares::Parts, DeviceShares::Any};

/// Every number that the devices can be shared by.
static std::vector<int64_t> stageCounts(int64_t devices) {
  std::vector<int64_t> counts;
  for (int64_t stages = 1; stages <= std::min(devices, kMostStages); ++stages)
    if (devices % stages == 0 || devices <= kFewDevices)
      counts.push_back(stages);
  return counts;
}

/// Powers of two, or little else, that divide the batch. Rising.
static std::vector<int64_t> divisorsFrom(int64_t samples) {
  std::vector<int64_t> divisors{1};
  for (int64_t divisor = 2; divisor <= samples; ++divisor)
    if (samples % divisor == 0 && divisor >= 2 * divisors.back())
      divisors.push_back(divisor);
  return divisors;
}

/// Such numbers, and those that leave a micro-batch such a number of samples, which more ranks can
/// share evenly: 15,360 samples in 64 are 240 each, in 120 they are 128. Rising.
static std::vector<int64_t> microBatchCounts(int64_t samples) {
  std::vector<int64_t> counts = divisorsFrom(samples);
  for (int64_t size : divisorsFrom(samples))
    counts.push_back(samples / size);
  llvm::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

::autopar::Result<PipelineChoices>
mlir::autopar::pipelineChoices(ModuleOp module, const AutoShardOptions &options, int64_t devices) {
  PipelineChoices choices{{options.microBatches}, {options.stageMeshes}, {options.schedule}};
  if (options.stages == 0)
    choices.stages = stageCounts(devices);
  if (options.schedule == "auto")
    choices.schedules = {"1f1b", "zero-bubble", "interleaved-zero-bubble", "interleaved",
                         "eager-1f1b"};
  if (options.microBatches > 0)
    return choices;
  auto function = module.lookupSymbol<func::FuncOp>("main");
  std::optional<int64_t> samples = function ? samplesOf(function) : std::nullopt;
  if (!samples)
    return ::autopar::Status::badInput(
        "micro-batches: the model has no input with a batch dimension");
  choices.microBatches = microBatchCounts(*samples);
  choices.countsToDouble = llvm::isPowerOf2_64(static_cast<uint64_t>(*samples)) ? 1 : 2;
  return choices;
}

static std::string counted(int64_t count, const char *one, const char *several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

std::string PipelinePlaces::nameOf(PipelinePlace place) const {
  std::string name = counted(choices.stages[place.stages], "stage", "stages");
  if (choices.microBatches.size() > 1)
    name +=
        ", " + counted(choices.microBatches[place.microBatches], "micro-batch", "micro-batches");
  if (place.shares == DeviceShares::Parts)
    name += ", on parts of nodes";
  else if (place.shares == DeviceShares::Any)
    name += ", on any numbers of devices";
  else if (place.shares == DeviceShares::Given)
    name += ", on the meshes that are demanded";
  return name;
}

static bool hasSize(const std::vector<::autopar::MeshAxis> &axes, int64_t devices) {
  for (const ::autopar::MeshAxis &axis : axes) {
    if (devices % axis.size)
      return false;
    devices /= axis.size;
  }
  return devices == 1;
}

/// Stages are equal where all devices are alike, or somebody says what their meshes are. Of many
/// equal devices other shares differ by too little to look for.
bool PipelinePlaces::isOffered(PipelinePlace place) const {
  if (place.microBatches >= choices.microBatches.size() || place.stages >= choices.stages.size())
    return false;
  int64_t stages = choices.stages[place.stages], devices = cluster.deviceCount();
  if (auto given = static_cast<int64_t>(demands.meshes().size()); given > 1)
    return place.shares == DeviceShares::Given && stages == given;
  bool isGiven = !demands.meshes().empty(), divides = devices % stages == 0;
  bool areAlike = llvm::all_of(cluster.nodes, [&](const ::autopar::NodeGroup &group) {
    return group.deviceType == cluster.nodes.front().deviceType;
  });
  if (place.shares == DeviceShares::Equal)
    return divides &&
           (isGiven ? hasSize(demands.mesh(), devices / stages) : stages == 1 || areAlike);
  return place.shares != DeviceShares::Given && stages > 1 && !isGiven &&
         (devices <= kFewDevices || !areAlike || !divides);
}

/// With one part of the batch. Numbers that do not divide the devices are begun with where devices
/// are few, and else only tried beside better ones.
SmallVector<PipelinePlace> PipelinePlaces::startsOf(size_t stages) const {
  bool divides = cluster.deviceCount() % choices.stages[stages] == 0;
  bool isGiven = demands.meshes().size() > 1;
  SmallVector<PipelinePlace> found;
  if (!isGiven && !divides && choices.stages.size() > 1 && cluster.deviceCount() > kVeryFewDevices)
    return found;
  for (DeviceShares shares : kShares)
    if (PipelinePlace place{0, stages, shares}; isOffered(place) && (found.empty() || !divides))
      found.push_back(place);
  return found;
}

PipelinePlace PipelinePlaces::leanest(PipelinePlace place) const {
  int64_t devices = cluster.deviceCount() / choices.stages[place.stages],
          samples = choices.microBatches.back();
  while (place.microBatches + 1 < choices.microBatches.size() &&
         choices.microBatches[place.microBatches + 1] * devices <= samples)
    ++place.microBatches;
  return place;
}

/// More stages want more micro-batches. Devices may be shared in another way by as many stages, or
/// by one more or less.
SmallVector<PipelinePlace> PipelinePlaces::neighbours(PipelinePlace place) const {
  SmallVector<PipelinePlace> found;
  SmallVector<std::pair<int, int>> moves;
  for (int step = 1; step <= choices.countsToDouble; ++step)
    moves.append({{step, 0}, {-step, 0}, {step, 1}});
  moves.append({{0, 1}, {0, -1}});
  for (auto [microBatches, stages] : moves) {
    PipelinePlace other = place; // below 0: very large
    other.microBatches += microBatches;
    do
      other.stages += stages;
    while (stages != 0 && other.stages < choices.stages.size() && !isOffered(other));
    if (isOffered(other))
      found.push_back(other);
  }
  for (DeviceShares shares : kShares)
    for (int stages : {0, 1, -1})
      if (PipelinePlace other{place.microBatches, place.stages + stages, shares};
          shares != place.shares && isOffered(other))
        found.push_back(other);
  return found;
}
