// SPDX-License-Identifier: Apache-2.0
// The conformance suite of communicators: every transport passes the same tests. In-process and
// Gloo ranks are threads of this program; for MPI, mpirun starts this program once per rank (see
// CMakeLists.txt) and each runs its side. Built for GPUs, the ranks are threads whose bytes lie in
// the memory of emulated GPUs, or of the machine's.
#include "autopar/Runtime/Communicator.h"
#include "autopar/Runtime/Rendezvous.h"

#ifdef AUTOPAR_CONFORMANCE_OF_GPUS
#include "GpuWorld.h"
#endif

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using artifact::CollectiveKind;
using artifact::Reduction;

namespace {

struct World {
  std::string transport;
  int32_t size;
};

using Body = std::function<void(Communicator &)>;

int32_t mpiSize() {
  const char *text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text ? std::atoi(text) : 0;
}

/// MPI can be initialized once per process, so its communicator is kept.
Communicator &mpiCommunicator() {
  static std::unique_ptr<Communicator> kept = [] {
    TransportOptions options;
    options.rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
    options.worldSize = mpiSize();
    auto transport = loadTransport("mpi", options);
    EXPECT_TRUE(transport.isOk()) << transport.status().message();
    return createMessageCommunicator(transport.take());
  }();
  return *kept;
}

void runThreads(const World &world, const Body &body) {
  auto rendezvous = createInProcessRendezvous(world.size);
  std::vector<std::unique_ptr<Transport>> local = createInProcessTransports(world.size);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < world.size; ++rank)
    threads.emplace_back([&, rank] {
      std::unique_ptr<Transport> transport = std::move(local[size_t(rank)]);
      if (world.transport == "gloo") {
        TransportOptions options{rank, world.size, rendezvous[size_t(rank)].get(), "127.0.0.1",
                                 std::chrono::seconds(30)};
        auto loaded = loadTransport("gloo", options);
        ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
        transport = loaded.take();
      }
      auto communicator = createMessageCommunicator(std::move(transport));
#ifdef AUTOPAR_CONFORMANCE_OF_GPUS
      communicator = autopar::testing::overGpu(std::move(communicator), world.transport == "nccl");
#endif
      body(*communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
}

class Conformance : public ::testing::TestWithParam<World> {
protected:
  void run(const Body &body) {
    if (GetParam().transport != "mpi")
      return runThreads(GetParam(), body);
    body(mpiCommunicator());
  }
  bool isOverGpu() const { return isNccl() || GetParam().transport == "staged"; }
  /// NCCL adds in an order of its own.
  bool isNccl() const { return GetParam().transport == "nccl"; }
  bool isSum(float got, const std::vector<int32_t> &members, int64_t i, int32_t shift = 0) const;
  int32_t size() const { return GetParam().transport == "mpi" ? mpiSize() : GetParam().size; }
};

void finish(Communicator &communicator, Result<Token> token) {
  ASSERT_TRUE(token.isOk()) << token.status().message();
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (true) {
    auto done = communicator.test(*token);
    ASSERT_TRUE(done.isOk()) << done.status().message();
    if (*done)
      return;
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "stuck";
    communicator.wait(std::chrono::microseconds(200));
  }
}

std::vector<int32_t> everybody(int32_t size) {
  std::vector<int32_t> members;
  for (int32_t rank = 0; rank < size; ++rank)
    members.push_back(rank);
  return members;
}

/// Numbers of many magnitudes: their float sum depends on the order.
float element(int32_t rank, int64_t i) {
  uint32_t hash = (uint32_t(i) * 2654435761u) ^ (uint32_t(rank + 1) * 2246822519u);
  hash ^= hash >> 15;
  hash *= 2246822519u;
  return (float(hash >> 8) - 8388608.0f) / float(1u << (hash & 15));
}

std::vector<float> contribution(int32_t rank, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(element(rank, i));
  return values;
}

bool Conformance::isSum(float got, const std::vector<int32_t> &members, int64_t i,
                        int32_t shift) const {
  float sum = element(members[0] + shift, i), size = std::fabs(sum);
  for (size_t m = 1; m < members.size(); ++m) {
    sum += element(members[m] + shift, i);
    size += std::fabs(element(members[m] + shift, i));
  }
  return isNccl() ? std::fabs(got - sum) <= 1e-6f * size : got == sum;
}

TEST_P(Conformance, AllReduceAddsInMemberOrder) {
  // Several chunks; what GPUs exchange lies in files where they are emulated.
  for (int64_t count : {1, 3, 1000, isOverGpu() ? 300001 : 2500001})
    run([&](Communicator &c) {
      std::vector<int32_t> members = everybody(size());
      std::vector<float> in = contribution(c.rank(), count), out(in.size());
      finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, count,
                              in.data(), out.data(), &members}));
      int64_t wrong = 0;
      for (int64_t i = 0; i < count; ++i)
        wrong += !isSum(out[size_t(i)], members, i);
      EXPECT_EQ(wrong, 0) << "of " << count;
      // In place, same bits.
      finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, count,
                              in.data(), in.data(), &members}));
      EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size() * 4), 0);
    });
}

TEST_P(Conformance, ReductionsAndTypes) {
  run([&](Communicator &c) {
    std::vector<int32_t> members = everybody(size());
    std::vector<int64_t> in = {c.rank() + 1, -c.rank(), 5}, out(3);
    auto reduce = [&](Reduction reduction) {
      finish(c, c.collective({CollectiveKind::AllReduce, reduction, DataType::I64, 3, in.data(),
                              out.data(), &members}));
    };
    int64_t n = size(), factorial = 1;
    for (int64_t i = 2; i <= n; ++i)
      factorial *= i;
    reduce(Reduction::Sum);
    EXPECT_EQ(out, (std::vector<int64_t>{n * (n + 1) / 2, -n * (n - 1) / 2, 5 * n}));
    reduce(Reduction::Max);
    EXPECT_EQ(out, (std::vector<int64_t>{n, 0, 5}));
    reduce(Reduction::Min);
    EXPECT_EQ(out, (std::vector<int64_t>{1, -(n - 1), 5}));
    reduce(Reduction::Prod);
    EXPECT_EQ(out[0], factorial);
    // bf16 accumulates in f32: 256 + n times 1 does not get stuck at 256.
    std::vector<uint16_t> bf = {uint16_t(c.rank() == 0 ? 0x4380 : 0x3f80)}, sum(1); // 256, 1
    finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::BF16, 1, bf.data(),
                            sum.data(), &members}));
    float expected = 256.0f + float(n - 1), got;
    uint32_t wide = uint32_t(sum[0]) << 16;
    std::memcpy(&got, &wide, 4);
    EXPECT_NEAR(got, expected, 1.0f);
    std::vector<uint8_t> flag = {uint8_t(c.rank() == n - 1)}, any(1);
    finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Max, DataType::Bool, 1,
                            flag.data(), any.data(), &members}));
    EXPECT_EQ(any[0], 1);
  });
}

TEST_P(Conformance, ReduceScatter) {
  run([&](Communicator &c) {
    std::vector<int32_t> members = everybody(size());
    int64_t part = 70001, count = part * size();
    std::vector<float> in = contribution(c.rank(), count), out(static_cast<size_t>(part));
    finish(c, c.collective({CollectiveKind::ReduceScatter, Reduction::Sum, DataType::F32, count,
                            in.data(), out.data(), &members}));
    int64_t wrong = 0;
    for (int64_t i = 0; i < part; ++i)
      wrong += !isSum(out[size_t(i)], members, c.rank() * part + i);
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(Conformance, GatherToAllAndBroadcast) {
  run([&](Communicator &c) {
    std::vector<int32_t> members = everybody(size());
    int32_t n = size();
    std::vector<int32_t> own = {c.rank(), c.rank() * 10}, all(size_t(2 * n));
    finish(c, c.collective({CollectiveKind::AllGather, Reduction::Sum, DataType::I32, 2, own.data(),
                            all.data(), &members}));
    for (int32_t r = 0; r < n; ++r)
      EXPECT_EQ(all[size_t(2 * r + 1)], r * 10);
    std::vector<int32_t> parts(static_cast<size_t>(n)), swapped(parts.size());
    for (int32_t r = 0; r < n; ++r)
      parts[size_t(r)] = c.rank() * 100 + r;
    for (bool inPlace : {false, true}) {
      int32_t *out = inPlace ? parts.data() : swapped.data();
      finish(c, c.collective({CollectiveKind::AllToAll, Reduction::Sum, DataType::I32, n,
                              parts.data(), out, &members}));
      for (int32_t r = 0; r < n; ++r)
        EXPECT_EQ(out[r], r * 100 + c.rank());
    }
    std::vector<int32_t> word = {c.rank() + 42};
    finish(c, c.collective({CollectiveKind::Broadcast, Reduction::Sum, DataType::I32, 1,
                            word.data(), word.data(), &members}));
    EXPECT_EQ(word[0], 42);
  });
}

TEST_P(Conformance, GroupsInAnyOrder) {
  run([&](Communicator &c) {
    // Two halves at once, the first listed backwards.
    std::vector<int32_t> members;
    int32_t half = (size() + 1) / 2;
    if (c.rank() < half)
      for (int32_t r = half - 1; r >= 0; --r)
        members.push_back(r);
    else
      for (int32_t r = half; r < size(); ++r)
        members.push_back(r);
    std::vector<float> in = contribution(c.rank(), 100), out(100);
    finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, 100,
                            in.data(), out.data(), &members}));
    for (int64_t i = 0; i < 100; ++i)
      EXPECT_TRUE(isSum(out[size_t(i)], members, i));
  });
}

TEST_P(Conformance, PermuteAndMessages) {
  run([&](Communicator &c) {
    int32_t n = size(), me = c.rank();
    std::vector<int32_t> in(1000, me), out(1000, -1);
    finish(c, c.permute(in.data(), out.data(), 4000, (me + 1) % n, (me + n - 1) % n));
    EXPECT_EQ(out[999], (me + n - 1) % n);
    // A line: the first receives nothing and gets zeros.
    finish(c, c.permute(in.data(), out.data(), 4000, me + 1 < n ? me + 1 : -1, me - 1));
    EXPECT_EQ(out[0], me == 0 ? 0 : me - 1);
    // Messages of one pair keep their order, tags keep them apart.
    if (n > 1 && me < 2) {
      int32_t a = 1, b = 2, x = 0, y = 0, other = 1 - me;
      std::vector<Result<Token>> tokens = {c.send(other, 5, &a, 4), c.send(other, 6, &b, 4),
                                           c.receive(other, 6, &y, 4), c.receive(other, 5, &x, 4)};
      for (auto &token : tokens)
        finish(c, token);
      EXPECT_EQ(x, 1);
      EXPECT_EQ(y, 2);
    }
  });
}

TEST_P(Conformance, EmptyAndRepeated) {
  run([&](Communicator &c) {
    std::vector<int32_t> members = everybody(size());
    float nothing = 0;
    finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, 0, &nothing,
                            &nothing, &members}));
    for (int i = 0; i < 200; ++i) {
      std::vector<float> in = contribution(c.rank() + i, 64), out(64);
      finish(c, c.collective({CollectiveKind::AllReduce, Reduction::Sum, DataType::F32, 64,
                              in.data(), out.data(), &members}));
      ASSERT_TRUE(isSum(out[5], members, 5, i));
    }
  });
}

std::vector<World> worlds() {
#ifdef AUTOPAR_CONFORMANCE_OF_GPUS
  return autopar::testing::gpuWorlds<World>();
#endif
  if (mpiSize() > 0)
    return {{"mpi", mpiSize()}};
  std::vector<World> all;
  for (int32_t size : {1, 2, 3, 4, 7})
    all.push_back({"inprocess", size});
#ifdef AUTOPAR_HAS_GLOO
  for (int32_t size : {1, 2, 3, 4})
    all.push_back({"gloo", size});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, ::testing::ValuesIn(worlds()),
                         [](const auto &info) {
                           return info.param.transport + std::to_string(info.param.size);
                         });

#if defined(AUTOPAR_HAS_GLOO) && !defined(AUTOPAR_CONFORMANCE_OF_GPUS)
TEST(Gloo, SocketsOfOthersKeepTheirTimeouts) {
  int other = socket(AF_INET, SOCK_STREAM, 0);
  if (mpiSize() == 0)
    runThreads({"gloo", 2}, [](Communicator &) {});
  unsigned limitMs = 1;
  socklen_t length = sizeof(limitMs);
  ASSERT_EQ(getsockopt(other, IPPROTO_TCP, TCP_USER_TIMEOUT, &limitMs, &length), 0);
  EXPECT_EQ(limitMs, 0u);
  close(other);
}

/// Rank 0 listens for a peer of an address behind its own, which has died and never comes.
TEST(Gloo, APeerThatFailsEndsTheWaitForItsConnection) {
  auto rendezvous = createInProcessRendezvous(2);
  std::thread peer([&] {
    auto listens = rendezvous[1]->get("gloo/0/1", std::chrono::seconds(30));
    ASSERT_TRUE(listens.isOk()) << listens.status().message();
    std::string address = listens.take();
    sockaddr_in own;
    size_t begin = address.find('\0') + 1;
    ASSERT_GE(address.size(), begin + sizeof(own));
    std::memcpy(&own, address.data() + begin, sizeof(own));
    ASSERT_EQ(own.sin_family, AF_INET);
    own.sin_port = 0xFFFF;
    std::memcpy(address.data() + begin, &own, sizeof(own));
    ASSERT_TRUE(rendezvous[1]->put("gloo/1/0", address).isOk());
    std::this_thread::sleep_for(std::chrono::milliseconds(300)); // it waits in Gloo by now
    rendezvous[1]->fail(Status::badInput("disk on fire"));
  });
  auto begin = std::chrono::steady_clock::now();
  auto transport =
      loadTransport("gloo", {0, 2, rendezvous[0].get(), "127.0.0.1", std::chrono::seconds(60)});
  peer.join();
  ASSERT_FALSE(transport.isOk());
  EXPECT_EQ(transport.status().message(), "rank 1 failed: disk on fire");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}
#endif

TEST(InProcess, AbortNamesTheRank) {
  auto transports = createInProcessTransports(2);
  auto first = createMessageCommunicator(std::move(transports[0])),
       second = createMessageCommunicator(std::move(transports[1]));
  int32_t word = 0;
  auto token = first->receive(1, 0, &word, 4);
  second->abort(Status::badInput("disk on fire"));
  auto done = first->test(*token);
  ASSERT_FALSE(done.isOk());
  EXPECT_EQ(done.status().code(), StatusCode::PeerLost);
  EXPECT_NE(done.status().message().find("rank 1 failed: disk on fire"), std::string::npos);
}

TEST(InProcess, SizesThatDisagreeAreNamed) {
  auto transports = createInProcessTransports(2);
  int64_t word = 0;
  ASSERT_TRUE(transports[0]->send(1, 0, &word, 8).isOk());
  EXPECT_EQ(transports[1]->receive(0, 0, &word, 4).status().message(),
            "ranks 0 and 1 disagree about a message's size");
}

TEST(InProcess, ABorrowedMessageEndsWhenItIsGivenBack) {
  auto transports = createInProcessTransports(2);
  for (bool isSentFirst : {true, false}) {
    int32_t word = 7;
    Loan loan;
    uint64_t tag = isSentFirst;
    auto send = [&] { return transports[0]->send(1, tag, &word, 4); };
    auto borrow = [&] { return transports[1]->borrow(0, tag, loan, 4); };
    auto first = isSentFirst ? send() : borrow(), second = isSentFirst ? borrow() : send();
    auto sent = isSentFirst ? first : second, borrowed = isSentFirst ? second : first;
    ASSERT_TRUE(sent.isOk() && borrowed.isOk());
    EXPECT_TRUE(*transports[1]->test(*borrowed));
    EXPECT_EQ(loan.data, &word);
    EXPECT_FALSE(*transports[0]->test(*sent));
    loan = {};
    EXPECT_TRUE(*transports[0]->test(*sent));
  }
}

TEST(TransportPlugins, WhatIsNoPluginIsNamed) {
  auto errorOf = [](const char *name) { return loadTransport(name, {}).status(); };
  EXPECT_EQ(errorOf("pigeon").code(), StatusCode::NoDevice);
  std::string absent = errorOf("pigeon").message();
  EXPECT_EQ(absent.rfind("the pigeon plugin libautopar_pigeon.so is not in ", 0), 0u) << absent;
  EXPECT_NE(absent.find(" nor in AUTOPAR_PLUGIN_PATH; it is built where the library's development "
                        "package is installed"),
            std::string::npos)
      << absent;
  std::string folder = ::testing::TempDir() + "autopar-plugins-" + std::to_string(getpid()),
              before = std::getenv("AUTOPAR_PLUGIN_PATH") ? std::getenv("AUTOPAR_PLUGIN_PATH") : "";
  mkdir(folder.c_str(), 0755);
  std::ofstream(folder + "/libautopar_text.so") << "no library";
  ASSERT_EQ(symlink("/lib/x86_64-linux-gnu/libm.so.6", (folder + "/libautopar_math.so").c_str()),
            0);
  setenv("AUTOPAR_PLUGIN_PATH", folder.c_str(), 1);
  EXPECT_EQ(errorOf("math").message(), "libautopar_math.so is not a transport plugin");
  EXPECT_NE(errorOf("text").message().find("libautopar_text.so: file too short"), std::string::npos)
      << errorOf("text").message();
  setenv("AUTOPAR_PLUGIN_PATH", before.c_str(), 1);
  (void)!system(("rm -r " + folder).c_str());
}

} // namespace
