// SPDX-License-Identifier: Apache-2.0
// Programs and rank tables that were damaged under valid digests: each is refused with a message,
// or it is a program, and then it runs or says why it does not. The same damage every time.
#include "EveryInstruction.h"
#include "SampleArtifact.h"
#include "autopar/Artifact/Dump.h"
#include "autopar/Artifact/Reader.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Runtime/Session.h"
#include "autopar/Runtime/Simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

class Damage {
public:
  explicit Damage(uint64_t seed) : generator(seed) {}

  /// Overwrites some aligned words of the bytes by numbers that are near, small, extreme, or words
  /// from elsewhere, as most of them are indices, sizes and offsets.
  void apply(uint8_t *bytes, size_t size) {
    for (uint64_t times = 1 + pick(3); times > 0; --times) {
      size_t width = size_t(1) << (2 * pick(2)); // a byte or four
      width = pick(3) ? width : 8;
      uint8_t *at = bytes + pick(size / width) * width;
      uint64_t word = 0;
      std::memcpy(&word, at, width);
      word = changed(word);
      if (pick(5) == 0)
        std::memcpy(&word, bytes + pick(size / width) * width, width);
      std::memcpy(at, &word, width);
    }
  }

private:
  std::mt19937_64 generator;

  uint64_t pick(uint64_t count) { return generator() % count; }
  uint64_t changed(uint64_t word) {
    const uint64_t extremes[] = {0, UINT64_MAX, INT32_MAX, INT64_MAX, uint64_t{1} << 40};
    switch (pick(4)) {
    case 0:
      return word + 1;
    case 1:
      return word - 1;
    case 2:
      return pick(20);
    default:
      return extremes[pick(std::size(extremes))];
    }
  }
};

double product(const std::vector<int64_t> &dims) {
  double all = 1;
  for (int64_t dim : dims)
    all *= double(dim);
  return all;
}

/// Multiplications, of any number: strides of zero make much work on little memory.
double workOf(const Payload &payload) {
  if (auto *p = std::get_if<Matmul>(&payload))
    return product(p->geometry.c.dims) * double(p->geometry.a.dims.back());
  if (auto *p = std::get_if<Convolution>(&payload))
    return product(p->geometry.output()) * product(p->geometry.filter());
  if (auto *p = std::get_if<Attention>(&payload))
    return product(p->geometry.operands[0].dims) * double(p->geometry.operands[1].dims[2]) *
           double(p->geometry.operands[2].dims[3]);
  if (auto *p = std::get_if<GroupedProduct>(&payload))
    return product(p->geometry.lhs.dims) * double(p->geometry.columns() + p->geometry.groups);
  return 0;
}

/// Whether a program that is legal is small enough to be run here.
bool isSmall(const Program &program) {
  double work = 0;
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions)
      work += workOf(instruction.payload);
  return *std::max_element(program.arenaBytes.begin(), program.arenaBytes.end()) < 1 << 20 &&
         program.timetable.size() < 10 && work < 1e7;
}

/// Runs two steps; the status of whatever ends it.
Status run(const Reader &reader) {
  SessionOptions options;
  options.threads = 1;
  auto session = Session::open(reader, std::move(options));
  if (!session)
    return session.status();
  for (const TensorSpec &input : (*session)->inputs()) {
    std::vector<uint8_t> ones(size_t(input.bytes), 1);
    Status given = (*session)->setInput(input.name, input.dtype, input.shape, ones.data());
    if (!given.isOk())
      return given;
  }
  AUTOPAR_RETURN_IF_ERROR((*session)->run(0, 2));
  return (*session)->collectOutputs();
}

Status simulate(const Reader &reader, const Cluster &cluster) {
  auto simulation = Simulation::open(reader, cluster, /*record=*/false);
  return simulation ? (*simulation)->runStep(0).status() : simulation.status();
}

/// Says something, and that it is the input's fault or the machine's.
void expectMessage(const Status &status) {
  EXPECT_GT(status.message().size(), 20u) << status.message();
  EXPECT_NE(status.code(), StatusCode::Usage) << status.message();
}

TEST(DamagedPrograms, AreRefusedOrRun) {
  auto whole = serialize(everyInstruction());
  ASSERT_TRUE(whole.isOk()) << whole.status().message();
  auto reader = Reader::fromBytes(*whole, "whole.bin");
  auto cluster = Cluster::preset("cpux2");
  ASSERT_TRUE(reader.isOk() && cluster.isOk());
  ASSERT_TRUE(run(*reader).isOk()) << run(*reader).message();
  ASSERT_TRUE(simulate(*reader, *cluster).isOk()) << simulate(*reader, *cluster).message();
  int refused = 0, ended = 0, ran = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    std::vector<uint8_t> bytes = *whole;
    Damage damage(seed);
    const SectionInfo &section = reader->sections()[seed % 4 == 0];
    ASSERT_EQ(section.name, seed % 4 == 0 ? "RANKS" : "PROGRAM");
    damage.apply(bytes.data() + section.offset, section.size);
    SCOPED_TRACE(seed);
    auto damaged = Reader::fromBytes(resealed(std::move(bytes)), "damaged.bin");
    if (!damaged) {
      expectMessage(damaged.status());
      ++refused;
      continue;
    }
    EXPECT_FALSE(dumpArtifact(*damaged).empty());
    if (!isSmall(damaged->program(0)))
      continue;
    Status simulated = simulate(*damaged, *cluster);
    if (!simulated.isOk())
      expectMessage(simulated);
    Status status = run(*damaged);
    if (!status.isOk())
      expectMessage(status);
    ++(status.isOk() ? ran : ended);
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(ended, 20);
  EXPECT_GT(ran, 2000);
}

} // namespace
