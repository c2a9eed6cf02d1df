// SPDX-License-Identifier: Apache-2.0
// How communicators by NCCL end when something is lost, and captures that fail. The emulated NCCL
// dies where the real one would wait for ever.
#include "../../lib/Runtime/comm/nccl/NcclCommunicator.h"
#include "../../lib/Runtime/core/CapturedStep.h"
#include "../../lib/Runtime/device/cuda/CudaStreams.h"
#include "TestDevice.h"

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;

namespace {

[[maybe_unused]] const bool areSet = [] {
  setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "2", 1);
  setenv("AUTOPAR_EMULATED_NCCL_PATIENCE_MS", "3000", 1);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  return true;
}();

constexpr int32_t kTag = 5;
constexpr int64_t kBytes = 256;

/// A GPU with one buffer.
struct OwnDevice {
  Program program;
  std::unique_ptr<Device> device;

  explicit OwnDevice(int32_t rank) {
    Buffer buffer;
    buffer.dtype = DataType::U8;
    buffer.shape = {kBytes};
    buffer.bytes = program.arenaBytes[0] = kBytes;
    program.buffers = {buffer};
    CudaOptions options;
    options.libraries = autopar::testing::cudaLibraries();
    options.localRank = rank;
    options.target = {"cuda", CudaTarget().toText()};
    auto made = createCudaDevice(options);
    EXPECT_TRUE(made.isOk()) << made.status().message();
    device = made.take();
    EXPECT_TRUE(device->prepare(program).isOk());
  }
  uint8_t *at(int64_t offset) { return static_cast<uint8_t *>(device->address(0, 0)) + offset; }
};

NcclOptions optionsFor(int32_t rank, Communicator &host, Device &device,
                       std::vector<uint8_t> &ids) {
  NcclOptions options;
  options.host = &host;
  options.device = &device;
  options.ids = &ids;
  options.plan.uses = {{NcclUse::Kind::Group, {0, 1}, 0}, {NcclUse::Kind::Messages, {1, 0}, 0}};
  options.plan.numbers[{1, 0, kTag}] = 0;
  options.timeout = std::chrono::seconds(rank < 0 ? 0 : 30);
  return options;
}

struct Rank {
  std::atomic<bool> hasLostPeer{false};
  std::vector<uint8_t> ids;
  std::unique_ptr<Communicator> host;
  OwnDevice own;
  std::unique_ptr<Communicator> nccl;

  Rank(int32_t rank, std::unique_ptr<Transport> transport)
      : host(createMessageCommunicator(std::move(transport))), own(rank) {
    NcclOptions options = optionsFor(rank, *host, *own.device, ids);
    options.verdict = [this] { return hasLostPeer ? Status::peerLost("a rank") : Status::ok(); };
    auto made = createNcclCommunicator(std::move(options));
    EXPECT_TRUE(made.isOk()) << made.status().message();
    nccl = made.take();
  }
};

void onBoth(const std::function<void(int32_t)> &body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

const std::vector<int32_t> both = {0, 1};

Result<Token> sum(Rank &rank) {
  return rank.nccl->collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, 8,
                                rank.own.at(0), rank.own.at(64), &both});
}

class NcclOfTwo : public ::testing::Test {
protected:
  std::array<std::unique_ptr<Rank>, 2> ranks;

  void SetUp() override {
    auto transports = createInProcessTransports(2);
    onBoth([&](int32_t r) {
      ranks[size_t(r)] = std::make_unique<Rank>(r, std::move(transports[size_t(r)]));
    });
  }
  /// A graph that runs until the other rank launches its own, which never happens.
  void launchGraph(Rank &rank) {
    Capture &capture = *rank.own.device->capture();
    ASSERT_TRUE(capture.begin().isOk());
    auto recorded = sum(rank);
    ASSERT_TRUE(recorded.isOk()) << recorded.status().message();
    auto graph = capture.end();
    ASSERT_TRUE(graph.isOk()) << graph.status().message();
    ASSERT_TRUE(capture.launch(*graph).isOk());
  }
  void receive(Rank &rank) {
    auto token = rank.nccl->receive(1, kTag, rank.own.at(128), 4);
    ASSERT_TRUE(token.isOk()) << token.status().message();
    // NCCL gives it to its stream some calls later.
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(*rank.nccl->test(*token), false);
  }
  void TearDown() override {
    onBoth([&](int32_t r) {
      if (ranks[size_t(r)]->nccl)
        ranks[size_t(r)]->nccl->abort(Status::peerLost("the other rank"));
      ranks[size_t(r)].reset();
    });
  }
};

TEST_F(NcclOfTwo, AbortsWhereAGraphHasItsOperations) {
  launchGraph(*ranks[0]);
  ranks[0]->nccl->abort(Status::peerLost("rank 1"));
}

TEST_F(NcclOfTwo, AbortsWhereSeveralCommunicatorsWait) {
  ASSERT_TRUE(sum(*ranks[0]).isOk());
  receive(*ranks[0]);
  ranks[0]->nccl->abort(Status::peerLost("rank 1"));
}

TEST_F(NcclOfTwo, AbortsWithinACapture) {
  Capture &capture = *ranks[0]->own.device->capture();
  ASSERT_TRUE(capture.begin().isOk());
  ASSERT_TRUE(sum(*ranks[0]).isOk());
  ranks[0]->nccl->abort(Status::peerLost("rank 1"));
}

TEST_F(NcclOfTwo, EndsWhereTheOtherRankIsLostBehindTheLastStep) {
  ranks[0]->hasLostPeer = true;
  ranks[0]->nccl.reset();
}

/// A host that takes messages and delivers them when nobody waits any more.
class LateHost : public Communicator {
public:
  void *wanted = nullptr;
  int32_t rank() const override { return 1; }
  int32_t worldSize() const override { return 2; }
  Result<Token> collective(const CollectiveCall &) override { return Token{1}; }
  Result<Token> permute(const void *, void *, int64_t, int32_t, int32_t) override {
    return Token{1};
  }
  Result<Token> send(int32_t, int32_t, const void *, int64_t) override { return Token{1}; }
  Result<Token> receive(int32_t, int32_t, void *data, int64_t) override {
    wanted = wanted ? wanted : data;
    return Token{1};
  }
  Result<bool> test(Token) override { return false; }
  void wait(std::chrono::microseconds) override {}
  void abort(const Status &) override {}
};

TEST(NcclIds, MayComeWhenConnectingHasFailed) {
  std::vector<uint8_t> ids;
  LateHost host;
  OwnDevice own(1);
  auto made = createNcclCommunicator(optionsFor(-1, host, *own.device, ids));
  ASSERT_FALSE(made.isOk());
  EXPECT_EQ(made.status().message(), "not all ranks came in time to meet by NCCL");
  std::memset(host.wanted, 7, 128);
  EXPECT_EQ(std::vector<uint8_t>(ids.begin(), ids.begin() + 128), std::vector<uint8_t>(128, 7));
}

/// A step of two instructions, of which `issue` may refuse or spoil the second.
class FailingCapture : public ::testing::Test {
protected:
  OwnDevice own{0};
  Program program;

  void expectFailure(const std::string &text,
                     const std::function<Status(const Instruction &)> &beforeIssue) {
    program = own.program;
    program.entries = {{"step", {}}};
    program.timetable = {{0, 0}};
    for (const char *id : {"first", "second"}) {
      Instruction instruction;
      instruction.queue = Queue::CopyIn;
      instruction.id = id;
      program.entries[0].instructions.push_back(instruction);
    }
    SharedProgram shared(program);
    CapturedStep step(shared, *own.device,
                      [&](const Instruction &instruction, int32_t,
                          std::span<const Token> after) -> Result<Token> {
                        AUTOPAR_RETURN_IF_ERROR(beforeIssue(instruction));
                        auto *streams = own.device->cudaStreams();
                        auto stream = streams->behind(instruction.queue, after);
                        return stream ? streams->record(*stream) : Result<Token>(stream.status());
                      });
    EXPECT_FALSE(step.start(StepKind::Whole));
    EXPECT_TRUE(step.start(StepKind::Whole));
    auto failed = step.advance([] { return Result<bool>(true); });
    ASSERT_FALSE(failed.isOk());
    EXPECT_NE(failed.status().message().find(text), std::string::npos) << failed.status().message();
    // The streams are free for another one, and for all else.
    Capture &capture = *own.device->capture();
    Status again = capture.begin();
    EXPECT_TRUE(again.isOk()) << again.message();
    EXPECT_TRUE(capture.end().isOk());
    uint8_t byte = 3;
    EXPECT_TRUE(own.device->write(0, 0, &byte, 1).isOk());
  }
};

TEST_F(FailingCapture, EndsWhereAnInstructionIsRefused) {
  expectFailure("no such thing", [](const Instruction &instruction) {
    return instruction.id == "second" ? Status::badInput("no such thing") : Status::ok();
  });
}

TEST_F(FailingCapture, EndsWhereItBroke) {
  expectFailure("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", [&](const Instruction &instruction) {
    // Nothing may be allocated within a capture.
    if (instruction.id == "second")
      EXPECT_FALSE(own.device->staging()->allocate(64).isOk());
    return Status::ok();
  });
}

} // namespace
