// SPDX-License-Identifier: Apache-2.0
// Whole programs on emulated GPUs, in process; and what autopar-run says where something is
// missing.
#include "CudaSample.h"
#include "SampleSession.h"
#include "autopar/Artifact/CudaTarget.h"

#include <gtest/gtest.h>

#include <array>
#include <dlfcn.h>
#include <thread>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

/// In this process; autopar-run's has one.
[[maybe_unused]] const int eightGpus = setenv("AUTOPAR_EMULATED_CUDA_DEVICES", "8", 1);

class CudaSession : public ::testing::Test {
protected:
  std::string folder = ::testing::TempDir() + "autopar-cuda-" + std::to_string(getpid());
  std::string path = folder + "/compiled.bin";

  void SetUp() override {
    (void)!system(("mkdir -p " + folder).c_str());
    writeSampleWeights(folder + "/weights.bin");
  }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  std::unique_ptr<Session> open(const artifact::Contents &contents, SessionOptions options = {}) {
    Status written = artifact::writeArtifact(contents, path);
    EXPECT_TRUE(written.isOk()) << written.message();
    options.cudaLibraries = EMULATED_CUDA;
    auto session = Session::open(path, std::move(options));
    EXPECT_TRUE(session.isOk()) << session.status().message();
    return session.isOk() ? session.take() : nullptr;
  }

  /// autopar-run on the artifact: exit code and what it said.
  std::pair<int, std::string> runCommand(const std::string &environment,
                                         const std::string &libraries = EMULATED_CUDA) {
    std::string command = "AUTOPAR_EMULATED_CUDA_DEVICES=1 " + environment + " " AUTOPAR_RUN " " +
                          path + " --input x=random --cuda-libraries " + libraries + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 512> part;
    while (size_t n = fread(part.data(), 1, part.size(), pipe))
      text.append(part.data(), n);
    int status = pclose(pipe);
    return {WEXITSTATUS(status), text};
  }
  void refuses(const std::string &environment, int code, const std::vector<std::string> &words,
               const std::string &libraries = EMULATED_CUDA) {
    auto [own, text] = runCommand(environment, libraries);
    EXPECT_EQ(own, code) << text;
    for (const std::string &word : words)
      EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
  }
};

/// How much was given to the emulated GPUs so far.
uint64_t countOf(const char *kind) {
  void *driver = dlopen(EMULATED_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto count = reinterpret_cast<uint64_t (*)(const char *)>(dlsym(driver, "emulatedCudaCount"));
  return count(kind);
}

TEST_F(CudaSession, ComputesWhatOneDeviceComputes) {
  expectSampleOutputsOfAllRanks(
      [&](int32_t ranks, SessionOptions options) {
        return open(cudaSampleContents(ranks, "weights.bin"), std::move(options));
      },
      [](SessionOptions &options) { options.record = true; });
}

/// One rank, which has nobody to talk to.
artifact::Contents aloneContents() {
  artifact::Contents contents = cudaSampleContents(1, "weights.bin");
  artifact::Instruction &last = contents.classes[0].program.entries[1].instructions.back();
  auto sum = std::get<artifact::Collective>(last.payload);
  last.payload = artifact::Copy{sum.input, 0, sum.output, 0, sum.count * 4};
  return contents;
}

TEST_F(CudaSession, AStepIsOneLaunchFromTheSecondOn) {
  std::vector<float> results[2];
  for (bool captures : {true, false}) {
    SessionOptions options;
    options.captures = captures;
    auto session = open(aloneContents(), std::move(options));
    ASSERT_TRUE(session);
    EXPECT_EQ(session->captures(), captures);
    EXPECT_EQ(session->whyUncaptured(), captures ? "" : "this is asked for");
    expectSampleOutputs(*session, captures ? "captured" : "one by one");
    uint64_t graphs = countOf("graphs"), kernels = countOf("kernels"),
             products = countOf("products");
    // What a step reads is where it was, and other than when the step was recorded.
    std::vector<float> x = sampleInput();
    for (float &value : x)
      value *= 1.7f;
    ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, x.data()).isOk());
    ASSERT_TRUE(session->run(3, 5).isOk());
    EXPECT_EQ(countOf("graphs") - graphs, captures ? 5u : 0u);
    EXPECT_EQ(countOf("kernels") - kernels, captures ? 0u : 5u);
    EXPECT_EQ(countOf("products") - products, captures ? 0u : 10u);
    ASSERT_TRUE(session->collectOutputs().isOk());
    results[captures] = fetch(*session, "y", kRows * kOut);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(CudaSession, InstructionsLastAsLongAsTheGpuSays) {
  SessionOptions options;
  options.record = true;
  auto session = open(aloneContents(), std::move(options));
  ASSERT_TRUE(session);
  expectSampleOutputs(*session, "timed");
  std::vector<RankEvents> ranks = session->events();
  ASSERT_EQ(ranks.size(), 1u);
  // Whatever an emulated GPU does takes a millisecond by its clock. The host reads at load.
  int timed = 0;
  for (const ExecutionEvent &event : *ranks[0].events)
    if (event.entry == 1) {
      EXPECT_EQ(event.endNs - event.beginNs, 1'000'000) << event.instruction;
      ++timed;
    }
  EXPECT_EQ(timed % 4, 0);
  EXPECT_GT(timed, 0);
}

TEST_F(CudaSession, SaysWhyAStepIsNotCaptured) {
  SessionOptions staged;
  staged.communication = CommunicationChoice::Staged;
  auto session = open(cudaSampleContents(2, "weights.bin"), std::move(staged));
  ASSERT_TRUE(session);
  EXPECT_FALSE(session->captures());
  EXPECT_EQ(session->communication(), "through memory of the host, as is asked for");
  EXPECT_NE(session->whyUncaptured().find("fc2/all-reduce"), std::string::npos);
  ASSERT_TRUE(artifact::writeArtifact(aloneContents(), path).isOk());
  auto said = [&](const std::string &options) {
    auto [code, text] = runCommand("", EMULATED_CUDA " --benchmark --steps 2 " + options);
    EXPECT_EQ(code, 0) << text;
    return text;
  };
  EXPECT_NE(said("").find("\"captured\":true"), std::string::npos);
  EXPECT_NE(said("--no-capture").find("not captured as CUDA graphs: this is asked for"),
            std::string::npos);
  EXPECT_NE(said("--profile").find("not captured as CUDA graphs: the time of each instruction"),
            std::string::npos);
  EXPECT_NE(said("--no-capture --quiet").find("\"why_uncaptured\":\"this is asked for\""),
            std::string::npos);
}

TEST_F(CudaSession, RanksWithGpusOfTheirOwnCommunicateByNccl) {
  for (int32_t ranks : {2, 4, 8}) {
    auto session = open(cudaSampleContents(ranks, "weights.bin"));
    ASSERT_TRUE(session);
    EXPECT_EQ(session->communication(), "by NCCL");
    expectSampleOutputs(*session, std::to_string(ranks) + " ranks by NCCL");
    // Graphs of one process may wait for each other.
    EXPECT_FALSE(session->captures());
    EXPECT_NE(session->whyUncaptured().find("fc2/all-reduce) is by NCCL between ranks of one "
                                            "process"),
              std::string::npos);
    EXPECT_NE(session->whyUncaptured().find("start a process per GPU"), std::string::npos);
    uint64_t graphs = countOf("graphs"), collectives = countOf("collectives");
    ASSERT_TRUE(session->run(3, 5).isOk());
    EXPECT_EQ(countOf("graphs") - graphs, 0u);
    EXPECT_EQ(countOf("collectives") - collectives, uint64_t(5 * ranks));
  }
}

/// A rank of a process of its own has a session of its own.
TEST_F(CudaSession, ProcessesPerGpuCaptureWhatNcclDoes) {
  for (int32_t ranks : {2, 4}) {
    ASSERT_TRUE(artifact::writeArtifact(cudaSampleContents(ranks, "weights.bin"), path).isOk());
    std::vector<float> results[2];
    for (bool captures : {true, false}) {
      auto transports = createInProcessTransports(ranks);
      uint64_t graphs = countOf("graphs");
      std::vector<std::thread> processes;
      for (int32_t rank = 0; rank < ranks; ++rank)
        processes.emplace_back([&, rank] {
          SessionOptions options;
          options.cudaLibraries = EMULATED_CUDA;
          options.captures = captures;
          options.localRank = rank;
          options.transport = std::move(transports[size_t(rank)]);
          auto session = Session::open(path, std::move(options));
          ASSERT_TRUE(session.isOk()) << session.status().message();
          EXPECT_EQ((*session)->captures(), captures) << (*session)->whyUncaptured();
          std::vector<float> x = sampleInput();
          ASSERT_TRUE((*session)->setInput("x", DataType::F32, {kRows, kIn}, x.data()).isOk());
          Status ran = (*session)->run(0, 6);
          ASSERT_TRUE(ran.isOk()) << ran.message();
          ASSERT_TRUE((*session)->collectOutputs().isOk());
          if (rank == 0)
            results[captures] = fetch(**session, "y", kRows * kOut);
        });
      for (std::thread &process : processes)
        process.join();
      EXPECT_EQ(countOf("graphs") - graphs, captures ? uint64_t(5 * ranks) : 0u);
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST_F(CudaSession, SaysHowGpusCommunicate) {
  ASSERT_TRUE(artifact::writeArtifact(cudaSampleContents(2, "weights.bin"), path).isOk());
  auto said = [&](const std::string &environment) {
    auto [code, text] = runCommand(environment);
    EXPECT_EQ(code, 0) << text;
    return text;
  };
  EXPECT_NE(said("AUTOPAR_EMULATED_CUDA_DEVICES=2").find("GPUs communicate by NCCL"),
            std::string::npos);
  EXPECT_NE(said("").find("GPUs communicate through memory of the host: ranks 0 and 1 share a GPU"),
            std::string::npos);
  refuses("", 78, {"NCCL is asked for, but ranks 0 and 1 share a GPU"},
          EMULATED_CUDA " --communication nccl");
  // Without the library nothing is done in another way unasked.
  std::string lonely = folder + "/libraries";
  (void)!system(("mkdir " + lonely +
                 " && cp -L " EMULATED_CUDA "/libcuda.so.1 " EMULATED_CUDA "/libcublasLt.so.13 " +
                 lonely)
                    .c_str());
  std::string hidden = "AUTOPAR_EMULATED_CUDA_DEVICES=2 LD_LIBRARY_PATH=" + lonely;
  (void)!system(("echo none > " + lonely + "/libnccl.so.2").c_str());
  refuses(hidden, 69, {"rank ", "NCCL", "libnccl.so.2", "--communication staged"}, lonely);
  auto [code, text] = runCommand(hidden, lonely + " --communication staged");
  EXPECT_EQ(code, 0) << text;
}

TEST_F(CudaSession, RunsFromTheCommandLine) {
  ASSERT_TRUE(artifact::writeArtifact(cudaSampleContents(4, "weights.bin"), path).isOk());
  for (const char *environment :
       {"AUTOPAR_EMULATED_CUDA_DEVICES=1", "AUTOPAR_EMULATED_CUDA_DEVICES=2",
        "AUTOPAR_EMULATED_CUDA_SEED=77"}) {
    auto [code, text] = runCommand(environment);
    EXPECT_EQ(code, 0) << text;
  }
}

TEST_F(CudaSession, SaysWhatIsMissing) {
  ASSERT_TRUE(artifact::writeArtifact(cudaSampleContents(2, "weights.bin"), path).isOk());
  refuses("LD_LIBRARY_PATH=", 69,
          {"rank ", "the CUDA driver is missing", "libcuda.so.1", "--cuda-libraries"},
          "/no/such/folder");
  refuses("AUTOPAR_EMULATED_CUDA_DEVICES=0", 69, {"rank ", "finds no GPU"});
  refuses("AUTOPAR_EMULATED_CUDA_DRIVER=11040", 69,
          {"rank ", "driver is too old", "CUDA 11.4", "12.0"});
  refuses("AUTOPAR_EMULATED_CUDA_CHIP=75", 78,
          {"rank ", "GPU 0 (emulated GPU)", "compute capability 7.5", "need 8.0"});
  refuses("AUTOPAR_EMULATED_CUDA_MEMORY=100000", 69,
          {"rank ", "GPU 0 (emulated GPU)", "the planned memory of ", " of 100000 bytes are free",
           "--memory-limit"});
  // The folder has a driver, and a library that is none.
  std::string lonely = folder + "/libraries";
  (void)!system(("mkdir " + lonely + " && cp -L " EMULATED_CUDA "/libcuda.so.1 " + lonely +
                 " && echo none > " + lonely + "/libcublasLt.so.13")
                    .c_str());
  refuses("LD_LIBRARY_PATH=", 69,
          {"rank ", "GPU 0", "entry step, instruction 0 (fc1)", "cuBLASLt", "cannot be opened",
           "libcublasLt.so.13"},
          lonely);
}

TEST_F(CudaSession, NewPtxNeedsANewDriver) {
  artifact::Contents contents = cudaSampleContents(1, "weights.bin");
  std::string &ptx = contents.classes[0].ptx;
  ptx.replace(ptx.find("8.0"), 3, "8.6");
  contents.target.features = "ptx8.6+sm_80+sm_90";
  ASSERT_TRUE(artifact::writeArtifact(contents, path).isOk());
  refuses("AUTOPAR_EMULATED_CUDA_DRIVER=12020", 78,
          {"rank 0", "GPU 0", "driver is too old", "PTX 8.6", "CUDA 12.2"});
}

TEST_F(CudaSession, ErrorsOfKernelsNameRankStepAndInstruction) {
  artifact::Contents contents = cudaSampleContents(1, "weights.bin");
  std::string faulty = contents.classes[0].ptx;
  size_t store = faulty.find("st.global.f32 [%rd6]");
  faulty.replace(store, 20, "st.global.f32 [%rd4]");
  contents.classes[0].ptx = faulty;
  ASSERT_TRUE(artifact::writeArtifact(contents, path).isOk());
  refuses("", 70,
          {"rank 0, step 0, step[", "this one or one issued behind it, up to step[2] fc2",
           "GPU 0 (emulated GPU)", "CUDA_ERROR_ILLEGAL_ADDRESS"});
  refuses("", 70,
          {"rank 0, step 0, step[1] act: GPU 0 (emulated GPU)", "CUDA_ERROR_ILLEGAL_ADDRESS"},
          EMULATED_CUDA " --profile");
  // Ranks that share a GPU see each other's faults, wherever they are then.
  contents = cudaSampleContents(4, "weights.bin");
  contents.classes[0].ptx = faulty;
  ASSERT_TRUE(artifact::writeArtifact(contents, path).isOk());
  refuses("", 70, {"rank ", "GPU 0 (emulated GPU)", "CUDA_ERROR_ILLEGAL_ADDRESS"});
}

TEST_F(CudaSession, ErrorsOfACapturedStepNameRankStepAndInstructions) {
  artifact::Contents contents = aloneContents();
  std::string &ptx = contents.classes[0].ptx;
  size_t store = ptx.find("st.global.f32 [%rd6]");
  // Large numbers go astray.
  ptx.insert(store, "setp.gt.f32 %p2, %f1, 0f49742400;\n  @%p2 st.global.f32 [%rd4], %f2;\n  ");
  EXPECT_EXIT(
      {
        auto session = open(contents);
        std::vector<float> x = sampleInput();
        auto give = [&] { (void)session->setInput("x", DataType::F32, {kRows, kIn}, x.data()); };
        give();
        bool isGood = session->run(0, 3).isOk() && session->captures();
        x.assign(x.size(), 1e30f);
        give();
        Status status = session->run(3, 1);
        std::fprintf(stderr, "%s", status.message().c_str());
        std::exit(isGood ? status.exitCode() : 1);
      },
      ::testing::ExitedWithCode(70),
      "rank 0, step 3: one of step.0. fc1 to step.2. fc2, or of step.3. fc2/all-reduce, which run "
      "as one .--profile runs them one by one.: GPU 0 .emulated GPU.: "
      ".*CUDA_ERROR_ILLEGAL_ADDRESS");
}

} // namespace
