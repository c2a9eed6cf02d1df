// SPDX-License-Identifier: Apache-2.0
// Clusters by name. Peaks are the vendors' data sheets (dense, no sparsity); memory is what the
// driver gives a process; link rates are what collectives reach on them; efficiencies are guesses
// until a measured cluster file replaces them (docs/CostModel.md lists every number with its
// source).
#include "autopar/Cost/Cluster.h"

#include <algorithm>
#include <charconv>

namespace autopar {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kGiB = int64_t(1) << 30;

/// Of a GPU's memory: a GiB for the driver's context and the libraries' modules, two for the
/// buffers of three communicators of NCCL.
constexpr int64_t kReservedOfGpu = int64_t(3) << 30;

struct DevicePreset {
  const char *name;
  double f8 = 0, f16, f32, f64; ///< peak TFLOP/s; 0: no products of that type
  bool bf16 = false;            ///< multiplied at the rate of f16, else of f32
  double memoryGiB; ///< the total of cuMemGetInfo, the least that was reported; no product's name
  double memoryGigaPerSecond;
  double computeEfficiency;
  double attention = 0, attentionGradient = 0; ///< their efficiencies; 0: nobody says
  double memoryEfficiency = 0.8, launchUs;
  Link inside, between;
  int cudaChip;
  double hostGiga;          ///< bytes of host memory for one device
  double hostGigaPerSecond; ///< each way
};

// NVLink by its generation, networks by the GB/s that a device has of them.
constexpr Link kLink2{5, 120e9}, kLink3{5, 230e9}, kLink4{5, 370e9}, kLink4Narrow{5, 160e9},
    kLink5{5, 720e9};
constexpr Link kNet6{10, 6e9}, kNet23{10, 23e9}, kNet45{10, 45e9};

constexpr DevicePreset kH100 = {.name = "h100",
                                .f8 = 1978.9,
                                .f16 = 989.4,
                                .f32 = 66.9,
                                .f64 = 66.9,
                                .bf16 = true,
                                .memoryGiB = 79.1,
                                .memoryGigaPerSecond = 3350,
                                .computeEfficiency = 0.8,
                                .attention = 0.54,
                                .attentionGradient = 0.52,
                                .launchUs = 4,
                                .inside = kLink4,
                                .between = kNet45,
                                .cudaChip = 90,
                                .hostGiga = 256,
                                .hostGigaPerSecond = 50.4};

/// Its NVLink is cut down, as is f64.
constexpr DevicePreset kH800 = [] {
  DevicePreset preset = kH100;
  preset.name = "h800";
  preset.f64 = 1;
  preset.inside = kLink4Narrow;
  return preset;
}();

/// With more memory, and faster.
constexpr DevicePreset kH200 = [] {
  DevicePreset preset = kH100;
  preset.name = "h200";
  preset.memoryGiB = 139.7;
  preset.memoryGigaPerSecond = 4800;
  return preset;
}();

constexpr DevicePreset kPresets[] = {
    {.name = "v100",
     .f16 = 125,
     .f32 = 15.7,
     .f64 = 7.8,
     .memoryGiB = 31.7,
     .memoryGigaPerSecond = 900,
     .computeEfficiency = 0.6,
     .launchUs = 5,
     .inside = kLink2,
     .between = kNet6,
     .cudaChip = 70,
     .hostGiga = 64,
     .hostGigaPerSecond = 12.6},
    {.name = "a100",
     .f16 = 312,
     .f32 = 19.5,
     .f64 = 19.5,
     .bf16 = true,
     .memoryGiB = 79.1,
     .memoryGigaPerSecond = 2039,
     .computeEfficiency = 0.87,
     .attention = 0.73,
     .attentionGradient = 0.63,
     .launchUs = 5,
     .inside = kLink3,
     .between = kNet23,
     .cudaChip = 80,
     .hostGiga = 256,
     .hostGigaPerSecond = 25.2},
    kH100,
    kH800,
    kH200,
    {.name = "b200",
     .f8 = 4500,
     .f16 = 2250,
     .f32 = 80,
     .f64 = 40,
     .bf16 = true,
     .memoryGiB = 178.3,
     .memoryGigaPerSecond = 8000,
     .computeEfficiency = 0.6,
     .launchUs = 4,
     .inside = kLink5,
     .between = kNet45,
     .cudaChip = 100,
     .hostGiga = 256,
     .hostGigaPerSecond = 50.4},
};

Cluster fromPreset(const DevicePreset &preset, int64_t devicesPerNode, int64_t nodes) {
  DeviceType type;
  type.name = preset.name;
  type.peakFlopsPerSecond = {{DataType::F16, preset.f16 * kTera},
                             {DataType::F32, preset.f32 * kTera},
                             {DataType::F64, preset.f64 * kTera}};
  type.peakFlopsPerSecond[DataType::BF16] = (preset.bf16 ? preset.f16 : preset.f32) * kTera;
  if (preset.f8 > 0)
    type.peakFlopsPerSecond[DataType::F8E4M3FN] = preset.f8 * kTera;
  type.computeEfficiency = preset.computeEfficiency;
  type.attentionEfficiency = preset.attention;
  type.attentionGradientEfficiency = preset.attentionGradient;
  type.memoryBytesPerSecond = preset.memoryGigaPerSecond * kGiga;
  type.memoryEfficiency = preset.memoryEfficiency;
  type.memoryBytes = static_cast<int64_t>(preset.memoryGiB * kGiB);
  type.reservedBytes = kReservedOfGpu;
  type.launchUs = preset.launchUs;
  type.cudaChip = preset.cudaChip;
  type.hostLink = {10, preset.hostGigaPerSecond * kGiga};
  type.hostMemoryBytes = static_cast<int64_t>(preset.hostGiga * kGiga);
  Cluster cluster;
  cluster.name = std::string(preset.name) + "x" + std::to_string(devicesPerNode);
  if (nodes > 1)
    cluster.name += "x" + std::to_string(nodes);
  cluster.deviceTypes = {type};
  cluster.nodes = {{nodes, devicesPerNode, type.name, {}}};
  cluster.levels = {{"inside", preset.inside, 1}};
  if (nodes > 1)
    cluster.levels.push_back({"network", preset.between, 0});
  return cluster;
}

/// The numbers after each 'x' of "h100x8x128"; false where one is not a number in [1, 2^20].
bool readCounts(std::string_view text, std::vector<int64_t> &counts) {
  while (!text.empty()) {
    if (text.front() != 'x')
      return false;
    text.remove_prefix(1);
    int64_t count = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || count < 1 || count > (int64_t(1) << 20))
      return false;
    counts.push_back(count);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return true;
}

} // namespace

Cluster Cluster::cpuRanks(int64_t ranks) {
  DeviceType type;
  type.name = "cpu";
  type.peakFlopsPerSecond = {{DataType::F32, 80 * kGiga}, {DataType::F64, 40 * kGiga}};
  type.computeEfficiency = 0.7;
  type.memoryBytesPerSecond = 10 * kGiga;
  type.memoryEfficiency = 0.8;
  type.memoryBytes = int64_t(16) << 30;
  type.reservedBytes = int64_t(256) << 20;
  type.launchUs = 1;
  type.communicatesWhileIdle = true;
  type.hostLink = {5, 4 * kGiga};
  type.hostMemoryBytes = int64_t(16) << 30;
  Cluster cluster;
  cluster.name = "cpux" + std::to_string(ranks);
  cluster.deviceTypes = {type};
  cluster.nodes = {{1, std::max<int64_t>(ranks, 1), type.name, {}}};
  cluster.levels = {{"memory", {5, 4 * kGiga}, 1}};
  return cluster;
}

std::vector<std::string> Cluster::presetNames() {
  std::vector<std::string> names = {"cpu"};
  for (const DevicePreset &preset : kPresets)
    names.push_back(preset.name);
  return names;
}

/// A preset whose counts are no cluster's is refused by its name.
static Result<Cluster> verified(Cluster cluster, std::string_view presetName) {
  AUTOPAR_RETURN_IF_ERROR(cluster.verify().at("cluster preset '" + std::string(presetName) + "'"));
  return cluster;
}

Result<Cluster> Cluster::preset(std::string_view presetName) {
  std::string_view word = presetName;
  if (word.starts_with("presets:"))
    word.remove_prefix(8);
  std::string known;
  for (const std::string &one : presetNames())
    known += (known.empty() ? "" : ", ") + one;
  std::string shape = "'" + std::string(presetName) +
                      "': expected DEVICExPER_NODE or DEVICExPER_NODExNODES (h100x8x128), DEVICE "
                      "one of " +
                      known;
  for (const std::string &one : presetNames()) {
    if (!word.starts_with(one))
      continue;
    std::vector<int64_t> counts;
    if (!readCounts(word.substr(one.size()), counts) || counts.empty() || counts.size() > 2)
      continue;
    int64_t nodes = counts.size() == 2 ? counts[1] : 1;
    if (one == "cpu") {
      if (counts.size() == 2)
        return Status::badInput("cluster preset '" + std::string(presetName) +
                                "': cpu ranks live on one machine; use cpux" +
                                std::to_string(counts[0]) + " or a cluster file");
      return verified(cpuRanks(counts[0]), presetName);
    }
    for (const DevicePreset &preset : kPresets)
      if (one == preset.name)
        return verified(fromPreset(preset, counts[0], nodes), presetName);
  }
  return Status::badInput("unknown cluster preset " + shape);
}

} // namespace autopar
