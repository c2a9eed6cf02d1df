// SPDX-License-Identifier: Apache-2.0
// What ranks are told when others do not come, come twice, expect another world, stop or vanish.
// The others are files, or a socket that says what a rank would say.
#include "autopar/Runtime/Rendezvous.h"
#include "Wire.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;

namespace {

const std::string kSilence = "): its process is stopped, or its machine or the network is down";

/// What the rendezvous ends with, within seconds.
std::string verdictOf(Rendezvous &rendezvous) {
  auto end = std::chrono::steady_clock::now() + 5s;
  while (rendezvous.verdict().isOk() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(10ms);
  return rendezvous.verdict().message();
}

template <typename T>
std::string message(const Result<T> &result) {
  return result ? "" : result.status().message();
}

TEST(InProcessRendezvous, NobodyPublishes) {
  auto ranks = createInProcessRendezvous(2);
  EXPECT_EQ(message(ranks[0]->get("key", 1ms)), "no rank published 'key' within 1 ms");
  ranks[1]->fail(Status::badInput("disk on fire"));
  EXPECT_EQ(message(ranks[0]->get("key", 1ms)), "rank 1 failed: disk on fire");
}

TEST(ExplainLoss, TheVerdictThatComesSoonSaysWhoDied) {
  int asked = 0;
  auto verdict = [&] { return ++asked < 3 ? Status::ok() : Status::peerLost("rank 1 is gone"); };
  EXPECT_EQ(explainLoss(Status::peerLost("it broke"), verdict).message(), "rank 1 is gone");
  EXPECT_EQ(explainLoss(Status::badInput("disk on fire"), verdict).message(), "disk on fire");
  EXPECT_EQ(asked, 3);
}

class FileRendezvousTest : public ::testing::Test {
protected:
  std::string folder = ::testing::TempDir() + "autopar-meet-" + std::to_string(getpid());
  RendezvousOptions options{0, 2, 60s, 60s};

  void SetUp() override { (void)!system(("rm -rf " + folder + "; mkdir -p " + folder).c_str()); }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  void write(const std::string &name, const std::string &text) {
    std::ofstream(folder + "/" + name) << text;
  }
  std::string verdict() {
    auto rendezvous = createFileRendezvous(folder, options);
    return rendezvous ? verdictOf(**rendezvous) : rendezvous.status().message();
  }
};

TEST_F(FileRendezvousTest, AFolderThatWasUsed) {
  write("rank.0", "2");
  EXPECT_EQ(verdict(), folder + "/rank.0 exists: rank 0 came twice, or the folder holds an earlier "
                                "job; give an empty folder");
  EXPECT_EQ(message(createFileRendezvous("/no/such/folder", options)),
            "cannot create /no/such/folder: No such file or directory");
}

TEST_F(FileRendezvousTest, NobodyPublishes) {
  auto rendezvous = createFileRendezvous(folder, options);
  ASSERT_TRUE(rendezvous.isOk());
  EXPECT_EQ(message((*rendezvous)->get("key", 1ms)), "no rank published 'key' within 1 ms");
}

TEST_F(FileRendezvousTest, OnOneMachineRanksReachEachOtherByTheLoopback) {
  auto rankZero = createFileRendezvous(folder, options);
  options.rank = 1;
  auto rankOne = createFileRendezvous(folder, options);
  ASSERT_TRUE(rankZero.isOk() && rankOne.isOk());
  std::thread other([&] { EXPECT_EQ(*(*rankOne)->address(), "127.0.0.1"); });
  EXPECT_EQ(*(*rankZero)->address(), "127.0.0.1");
  other.join();
}

TEST_F(FileRendezvousTest, ARankThatDoesNotCome) {
  options.arrivalTimeout = 0s;
  EXPECT_EQ(verdict(), "rank 1 did not arrive within 0 s");
}

TEST_F(FileRendezvousTest, WhoAsksForAddressesHearsWhoDoesNotCome) {
  options.arrivalTimeout = 0s;
  auto rendezvous = createFileRendezvous(folder, options);
  ASSERT_TRUE(rendezvous.isOk());
  EXPECT_EQ(message((*rendezvous)->address()), "rank 1 did not arrive within 0 s");
}

TEST_F(FileRendezvousTest, ARankOfAnotherWorld) {
  write("rank.1", "3");
  write("alive.1", "elsewhere 7 0");
  EXPECT_EQ(verdict(), "rank 1 expects a world of 3 ranks, this rank one of 2");
}

TEST_F(FileRendezvousTest, ARankThatFails) {
  write("fail.1", "on elsewhere failed: disk on fire");
  EXPECT_EQ(verdict(), "rank 1 on elsewhere failed: disk on fire");
}

TEST_F(FileRendezvousTest, ARankThatIsStuck) {
  write("alive.1", "elsewhere 7 0");
  options.hangTimeout = 0s;
  EXPECT_EQ(verdict(), "rank 1 on elsewhere is stuck (no heartbeat for 0 s)");
}

/// The number of a process that has ended.
pid_t endedProcess() {
  pid_t child = fork();
  if (child == 0)
    _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST_F(FileRendezvousTest, ARankThatEnded) {
  std::string child = std::to_string(endedProcess());
  write("alive.1", ownHostName() + " " + child + " 0 " + ownProcessSpace());
  EXPECT_EQ(verdict(), "rank 1 on " + ownHostName() + " is gone (its process " + child + " ended)");
}

TEST_F(FileRendezvousTest, OfARankInAnotherContainerOnlyTheHeartbeatIsKnown) {
  write("alive.1", ownHostName() + " " + std::to_string(endedProcess()) + " 0 pid:[1]");
  options.hangTimeout = 0s;
  EXPECT_EQ(verdict(), "rank 1 on " + ownHostName() + " is stuck (no heartbeat for 0 s)");
}

/// A port on which nobody listens now.
uint16_t freePort() {
  int fd = *listenOn(0);
  uint16_t port = portOf(fd);
  close(fd);
  return port;
}

class TcpRendezvousTest : public ::testing::Test {
protected:
  uint16_t port = freePort();
  RendezvousOptions options{0, 2, 5s, 60s};

  std::unique_ptr<Rendezvous> rankZero() {
    auto rendezvous = createTcpRendezvous("localhost", port, options);
    EXPECT_TRUE(rendezvous.isOk()) << rendezvous.status().message();
    return rendezvous.isOk() ? rendezvous.take() : nullptr;
  }
  /// A connection that greets as a rank.
  std::unique_ptr<WireSocket> greet(int32_t rank, int32_t worldSize) {
    auto fd = connectTo({"localhost"}, port, 1000);
    EXPECT_TRUE(fd.isOk()) << fd.status().message();
    auto socket = std::make_unique<WireSocket>(fd.isOk() ? *fd : -1);
    EXPECT_TRUE(socket->send({WireKind::Hello, rank, worldSize, "", "elsewhere"}));
    return socket;
  }
};

TEST_F(TcpRendezvousTest, RankZeroDoesNotListen) {
  EXPECT_EQ(message(connectTo({"localhost"}, port, 0)),
            "cannot reach rank 0 at localhost:" + std::to_string(port) +
                ": Connection refused; is it started, is that its host, and does no firewall keep "
                "the port closed?");
}

TEST_F(TcpRendezvousTest, TheOneThatAnswersOfSeveralHosts) {
  int listener = *listenOn(port);
  auto fd = connectTo({"no-such-host.invalid", "192.0.2.1", "localhost"}, port, 20000);
  EXPECT_TRUE(fd.isOk()) << fd.status().message();
  close(*fd);
  close(listener);
}

TEST_F(TcpRendezvousTest, WhereRankZeroListensIsSharedByOtherMeans) {
  std::promise<std::string> said;
  std::shared_future<std::string> heard = said.get_future();
  auto join = [&](int32_t rank) {
    RendezvousOptions own = options;
    own.rank = rank;
    return createTcpRendezvous(
        [&, rank](const std::string &text) -> Result<std::string> {
          if (rank == 0)
            said.set_value(text);
          return heard.get();
        },
        "", own);
  };
  auto other = std::async(std::launch::async, join, 1);
  auto zero = join(0), one = other.get();
  ASSERT_TRUE(zero.isOk() && one.isOk()) << message(zero) << message(one);
  ASSERT_TRUE((*one)->put("key", "value").isOk());
  EXPECT_EQ(*(*zero)->get("key", 5s), "value");
  (*one)->fail(Status::badInput("disk on fire"));
  EXPECT_NE(verdictOf(**zero).find("rank 1 on "), std::string::npos);
}

TEST_F(TcpRendezvousTest, RankZeroHasNoAddressForOthers) {
  options.rank = 1;
  auto share = [](const std::string &) { return Result<std::string>("1234 another/machine"); };
  EXPECT_EQ(message(createTcpRendezvous(share, "", options)),
            "the machine of rank 0 has no address but loopbacks; set AUTOPAR_HOST there to the one "
            "that others reach");
}

TEST_F(TcpRendezvousTest, AHostThatDoesNotAnswer) {
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(connectTo({"192.0.2.1"}, port, 300).isOk()); // for documents: nobody has it
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST_F(TcpRendezvousTest, AnotherProgramHasThePort) {
  int listener = *listenOn(port);
  options.rank = 1;
  options.hangTimeout = 100ms;
  EXPECT_EQ(message(createTcpRendezvous("localhost", port, options)),
            "what listens at localhost:" + std::to_string(port) +
                " does not answer as rank 0 does: another program has the port, or rank 0 is gone; "
                "choose a free MASTER_PORT");
  close(listener);
}

TEST_F(TcpRendezvousTest, AnotherProgramHasThePortAndSaysSomething) {
  int listener = *listenOn(port);
  std::thread greets([&] {
    int other = accept(listener, nullptr, nullptr);
    EXPECT_EQ(::send(other, "220", 3, MSG_NOSIGNAL), 3);
    std::this_thread::sleep_for(1500ms);
    close(other);
  });
  options.rank = 1;
  options.hangTimeout = 150ms;
  auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(createTcpRendezvous("localhost", port, options));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  greets.join();
  close(listener);
}

TEST_F(TcpRendezvousTest, OnOneMachineRanksReachEachOtherByTheLoopback) {
  auto rendezvous = rankZero();
  auto other = greet(1, 2);
  EXPECT_EQ(*rendezvous->address(), "127.0.0.1");
}

TEST_F(TcpRendezvousTest, ThePortIsTaken) {
  int fd = *listenOn(port);
  EXPECT_EQ(message(createTcpRendezvous("localhost", port, options)),
            "rank 0 cannot listen on port " + std::to_string(port) +
                ": Address already in use; is another rank 0 running? choose a free MASTER_PORT");
  close(fd);
}

TEST_F(TcpRendezvousTest, NobodyPublishes) {
  options.worldSize = 1;
  EXPECT_EQ(message(rankZero()->get("key", 1ms)), "no rank published 'key' within 1 ms");
}

TEST_F(TcpRendezvousTest, ARankThatDoesNotCome) {
  options.arrivalTimeout = 100ms;
  EXPECT_EQ(
      verdictOf(*rankZero()),
      "only 1 of 2 ranks arrived at " + ownHostName() +
          " within 0 s; missing is rank 1: is it started, and does its MASTER_ADDR lead here?");
}

TEST_F(TcpRendezvousTest, ARankOfAnotherWorld) {
  auto rendezvous = rankZero();
  auto other = greet(1, 3);
  EXPECT_EQ(verdictOf(*rendezvous),
            "rank 1 on elsewhere expects a world of 3 ranks, rank 0 one of 2");
}

TEST_F(TcpRendezvousTest, ARankThatComesTwice) {
  auto rendezvous = rankZero();
  auto other = greet(0, 2);
  EXPECT_EQ(verdictOf(*rendezvous),
            "rank 0 on elsewhere came twice or is out of range (world of 2)");
}

TEST_F(TcpRendezvousTest, ARankOfAnotherJobDoesNotEndThisOne) {
  auto rendezvous = rankZero();
  auto other = greet(1, 2);
  ASSERT_TRUE(rendezvous->address().isOk()); // all are here
  auto stranger = greet(1, 2);
  WireMessage answer;
  ASSERT_TRUE(stranger->receive(answer, 1000));
  EXPECT_EQ(answer.value, "rank 1 on elsewhere came twice or is out of range (world of 2); another "
                          "job listens here: choose another port");
  EXPECT_TRUE(rendezvous->verdict().isOk()) << rendezvous->verdict().message();
}

TEST_F(TcpRendezvousTest, ARankThatIsGone) {
  auto rendezvous = rankZero();
  greet(1, 2).reset();
  EXPECT_EQ(verdictOf(*rendezvous), "rank 1 on elsewhere is gone (its connection closed)");
}

TEST_F(TcpRendezvousTest, ARankThatFails) {
  auto rendezvous = rankZero();
  auto other = greet(1, 2);
  other->send({WireKind::Fail, 65, 0, "", "disk on fire"});
  EXPECT_EQ(verdictOf(*rendezvous), "rank 1 on elsewhere failed: disk on fire");
}

TEST_F(TcpRendezvousTest, ARankThatIsStuck) {
  options.hangTimeout = 1s; // rank 0 itself says something every half of it
  auto rendezvous = rankZero();
  auto other = greet(1, 2);
  EXPECT_EQ(verdictOf(*rendezvous),
            "rank 1 on elsewhere is stuck (no heartbeat for 1 s" + kSilence);
}

/// Rank 0, as far as it answers the greeting of another.
class WelcomingRankZero {
public:
  explicit WelcomingRankZero(uint16_t port) : listener(*listenOn(port)) {
    thread = std::thread([this] {
      connection = std::make_unique<WireSocket>(accept(listener, nullptr, nullptr));
      connection->send({WireKind::Welcome, 0, 0, "", "elsewhere"});
    });
  }
  ~WelcomingRankZero() { close(listener); }
  std::unique_ptr<WireSocket> connected() {
    thread.join();
    return std::move(connection);
  }

private:
  int listener;
  std::unique_ptr<WireSocket> connection;
  std::thread thread;
};

TEST_F(TcpRendezvousTest, RankZeroIsGone) {
  WelcomingRankZero rankZero(port);
  options.rank = 1;
  auto rendezvous = createTcpRendezvous("localhost", port, options);
  ASSERT_TRUE(rendezvous.isOk()) << rendezvous.status().message();
  rankZero.connected().reset();
  std::string gone = "rank 0 on elsewhere (localhost:" + std::to_string(port) +
                     ") is gone (its connection closed)";
  EXPECT_EQ(verdictOf(**rendezvous), gone);
  EXPECT_EQ((*rendezvous)->put("key", "value").message(), gone);
}

TEST_F(TcpRendezvousTest, RankZeroIsStuck) {
  WelcomingRankZero rankZero(port);
  options.rank = 1;
  options.hangTimeout = 1s;
  auto rendezvous = createTcpRendezvous("localhost", port, options);
  ASSERT_TRUE(rendezvous.isOk()) << rendezvous.status().message();
  auto silent = rankZero.connected();
  EXPECT_EQ(verdictOf(**rendezvous), "rank 0 on elsewhere (localhost:" + std::to_string(port) +
                                         ") is stuck (no heartbeat for 1 s" + kSilence);
}

} // namespace
