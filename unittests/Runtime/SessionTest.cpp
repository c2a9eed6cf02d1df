// SPDX-License-Identifier: Apache-2.0
// Whole programs in process: numbers, refusals, initializers, the C interface.
#include "autopar/Runtime/Session.h"
#include "SampleSession.h"
#include "autopar/Runtime/CApi.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

class SessionTest : public ::testing::Test {
protected:
  std::string folder = ::testing::TempDir() + "autopar-session-" + std::to_string(getpid());
  std::string path = folder + "/compiled.bin";

  void SetUp() override {
    (void)!system(("mkdir -p " + folder).c_str());
    writeSampleWeights(folder + "/weights.bin");
    kernels = readBytes(SAMPLE_KERNELS);
    ASSERT_FALSE(kernels.empty());
  }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  std::vector<uint8_t> kernels;

  artifact::Contents contents(int32_t ranks) {
    return sampleContents(ranks, kernels, "weights.bin");
  }

  std::unique_ptr<Session> open(const artifact::Contents &contents, SessionOptions options = {}) {
    Status written = artifact::writeArtifact(contents, path);
    EXPECT_TRUE(written.isOk()) << written.message();
    auto session = Session::open(path, std::move(options));
    EXPECT_TRUE(session.isOk()) << session.status().message();
    return session.isOk() ? session.take() : nullptr;
  }
};

TEST_F(SessionTest, ComputesWhatOneDeviceComputes) {
  expectSampleOutputsOfAllRanks(
      [&](int32_t ranks, SessionOptions options) {
        options.threads = std::max(options.threads, 1);
        artifact::Contents sample = contents(ranks);
        for (artifact::RankClass &rankClass : sample.classes)
          for (artifact::Entry &entry : rankClass.program.entries)
            for (artifact::Instruction &instruction : entry.instructions)
              instruction.flops = 1'000'000'000; // worth two threads
        return open(sample, std::move(options));
      },
      [](SessionOptions &options) { options.threads = 2; });
}

/// Its constants are read by several ranks, from memory that nobody can read in anew.
TEST_F(SessionTest, RunsAnArtifactThatIsNoFile) {
  expectSampleOutputsOfAllRanks(
      [&](int32_t ranks, SessionOptions options) -> std::unique_ptr<Session> {
        auto bytes = artifact::serialize(sampleContents(ranks, kernels, folder + "/weights.bin"));
        auto reader = artifact::Reader::fromBytes(*bytes, "in memory");
        auto session = Session::open(reader.take(), std::move(options));
        EXPECT_TRUE(session.isOk()) << session.status().message();
        return session.isOk() ? session.take() : nullptr;
      },
      [](SessionOptions &options) { options.threads = 1; });
}

TEST_F(SessionTest, ParametersOfManyEmptyRowsTakeNoTime) {
  artifact::Contents empty = contents(1);
  artifact::Program &program = empty.classes[0].program;
  artifact::Buffer buffer;
  buffer.shape = {int64_t{1} << 60, 0};
  program.buffers.push_back(buffer);
  program.ports.push_back({artifact::Role::Parameter,
                           "empty",
                           DataType::F32,
                           buffer.shape,
                           int32_t(program.buffers.size() - 1),
                           {artifact::SourceKind::Constants, "", 0, 0, {}, {}}});
  empty.ranks[0].ports.push_back({{0, 0}, buffer.shape, 0});
  EXPECT_TRUE(open(empty));
}

TEST_F(SessionTest, RanksThatWaitForeverAreTold) {
  for (int32_t workers : {1, 2}) {
    artifact::Contents stuck = contents(2);
    artifact::Instruction receive;
    receive.id = "nobody";
    receive.queue = artifact::Queue::Receive;
    receive.payload = artifact::Recv{0, 0, 16, 3};
    stuck.classes[0].program.entries[1].instructions.push_back(receive);
    stuck.ranks[0].peers = {1};
    stuck.ranks[1].peers = {0};
    SessionOptions options;
    options.workers = workers;
    auto session = open(stuck, std::move(options));
    ASSERT_TRUE(session);
    std::vector<float> x = sampleInput();
    ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, x.data()).isOk());
    Status status = session->run(0, 1);
    EXPECT_EQ(status.code(), StatusCode::BadInput);
    EXPECT_NE(status.message().find("all ranks wait for each other forever; compile the model "
                                    "again"),
              std::string::npos)
        << status.message();
  }
}

TEST_F(SessionTest, ARankThatThrowsFailsAndTheOthersDoNotWaitForIt) {
  for (int32_t workers : {1, 2}) {
    SessionOptions options;
    options.workers = workers;
    auto session = open(contents(2), std::move(options));
    ASSERT_TRUE(session);
    auto throws = [](int32_t rank, const std::vector<StateBox> &, const Session::BoxBytes &) {
      return rank == 1 ? throw std::bad_alloc() : Status::ok();
    };
    Status status = session->visitStates(throws);
    EXPECT_EQ(status.code(), StatusCode::Internal);
    EXPECT_EQ(status.message().rfind("rank 1", 0), 0u) << status.message();
  }
}

/// Packs a matrix [64, 4096] for products of four rows.
artifact::Instruction packWide(int32_t from, int32_t to) {
  artifact::MatmulGeometry geometry;
  geometry.a = {{4, 64}, {64, 1}};
  geometry.b = {{64, 4096}, {4096, 1}};
  geometry.c = {{4, 4096}, {4096, 1}};
  geometry.packedB = true;
  artifact::Instruction pack;
  pack.id = "wide/pack";
  pack.queue = artifact::Queue::Compute;
  pack.payload = artifact::Pack{from, to, geometry};
  return pack;
}

/// The second layout needs more memory than the first, for which there is none planned either.
TEST_F(SessionTest, PackedWeightsOfTwoLayoutsInOneBuffer) {
  artifact::Contents packed = contents(1);
  artifact::Program &program = packed.classes[0].program;
  artifact::Buffer wide;
  wide.name = "wide";
  wide.shape = {64, 4096};
  wide.bytes = 64 * 4096 * 4;
  wide.offset = program.arenaBytes[0];
  program.arenaBytes[0] += wide.bytes;
  program.buffers.push_back(wide);
  program.buffers[2].bytes = 64; // "w1.packed"
  program.buffers[2].shape = {64};
  artifact::Instruction pack = packWide(int32_t(program.buffers.size() - 1), 2);
  auto &load = program.entries[0].instructions;
  load.insert(load.begin(), pack);
  load.back().after = {1};
  load.push_back(pack);
  EXPECT_TRUE(open(packed));
}

/// The same in a step whose memory is that of a session beside it: there is no more room there.
TEST_F(SessionTest, WeightsThatAStepPacksIntoLentMemoryGetTheirOwn) {
  auto packing = [&](int64_t rows) {
    artifact::Contents result = contents(1);
    artifact::Program &program = result.classes[0].program;
    program.madeValues.emplace();
    std::vector<artifact::Buffer> added(2);
    added[0].shape = {rows, 4096};
    added[0].bytes = rows * 4096 * 4;
    added[1].shape = {64};
    added[1].dtype = DataType::U8;
    added[1].bytes = 64;
    for (artifact::Buffer &buffer : added) {
      buffer.offset = program.arenaBytes[0];
      program.arenaBytes[0] += buffer.bytes;
      program.buffers.push_back(buffer);
    }
    int32_t last = int32_t(program.buffers.size()) - 1;
    program.entries[1].instructions.push_back(packWide(last - 1, last));
    return result;
  };
  auto first = open(packing(128));
  ASSERT_TRUE(first);
  SessionOptions options;
  options.beside = first.get();
  auto second = open(packing(64), std::move(options));
  ASSERT_TRUE(second);
  RankMemory one = first->memory()[0], other = second->memory()[0];
  EXPECT_LT(other.arenaBytes[0], one.arenaBytes[0] / 2) << "memory is lent";
  EXPECT_GT(one.unplannedBytes, 0);
  EXPECT_EQ(other.unplannedBytes, one.unplannedBytes);
}

TEST_F(SessionTest, RefusesWrongInputs) {
  auto session = open(contents(2));
  ASSERT_TRUE(session);
  std::vector<float> x = sampleInput();
  Status missing = session->run(0, 1);
  EXPECT_EQ(missing.code(), StatusCode::BadInput);
  EXPECT_NE(missing.message().find("x: f32 [4,8]"), std::string::npos) << missing.message();
  Status name = session->setInput("z", DataType::F32, {kRows, kIn}, x.data());
  EXPECT_NE(name.message().find("'z'"), std::string::npos);
  EXPECT_NE(name.message().find("x: f32 [4,8]"), std::string::npos);
  EXPECT_EQ(session->setInput("x", DataType::F64, {kRows, kIn}, x.data()).code(),
            StatusCode::BadInput);
  EXPECT_EQ(session->setInput("x", DataType::F32, {kIn, kRows}, x.data()).code(),
            StatusCode::BadInput);
}

TEST_F(SessionTest, RefusesChangedWeights) {
  ASSERT_TRUE(artifact::writeArtifact(contents(2), path).isOk());
  {
    std::fstream file(folder + "/weights.bin", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);
    file.put('x');
  }
  auto session = Session::open(path, {});
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(session.status().code(), StatusCode::BadInput);
  EXPECT_NE(session.status().message().find("w1"), std::string::npos) << session.status().message();
  unlink((folder + "/weights.bin").c_str());
  session = Session::open(path, {});
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(session.status().code(), StatusCode::NoInput);
}

TEST_F(SessionTest, RefusesForeignTargetAndMissingSymbol) {
  artifact::Contents foreign = contents(1);
  foreign.target.features = "x86-64-v9";
  ASSERT_TRUE(artifact::writeArtifact(foreign, path).isOk());
  EXPECT_EQ(Session::open(path, {}).status().code(), StatusCode::Mismatch);
  artifact::Contents missing = contents(1);
  missing.classes[0].program.kernels[0] = "no_such_symbol";
  ASSERT_TRUE(artifact::writeArtifact(missing, path).isOk());
  Status status = Session::open(path, {}).status();
  EXPECT_EQ(status.code(), StatusCode::BadInput);
  EXPECT_NE(status.message().find("no_such_symbol"), std::string::npos);
}

TEST_F(SessionTest, AbsentWeightsNeedAnInitializerAndAreTheSameUnderAnySharding) {
  std::vector<std::vector<float>> results;
  for (int32_t ranks : {1, 2, 4}) {
    artifact::Contents absent = contents(ranks);
    for (artifact::Port &port : absent.classes[0].program.ports)
      if (port.role == artifact::Role::Parameter)
        port.source = {artifact::SourceKind::Absent, "", 0, 0, {}, {}};
    ASSERT_TRUE(artifact::writeArtifact(absent, path).isOk());
    Status refused = Session::open(path, {}).status();
    EXPECT_NE(refused.message().find("--init"), std::string::npos) << refused.message();
    SessionOptions options;
    options.initializer = *Initializer::parse("normal(0.5), seed=7");
    auto session = open(absent, std::move(options));
    ASSERT_TRUE(session);
    ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, sampleInput().data()).isOk());
    ASSERT_TRUE(session->run(0, 1).isOk());
    ASSERT_TRUE(session->collectOutputs().isOk());
    results.push_back(fetch(*session, "y", kRows * kOut));
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_NEAR(results[0][i], results[1][i], 1e-4f);
    EXPECT_NEAR(results[0][i], results[2][i], 1e-4f);
  }
}

TEST_F(SessionTest, OutputsOfOtherWeightsAreGoneOnceWeightsAreLoaded) {
  artifact::Contents absent = contents(1);
  for (artifact::Port &port : absent.classes[0].program.ports)
    if (port.role == artifact::Role::Parameter)
      port.source = {artifact::SourceKind::Absent, "", 0, 0, {}, {}};
  SessionOptions options;
  options.initializer = *Initializer::parse("zeros");
  auto session = open(absent, std::move(options));
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, sampleInput().data()).isOk());
  ASSERT_TRUE(session->run(0, 1).isOk());
  ASSERT_TRUE(session->collectOutputs().isOk());
  EXPECT_TRUE(session->output("y").isOk());
  Status loaded = session->loadWeights(*Initializer::parse("ones"));
  ASSERT_TRUE(loaded.isOk()) << loaded.message();
  EXPECT_FALSE(session->output("y").isOk());
}

TEST_F(SessionTest, RecordsEvents) {
  SessionOptions options;
  options.record = true;
  auto session = open(contents(2), std::move(options));
  ASSERT_TRUE(session);
  ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, sampleInput().data()).isOk());
  session->clearEvents();
  ASSERT_TRUE(session->run(0, 2).isOk());
  ASSERT_EQ(session->events().size(), 2u);
  for (const RankEvents &rank : session->events()) {
    EXPECT_EQ(rank.events->size(), 8u);
    for (const ExecutionEvent &event : *rank.events)
      EXPECT_LE(event.beginNs, event.endNs);
  }
}

TEST_F(SessionTest, CInterface) {
  ASSERT_TRUE(artifact::writeArtifact(contents(2), path).isOk());
  AutoParSession *session = nullptr;
  EXPECT_EQ(autoparOpen("/no/such.bin", 0, nullptr, &session), 66);
  EXPECT_NE(std::string(autoparLastError()).find("/no/such.bin"), std::string::npos);
  ASSERT_EQ(autoparOpen(path.c_str(), 0, nullptr, &session), 0) << autoparLastError();
  AutoParTensor tensor;
  ASSERT_EQ(autoparInputCount(session), 1);
  ASSERT_EQ(autoparInput(session, 0, &tensor), 0);
  EXPECT_STREQ(tensor.name, "x");
  EXPECT_EQ(tensor.rank, 2);
  EXPECT_EQ(autoparInput(session, 1, &tensor), 65);
  int64_t shape[] = {kRows, kIn};
  std::vector<float> x = sampleInput(), y(kRows * kOut), expected = sampleOutput();
  EXPECT_EQ(autoparRun(session, 1), 65);
  ASSERT_EQ(autoparSetInput(session, "x", int32_t(DataType::F32), 2, shape, x.data()), 0)
      << autoparLastError();
  ASSERT_EQ(autoparRun(session, 1), 0) << autoparLastError();
  ASSERT_EQ(autoparGetOutput(session, "y", y.data(), int64_t(y.size() * 4)), 0)
      << autoparLastError();
  EXPECT_EQ(autoparGetOutput(session, "y", y.data(), 4), 65);
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-4f);
  autoparClose(session);
}

TEST_F(SessionTest, CInterfaceOpensProgramsBesideEachOtherInAWorld) {
  artifact::Contents told = contents(2);
  told.classes[0].program.madeValues.emplace();
  ASSERT_TRUE(artifact::writeArtifact(told, path).isOk());
  AutoParWorld *world = nullptr;
  ASSERT_EQ(autoparJoin(&world), 0) << autoparLastError();
  EXPECT_EQ(autoparRank(world), 0);
  EXPECT_EQ(autoparProcesses(world), 1);
  AutoParOptions options = {1, nullptr, nullptr, world};
  AutoParSession *first = nullptr, *second = nullptr;
  EXPECT_EQ(autoparOpenWith(path.c_str(), nullptr, &first), 65);
  EXPECT_STREQ(autoparLastError(), "options must not be null; all of them may be 0");
  ASSERT_EQ(autoparOpenWith(path.c_str(), &options, &first), 0) << autoparLastError();
  options.beside = first;
  ASSERT_EQ(autoparOpenWith(path.c_str(), &options, &second), 0) << autoparLastError();
  EXPECT_EQ(autoparSharedBytes(first), 0);
  EXPECT_GT(autoparSharedBytes(second), 0);
  EXPECT_LE(autoparOwnBytes(second), autoparOwnBytes(first) + 256);
  std::vector<float> x = sampleInput(), y(kRows * kOut), expected = sampleOutput();
  EXPECT_EQ(autoparBroadcast(second, x.data(), int64_t(x.size() * 4)), 0) << autoparLastError();
  EXPECT_EQ(x, sampleInput());
  int64_t shape[] = {kRows, kIn};
  ASSERT_EQ(autoparSetInput(first, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  ASSERT_EQ(autoparSetInput(second, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  EXPECT_EQ(autoparRun(first, 1), 65) << "its input is gone";
  EXPECT_EQ(std::string(autoparLastError()).rfind("inputs without a value: x", 0), 0u);
  ASSERT_EQ(autoparSetInput(first, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  ASSERT_EQ(autoparRun(first, 1), 0) << autoparLastError();
  ASSERT_EQ(autoparSetInput(second, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  EXPECT_EQ(autoparGetOutput(first, "y", y.data(), int64_t(y.size() * 4)), 65) << "likewise";
  autoparClose(first); // what it holds stays
  ASSERT_EQ(autoparSetInput(second, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  ASSERT_EQ(autoparRun(second, 1), 0) << autoparLastError();
  ASSERT_EQ(autoparGetOutput(second, "y", y.data(), int64_t(y.size() * 4)), 0);
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-4f);
  EXPECT_EQ(autoparLoadWeights(second, "no-such.safetensors"), 66) << autoparLastError();
  autoparClose(second);
  autoparLeave(world, nullptr);
}

TEST_F(SessionTest, CInterfaceSaysWhatIsWrong) {
  ASSERT_TRUE(artifact::writeArtifact(contents(2), path).isOk());
  AutoParSession *session = nullptr;
  AutoParTensor tensor;
  int64_t shape[] = {kRows, kIn};
  std::vector<float> x = sampleInput();
  auto errorOf = [](int32_t code) {
    EXPECT_EQ(code, 65);
    return std::string(autoparLastError());
  };
  EXPECT_EQ(errorOf(autoparOpen(nullptr, 0, nullptr, &session)),
            "path and session must not be null");
  ASSERT_EQ(autoparOpen(path.c_str(), 0, nullptr, &session), 0) << autoparLastError();
  EXPECT_EQ(errorOf(autoparInput(session, 1, &tensor)), "there is no tensor 1, the program has 1");
  EXPECT_EQ(errorOf(autoparSetInput(session, "x", 99, 2, shape, x.data())),
            "name, shape and data must not be null, and the element type must be 0 to 17");
  EXPECT_EQ(errorOf(autoparRun(session, 0)), "steps must be at least 1");
  EXPECT_EQ(errorOf(autoparEvaluate(session, nullptr)), "values must not be null");
  double value = 0;
  EXPECT_EQ(autoparEvaluatedCount(session), 0);
  EXPECT_EQ(autoparEvaluated(session, 0), nullptr);
  EXPECT_EQ(errorOf(autoparEvaluate(session, &value)),
            path + " has no loss to evaluate: compile the model with --train");
  ASSERT_EQ(autoparSetInput(session, "x", int32_t(DataType::F32), 2, shape, x.data()), 0);
  ASSERT_EQ(autoparRun(session, 1), 0) << autoparLastError();
  EXPECT_EQ(errorOf(autoparGetOutput(session, nullptr, x.data(), 4)),
            "name and data must not be null");
  EXPECT_EQ(errorOf(autoparGetOutput(session, "y", x.data(), 4)),
            "output y has 80 bytes, there is room for 4");
  EXPECT_EQ(errorOf(autoparGetOutput(session, "z", x.data(), 4)),
            "there is no output 'z' here; the outputs are y: f32 [4,5], hidden: f32 [4,8]");
  autoparClose(session);
}

TEST_F(SessionTest, ForeignTargetsAreNamed) {
  auto errorOf = [&](const std::string &architecture, const std::string &features) {
    artifact::Contents foreign = contents(1);
    foreign.target = {architecture, features};
    EXPECT_TRUE(artifact::writeArtifact(foreign, path).isOk());
    Status status = Session::open(path, {}).status();
    EXPECT_EQ(status.code(), StatusCode::Mismatch);
    EXPECT_EQ(status.message().rfind(path + ": ", 0), 0u) << status.message();
    return status.message().substr(path.size() + 2);
  };
  EXPECT_EQ(errorOf("arm64", "v9"),
            "the artifact is for arm64, this machine is x86-64; compile the "
            "model for this machine");
  for (const char *features : {"x86-64-v9", "x86-64-v4+fpu"})
    EXPECT_EQ(errorOf("x86-64", features),
              "the artifact wants CPU features '" + std::string(features) +
                  "', which this program does not know; use a newer autopar-run");
}

TEST_F(SessionTest, WeightsOfAnotherSizeAreNamed) {
  ASSERT_TRUE(artifact::writeArtifact(contents(2), path).isOk());
  std::string weights = folder + "/weights.bin";
  const std::string where = "rank 0, loading, load[0] w1/read: parameter w1: ";
  auto errorOf = [&] { return Session::open(path, {}).status().message(); };
  {
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);
    file.put('x');
  }
  EXPECT_EQ(errorOf(), where + "the digest of its bytes in weights.bin does not match; the file "
                               "was changed since the model was compiled");
  ASSERT_EQ(truncate(weights.c_str(), 100), 0);
  EXPECT_EQ(errorOf(), where + "weights.bin has 100 bytes, needed are 272; the file is not the one "
                               "the model was compiled with");
}

TEST_F(SessionTest, MemoryThatIsNotThereIsNamed) {
  auto errorOf = [&](size_t space) {
    artifact::Contents large = contents(1);
    large.classes[0].program.arenaBytes[space] = int64_t{1} << 60;
    EXPECT_TRUE(artifact::writeArtifact(large, path).isOk());
    return Session::open(path, {}).status();
  };
  EXPECT_EQ(errorOf(0).code(), StatusCode::NoDevice);
  EXPECT_NE(errorOf(0).message().find(
                "cannot allocate an arena of 1152921504606846976 bytes: Cannot allocate memory"),
            std::string::npos)
      << errorOf(0).message();
  EXPECT_NE(errorOf(2).message().find(
                "the program wants disk buffers, which the cpu device does not offer"),
            std::string::npos)
      << errorOf(2).message();
}

TEST_F(SessionTest, AbsentWeightsSayWhereTheyMayComeFrom) {
  artifact::Contents absent = contents(1);
  for (artifact::Port &port : absent.classes[0].program.ports)
    if (port.role == artifact::Role::Parameter)
      port.source = {artifact::SourceKind::Absent, "", 0, 0, {}, {}};
  ASSERT_TRUE(artifact::writeArtifact(absent, path).isOk());
  Status problem = Session::open(path, {}).status();
  EXPECT_EQ(problem.code(), StatusCode::NoInput);
  EXPECT_NE(
      problem.message().find(" has no weights: the model was compiled without them; give --init "
                             "\"normal(0.02)\" for random ones, or --init weights.safetensors"),
      std::string::npos);
}

TEST_F(SessionTest, ProgramsThatDisagreeAboutATensorAreRefused) {
  artifact::Contents two = contents(2);
  two.classes.push_back(two.classes[0]);
  two.ranks[1].rankClass = 1;
  two.classes[1].program.ports[1].shape = {kRows, kOut + 1};
  ASSERT_TRUE(artifact::writeArtifact(two, path).isOk());
  EXPECT_EQ(Session::open(path, {}).status().message(),
            path + ": programs disagree about 'y': y: f32 [4,5], y: f32 [4,6]");
}

TEST_F(SessionTest, WhatAllProgramsEvaluateIsOffered) {
  for (bool isOfBoth : {true, false}) {
    artifact::Contents two = contents(2);
    artifact::Program &program = two.classes[0].program;
    artifact::Buffer buffer = program.buffers[0];
    buffer.shape.clear();
    program.buffers.push_back(buffer);
    for (const char *name : {"loss", "accuracy"}) {
      artifact::Port port{artifact::Role::Metric, name, DataType::F32, {}, 0, {}};
      port.buffer = int32_t(program.buffers.size() - 1);
      port.evaluated = true;
      program.ports.push_back(port);
    }
    for (int32_t rank : {0, 1})
      two.ranks[size_t(rank)].ports.insert(two.ranks[size_t(rank)].ports.end(), 2, {{}, {}, rank});
    two.classes.push_back(two.classes[0]);
    two.ranks[1].rankClass = 1;
    two.classes[1].program.ports.back().evaluated = isOfBoth;
    auto session = open(two);
    ASSERT_TRUE(session);
    EXPECT_EQ(session->evaluated(), isOfBoth ? (std::vector<std::string>{"loss", "accuracy"})
                                             : std::vector<std::string>{"loss"});
  }
}

} // namespace
