// SPDX-License-Identifier: Apache-2.0
// autopar-run as processes: the same bits under every launcher, mismatches refused in seconds, a
// killed or stopped rank named by the survivors.
#include "SampleArtifact.h"
#include "autopar/Artifact/Writer.h"
#include "autopar/Runtime/Npy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace autopar;
using namespace autopar::testing;
using Clock = std::chrono::steady_clock;

namespace {

using Words = std::vector<std::string>;

/// A child process with its stderr in a file.
class Child {
public:
  Child(const Words &words, const Words &environment, const std::string &log) : log(log) {
    pid = fork();
    if (pid != 0)
      return;
    for (const char *name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"})
      unsetenv(name);
    for (const std::string &word : environment)
      putenv(strdup(word.c_str()));
    int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(fd, 1);
    dup2(fd, 2);
    std::vector<char *> arguments;
    for (const std::string &word : words)
      arguments.push_back(strdup(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  ~Child() {
    if (!isDone) {
      kill(pid, SIGKILL);
      wait();
    }
  }
  /// Exit code, or minus the signal; -1000 after the limit.
  int wait(double seconds = 30) {
    auto end = Clock::now() + std::chrono::duration<double>(seconds);
    int status = 0;
    while (!isDone) {
      if (waitpid(pid, &status, WNOHANG) == pid) {
        isDone = true;
        code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      } else if (Clock::now() > end) {
        return -1000;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    return code;
  }
  std::string output() const {
    auto bytes = readBytes(log);
    return {bytes.begin(), bytes.end()};
  }
  pid_t pid;

private:
  std::string log;
  bool isDone = false;
  int code = 0;
};

uint16_t freePort() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
  getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

class LaunchTest : public ::testing::Test {
protected:
  std::string folder = ::testing::TempDir() + "autopar-launch-" + std::to_string(getpid());

  void SetUp() override {
    (void)!system(("mkdir -p " + folder).c_str());
    writeSampleWeights(folder + "/weights.bin");
    for (int32_t ranks : {2, 4})
      ASSERT_TRUE(
          artifact::writeArtifact(sampleContents(ranks, readBytes(SAMPLE_KERNELS), "weights.bin"),
                                  artifactFor(ranks))
              .isOk());
    std::vector<float> x = sampleInput();
    ASSERT_TRUE(runtime::writeNpy(folder + "/x.npy", DataType::F32, {kRows, kIn}, x.data(),
                                  int64_t(x.size() * 4))
                    .isOk());
  }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  std::string artifactFor(int32_t ranks) const {
    return folder + "/c" + std::to_string(ranks) + ".bin";
  }

  Words command(int32_t ranks, const std::string &out, const Words &more = {}) const {
    Words words = {AUTOPAR_RUN,    artifactFor(ranks), "--input", "x=" + folder + "/x.npy",
                   "--output-dir", folder + "/" + out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::unique_ptr<Child> start(const Words &words, const Words &environment = {}) {
    return std::make_unique<Child>(words, environment, folder + "/log." + std::to_string(logs++));
  }
  std::vector<std::unique_ptr<Child>> startTcp(int32_t ranks, const Words &words) {
    std::vector<std::unique_ptr<Child>> children;
    std::string port = std::to_string(freePort());
    for (int32_t rank = 0; rank < ranks; ++rank)
      children.push_back(
          start(words, {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(ranks),
                        "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}));
    return children;
  }
  std::vector<std::unique_ptr<Child>> startEndless(int32_t ranks, Words more = {}) {
    std::filesystem::remove(metrics);
    more.insert(more.end(), {"--steps", "100000000", "--metrics", metrics});
    return startTcp(ranks, command(ranks, "out", more));
  }
  /// Returns once all ranks are in the midst of steps.
  ::testing::AssertionResult awaitSteps(const std::vector<std::unique_ptr<Child>> &children) {
    for (auto end = Clock::now() + std::chrono::seconds(60); Clock::now() < end;) {
      for (auto &child : children)
        if (child->wait(0) != -1000)
          return ::testing::AssertionFailure() << "a rank ended: " << child->output();
      std::error_code none;
      if (std::filesystem::file_size(metrics, none) > 0 && !none)
        return ::testing::AssertionSuccess();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return ::testing::AssertionFailure() << "no step within 60 s: " << children[0]->output();
  }
  std::vector<uint8_t> result(const std::string &out) const {
    return readBytes(folder + "/" + out + "/y.npy");
  }

private:
  std::string metrics = folder + "/metrics.jsonl";
  int logs = 0;
};

TEST_F(LaunchTest, EveryLauncherGivesTheSameBits) {
  auto alone = start(command(4, "alone"));
  ASSERT_EQ(alone->wait(), 0) << alone->output();
  auto read = runtime::readNpy(folder + "/alone/y.npy");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  std::vector<float> expected = sampleOutput();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(reinterpret_cast<float *>(read->bytes.data())[i], expected[i], 1e-4f);
#ifdef AUTOPAR_HAS_GLOO
  for (auto &child : startTcp(4, command(4, "tcp")))
    EXPECT_EQ(child->wait(), 0) << child->output();
  EXPECT_EQ(result("alone"), result("tcp"));
  std::vector<std::unique_ptr<Child>> byFile;
  for (int32_t rank = 0; rank < 4; ++rank)
    byFile.push_back(start(command(4, "file",
                                   {"--rank", std::to_string(rank), "--world-size", "4",
                                    "--rendezvous", "file://" + folder + "/meet"}),
                           {"AUTOPAR_HOST=127.0.0.1"}));
  for (auto &child : byFile)
    EXPECT_EQ(child->wait(), 0) << child->output();
  EXPECT_EQ(result("alone"), result("file"));
#endif
#ifdef AUTOPAR_HAS_MPI
  Words words = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4"},
        run = command(4, "mpi");
  words.insert(words.end(), run.begin(), run.end());
  auto mpi = start(words);
  EXPECT_EQ(mpi->wait(), 0) << mpi->output();
  EXPECT_EQ(result("alone"), result("mpi"));
#endif
}

TEST_F(LaunchTest, WrongUseEndsWithTheDocumentedCode) {
  struct Case {
    Words words;
    int code;
    const char *says;
  };
  std::string artifact = artifactFor(2);
  const Case cases[] = {
      {{AUTOPAR_RUN, "--no-such-flag"}, 2, "no-such-flag"},
      {{AUTOPAR_RUN, folder + "/none.bin"}, 66, "none.bin"},
      {{AUTOPAR_RUN, folder + "/x.npy"}, 65, "not a compiled.bin"},
      {{AUTOPAR_RUN, artifact}, 65, "x: f32 [4,8]"},
      {{AUTOPAR_RUN, artifact, "--input", "x"}, 2, "name=file.npy"},
      {{AUTOPAR_RUN, artifact, "--input", "z=zeros"}, 65, "the inputs are x: f32 [4,8]"},
      {{AUTOPAR_RUN, artifact, "--input", "x=" + folder + "/none.npy"}, 66, "none.npy"},
      {{AUTOPAR_RUN, artifact, "--input", "x=" + folder + "/weights.bin"}, 65, "not a .npy"},
      {{AUTOPAR_RUN, artifact, "--input", "x=zeros", "--output-dir", "/proc/none"},
       73,
       "/proc/none"},
      {{AUTOPAR_RUN, artifact, "--input", "x=zeros", "--init", "gauss"}, 2, "gauss"},
      {{AUTOPAR_RUN, artifact, "--rank", "0", "--world-size", "2"}, 2, "--master"},
      {{AUTOPAR_RUN, artifact, "--input", "x=random", "--steps", "3", "--json", "--profile"},
       0,
       "median_ms"},
      {{AUTOPAR_RUN, artifact, "--input", "x=zeros", "--trace", folder + "/t.json"}, 0, ""},
      {{AUTOPAR_RUN, "--verify", artifact}, 0, "ok"},
      {{AUTOPAR_RUN, "--dry-run", artifact}, 0, "device MiB"},
      {{AUTOPAR_RUN, "--help"}, 0, "mpirun"},
      {{AUTOPAR_RUN, "--version"}, 0, "autopar-run"},
  };
  for (const Case &c : cases) {
    auto child = start(c.words);
    EXPECT_EQ(child->wait(), c.code) << child->output();
    EXPECT_NE(child->output().find(c.says), std::string::npos) << c.says << ": " << child->output();
  }
  auto trace = readBytes(folder + "/t.json");
  EXPECT_NE(std::string(trace.begin(), trace.end()).find("fc2/all-reduce"), std::string::npos);
}

#ifdef AUTOPAR_HAS_GLOO
TEST_F(LaunchTest, OneTraceShowsTheRanksOfAllProcesses) {
  for (auto &child : startTcp(2, command(2, "out", {"--trace", folder + "/t.json"})))
    EXPECT_EQ(child->wait(), 0) << child->output();
  auto bytes = readBytes(folder + "/t.json");
  std::string trace(bytes.begin(), bytes.end());
  for (const char *rank : {"rank 0", "rank 1"})
    EXPECT_NE(trace.find(rank), std::string::npos) << rank;
  for (const char *row : {"\"pid\":0,\"tid\":1", "\"pid\":1,\"tid\":1"})
    EXPECT_NE(trace.find(row), std::string::npos) << row;
}

TEST_F(LaunchTest, MismatchesAreRefusedInSeconds) {
  auto begin = Clock::now();
  for (auto &child : startTcp(2, command(4, "out"))) {
    EXPECT_EQ(child->wait(), 78) << child->output();
    EXPECT_NE(child->output().find("compiled for 4 ranks, this job has 2"), std::string::npos)
        << child->output();
  }
  // Two artifacts.
  artifact::Contents other = sampleContents(2, readBytes(SAMPLE_KERNELS), "weights.bin");
  other.plan += " ";
  ASSERT_TRUE(artifact::writeArtifact(other, folder + "/other.bin").isOk());
  std::string port = std::to_string(freePort());
  std::vector<std::unique_ptr<Child>> children;
  for (int32_t rank = 0; rank < 2; ++rank) {
    Words words = command(2, "out");
    if (rank == 1)
      words[1] = folder + "/other.bin";
    children.push_back(start(words, {"RANK=" + std::to_string(rank), "WORLD_SIZE=2",
                                     "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}));
  }
  for (auto &child : children) {
    int code = child->wait();
    EXPECT_TRUE(code == 78 || code == 75) << code << child->output();
    EXPECT_NE(child->output().find("different artifacts"), std::string::npos) << child->output();
  }
  // A rank number twice, and a world size that differs.
  for (const Words &second : {Words{"RANK=0", "WORLD_SIZE=2"}, Words{"RANK=1", "WORLD_SIZE=3"}}) {
    port = std::to_string(freePort());
    children.clear();
    for (int32_t rank = 0; rank < 2; ++rank) {
      Words environment = rank == 0 ? Words{"RANK=0", "WORLD_SIZE=2"} : second;
      environment.insert(environment.end(), {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port});
      children.push_back(start(command(2, "out", {"--arrival-timeout", "3"}), environment));
    }
    for (auto &child : children) {
      int code = child->wait();
      EXPECT_TRUE(code == 78 || code == 75) << code << child->output();
    }
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(LaunchTest, SurvivorsNameTheKilledRank) {
  for (int32_t victim : {0, 1, 3}) {
    auto children = startEndless(4);
    ASSERT_TRUE(awaitSteps(children));
    kill(children[size_t(victim)]->pid, SIGKILL);
    auto begin = Clock::now();
    for (int32_t rank = 0; rank < 4; ++rank) {
      if (rank == victim)
        continue;
      EXPECT_EQ(children[size_t(rank)]->wait(10), 75) << children[size_t(rank)]->output();
      std::string says = children[size_t(rank)]->output();
      EXPECT_NE(says.find("rank " + std::to_string(victim)), std::string::npos) << says;
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5)) << "victim " << victim;
  }
}

TEST_F(LaunchTest, SurvivorsNameTheStoppedRank) {
  auto children = startEndless(2, {"--hang-timeout", "2"});
  ASSERT_TRUE(awaitSteps(children));
  kill(children[1]->pid, SIGSTOP);
  EXPECT_EQ(children[0]->wait(10), 75);
  EXPECT_NE(children[0]->output().find("rank 1"), std::string::npos) << children[0]->output();
}
#endif

} // namespace
