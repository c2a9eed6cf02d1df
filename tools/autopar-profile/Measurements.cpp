// SPDX-License-Identifier: Apache-2.0
// Products, memory traffic, the smallest instructions, messages.
#include "Measurements.h"

#include "Probe.h"
#include "ProbeKernels.h"
#include "autopar/Cost/LinkFit.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace autopar::tools {
namespace {

using artifact::Copy;
using artifact::Launch;
using artifact::Layout;
using artifact::Matmul;
using artifact::Permute;
using artifact::Reorder;

struct Extents {
  int64_t m, k, n;
};

/// Squares, then products with one short side. The first is the smallest: it tells whether the rest
/// can be afforded.
constexpr Extents kShapes[] = {{256, 256, 256},    {512, 512, 512},  {1024, 1024, 1024},
                               {2048, 2048, 2048}, {4096, 64, 1024}, {128, 2048, 2048},
                               {2048, 2048, 128}};
constexpr Extents kQuickShapes[] = {
    {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 64, 512}, {128, 1024, 1024}};
/// A shape that would take longer per product is left out.
constexpr double kLongestProductSeconds = 2;

Effort effortOf(const Machine &machine) { return machine.quick ? Effort{0.05, 3} : Effort{0.3, 5}; }

__attribute__((format(printf, 2, 3))) void say(const Machine &machine, const char *format, ...) {
  if (machine.quiet)
    return;
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "autopar-profile: %s\n", text);
}

artifact::StridedShape rowMajor(int64_t rows, int64_t columns) {
  return {{rows, columns}, {columns, 1}};
}

void addProduct(Probe &probe, DataType type, const Extents &e) {
  Matmul product;
  product.geometry.aType = product.geometry.bType = product.geometry.cType = type;
  product.geometry.a = rowMajor(e.m, e.k);
  product.geometry.b = rowMajor(e.k, e.n);
  product.geometry.c = rowMajor(e.m, e.n);
  product.a = probe.addFilled({e.m, e.k}, type);
  product.b = probe.addFilled({e.k, e.n}, type);
  product.c = probe.addWritten({e.m, e.n}, type);
  probe.add(product);
}

/// FLOP/s of one rank.
Result<double> productRate(const Machine &machine, DataType type, const Extents &e) {
  Probe probe("product");
  addProduct(probe, type, e);
  auto seconds = probe.secondsPerInstruction(machine.ranks, machine.threads, effortOf(machine));
  if (!seconds)
    return seconds.status();
  double rate = 2.0 * double(e.m) * double(e.k) * double(e.n) / *seconds;
  say(machine, "product %s %lldx%lldx%lld: %.1f GFLOP/s", std::string(name(type)).c_str(),
      static_cast<long long>(e.m), static_cast<long long>(e.k), static_cast<long long>(e.n),
      rate * 1e-9);
  return rate;
}

/// There and back, so that both buffers were written before they are read.
void addCopies(Probe &probe, int64_t bytes) {
  int32_t a = probe.addWritten({bytes}, DataType::U8), b = probe.addWritten({bytes}, DataType::U8);
  probe.add(Copy{a, 0, b, 0, bytes});
  probe.add(Copy{b, 0, a, 0, bytes});
}

/// To channels last and back, of float32.
void addLayoutChanges(Probe &probe, const std::vector<int64_t> &dims) {
  int32_t a = probe.addWritten(dims, DataType::F32), b = probe.addWritten(dims, DataType::F32);
  probe.add(Reorder{a, b, DataType::F32, dims, Layout::Plain, Layout::ChannelsLast});
  probe.add(Reorder{b, a, DataType::F32, dims, Layout::ChannelsLast, Layout::Plain});
}

/// A kernel that adds two matrices of `rows` rows.
void addSum(Probe &probe, int64_t rows, ProbeKernel kernel) {
  int32_t a = probe.addFilled({rows, kRowFloats}, DataType::F32);
  int32_t b = probe.addFilled({rows, kRowFloats}, DataType::F32);
  int32_t out = probe.addWritten({rows, kRowFloats}, DataType::F32);
  probe.add(Launch{kernel, {a, b, out}, rows, 1});
}

/// A kernel that adds up each of `rows` rows.
void addReduction(Probe &probe, int64_t rows) {
  int32_t a = probe.addFilled({rows, kRowFloats}, DataType::F32);
  int32_t out = probe.addWritten({rows}, DataType::F32);
  probe.add(Launch{SumRows, {a, out}, rows, 1});
}

/// Bytes/s of one rank, where each instruction of the probe moves `bytes`.
Result<double> trafficRate(const Machine &machine, const Probe &probe, const char *what,
                           double bytes) {
  auto seconds = probe.secondsPerInstruction(machine.ranks, machine.threads, effortOf(machine));
  if (!seconds)
    return seconds.status();
  say(machine, "memory, %s: %.2f GB/s", what, bytes / *seconds * 1e-9);
  return bytes / *seconds;
}

Result<TimedCollective> timeMessages(const Machine &machine, CollectiveKind kind, int64_t bytes) {
  Probe probe(std::string(name(kind)));
  int64_t count = bytes / byteSize(DataType::F32);
  int32_t a = probe.addWritten({count}, DataType::F32);
  int32_t b = probe.addWritten({count}, DataType::F32);
  // Many small ones in a row, so that it does not matter which rank begins.
  for (int64_t i = 0, pairs = std::clamp<int64_t>((int64_t{1} << 20) / bytes, 2, 64); i < pairs;
       ++i)
    for (auto [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      if (kind == CollectiveKind::AllReduce)
        probe.add(artifact::Collective{artifact::CollectiveKind::AllReduce, from, to, 0,
                                       artifact::Reduction::Sum, DataType::F32, count});
      else
        probe.add(Permute{from, to, 0, bytes});
    }
  auto seconds = probe.secondsPerInstruction(machine.ranks, machine.threads, effortOf(machine));
  if (!seconds)
    return seconds.status();
  say(machine, "%s %lld KiB among %d ranks: %.1f us", std::string(name(kind)).c_str(),
      static_cast<long long>(bytes >> 10), machine.ranks, *seconds * 1e6);
  return TimedCollective{kind, double(bytes), machine.ranks, *seconds * 1e6};
}

} // namespace

Status measureProducts(const Machine &machine, DeviceType &device) {
  std::vector<Extents> shapes(std::begin(kShapes), std::end(kShapes));
  if (machine.quick)
    shapes.assign(std::begin(kQuickShapes), std::end(kQuickShapes));
  for (DataType type : {DataType::F32, DataType::BF16, DataType::F16, DataType::F64}) {
    Probe smallest("product");
    addProduct(smallest, type, {16, 16, 16});
    if (auto tried = smallest.secondsPerInstruction(1, machine.threads, {0, 1}); !tried) {
      if (type == DataType::F32)
        return tried.status();
      say(machine, "product %s: left out, the library has none on this machine",
          std::string(name(type)).c_str());
      continue;
    }
    std::vector<double> rates;
    for (const Extents &e : shapes) {
      double flops = 2.0 * double(e.m) * double(e.k) * double(e.n);
      if (!rates.empty() && flops / rates.back() > kLongestProductSeconds) {
        say(machine, "product %s %lldx%lldx%lld: left out, it would take %.0f s",
            std::string(name(type)).c_str(), static_cast<long long>(e.m),
            static_cast<long long>(e.k), static_cast<long long>(e.n), flops / rates.back());
        continue;
      }
      auto rate = productRate(machine, type, e);
      if (!rate)
        return rate.status();
      rates.push_back(*rate);
    }
    if (type == DataType::F32)
      device.computeEfficiency = median(rates) / *std::max_element(rates.begin(), rates.end());
    device.peakFlopsPerSecond[type] = median(rates) / device.computeEfficiency;
  }
  return Status::ok();
}

Status measureMemory(const Machine &machine, DeviceType &device) {
  int64_t wanted = int64_t{machine.quick ? 64 : 128} << 20;
  int64_t images = std::max<int64_t>(std::min(wanted, machine.bytesPerRank / 8) >> 20, 1);
  int64_t bytes = images << 20, side = 4096, rows = bytes / (side * 4);
  std::vector<double> rates;
  auto take = [&](const Probe &probe, const char *what, double moved) {
    auto rate = trafficRate(machine, probe, what, moved);
    if (rate)
      rates.push_back(*rate);
    return rate.status();
  };
  int64_t kernelRows = bytes / (kRowFloats * 4);
  Probe copy("copy"), sum("sum"), reduction("reduction"), layout("layout"), vector("vector");
  addCopies(copy, bytes);
  AUTOPAR_RETURN_IF_ERROR(take(copy, "copy", 2.0 * double(bytes)));
  addSum(sum, kernelRows, StreamRows);
  AUTOPAR_RETURN_IF_ERROR(take(sum, "sum of two", 3.0 * double(bytes)));
  addReduction(reduction, kernelRows);
  AUTOPAR_RETURN_IF_ERROR(take(reduction, "sums of rows", double(bytes)));
  addLayoutChanges(layout, {images, 64, 64, 64});
  AUTOPAR_RETURN_IF_ERROR(take(layout, "change of layout", 2.0 * double(bytes)));
  addProduct(vector, DataType::F32, {1, rows, side});
  AUTOPAR_RETURN_IF_ERROR(
      take(vector, "product with a vector", double(bytes) + 4.0 * double(rows + side)));
  device.memoryBytesPerSecond = *std::max_element(rates.begin(), rates.end());
  device.memoryEfficiency = median(rates) / device.memoryBytesPerSecond;
  return Status::ok();
}

Status measureLaunch(const Machine &machine, DeviceType &device) {
  Probe probe("launch");
  for (int i = 0; i < 64; ++i) {
    addSum(probe, machine.threads, AddRows);
    addReduction(probe, machine.threads);
    addCopies(probe, 64);
    addProduct(probe, DataType::F32, {8, 8, 8});
  }
  auto seconds = probe.secondsPerInstruction(machine.ranks, machine.threads, effortOf(machine));
  if (!seconds)
    return seconds.status();
  device.launchUs = *seconds * 1e6;
  say(machine, "smallest instructions: %.2f us", device.launchUs);
  return Status::ok();
}

Result<Link> measureLink(const Machine &machine) {
  Machine peers = machine;
  peers.ranks = std::max(machine.ranks, 2);
  int64_t most = std::min(int64_t{64} << 20, machine.bytesPerRank / 8);
  std::vector<TimedCollective> timed;
  for (CollectiveKind kind : {CollectiveKind::Permute, CollectiveKind::AllReduce})
    for (int64_t bytes = 1024; bytes <= most; bytes *= machine.quick ? 16 : 4) {
      auto one = timeMessages(peers, kind, bytes);
      if (!one)
        return one.status();
      timed.push_back(*one);
    }
  auto fit = fitLink(timed);
  if (!fit)
    return fit.status().at("messages between ranks");
  say(machine, "link: %.2f us, %.2f GB/s; times by it are off by %.0f %% on average",
      fit->link.latencyUs, fit->link.bytesPerSecond * 1e-9, 100 * fit->meanError);
  return fit->link;
}

} // namespace autopar::tools
