// SPDX-License-Identifier: Apache-2.0
// Whole programs on emulated GPUs, in process; and what autopar-run says where something is
// missing.
#include "CudaSample.h"
#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Runtime/Session.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

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
    std::string command = environment + " " AUTOPAR_RUN " " + path +
                          " --input x=random --cuda-libraries " + libraries + " 2>&1";
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

std::vector<float> fetch(Session &session, const std::string &name, size_t count) {
  auto data = session.output(name);
  EXPECT_TRUE(data.isOk()) << data.status().message();
  std::vector<float> values(count);
  if (data.isOk())
    std::memcpy(values.data(), *data, count * 4);
  return values;
}

TEST_F(CudaSession, ComputesWhatOneDeviceComputes) {
  for (int32_t ranks : {1, 2, 4, 8})
    for (bool record : {false, true}) {
      SessionOptions options;
      options.record = record;
      // The second round also drives all ranks from fewer threads.
      options.workers = record ? std::max(1, ranks / 3) : 0;
      auto session = open(cudaSampleContents(ranks, "weights.bin"), std::move(options));
      ASSERT_TRUE(session);
      ASSERT_TRUE(session->setInput("x", DataType::F32, {kRows, kIn}, sampleInput().data()).isOk());
      for (int64_t step = 0; step < 3; ++step) {
        Status ran = session->run(step, 1);
        ASSERT_TRUE(ran.isOk()) << ran.message();
      }
      ASSERT_TRUE(session->collectOutputs().isOk());
      std::vector<float> y = fetch(*session, "y", kRows * kOut), expected = sampleOutput();
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_NEAR(y[i], expected[i], 1e-4f) << "ranks " << ranks << " element " << i;
      std::vector<float> hidden = fetch(*session, "hidden", kRows * kHidden);
      EXPECT_GT(hidden[0] + hidden[7] + hidden[31], -1.0f);
    }
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

} // namespace
