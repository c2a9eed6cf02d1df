// SPDX-License-Identifier: Apache-2.0
// What the CUDA device takes when a program is loaded: which libraries, which form of the kernels,
// how much shared memory.
#include "TestProgram.h"

#include <filesystem>
#include <fstream>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

/// Block b writes 100 b + 7 through the last word of its dynamic shared memory, of which it has
/// `dynamic` bytes beside 4096 static ones.
std::string kernelText(int dynamic) {
  return R"(.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry through_shared(.param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<5>;
  .shared .align 4 .b8 own[4096];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 100, 7;
  mov.u32 %r3, dynamic;
  st.shared.u32 [own], %r2;
  st.shared.u32 [%r3+)" +
         std::to_string(dynamic - 4) + R"(], %r2;
  ld.shared.u32 %r4, [%r3+)" +
         std::to_string(dynamic - 4) + R"(];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r4;
  ret;
}
)";
}

/// A launch of that kernel per entry of `sharedBytes`.
Program launches(const std::vector<int> &sharedBytes) {
  Program program;
  program.kernels = {"through_shared"};
  int32_t out = addBuffer(program, 4, DataType::F32);
  program.entries = {{"step", {}}};
  for (int bytes : sharedBytes) {
    Launch launch;
    launch.args = {out};
    launch.blocks = launch.extent = 4;
    launch.threads = 1;
    launch.sharedBytes = bytes;
    Instruction instruction;
    instruction.payload = launch;
    program.entries[0].instructions.push_back(instruction);
  }
  return program;
}

std::unique_ptr<Device> createWith(const std::string &ptx, std::span<const uint8_t> cubin = {}) {
  keepContext();
  CudaTarget target;
  target.chip = 86;
  CudaOptions options;
  options.libraries = cudaLibraries();
  options.target = {"cuda", target.toText()};
  options.ptx = ptx;
  options.cubin = cubin;
  auto device = createCudaDevice(options);
  EXPECT_TRUE(device.isOk()) << device.status().message();
  return device.isOk() ? device.take() : nullptr;
}

void expectResult(Device &device, const Program &program) {
  for (const Instruction &instruction : program.entries[0].instructions) {
    finish(device, device.issue(instruction, 0, {}));
    int32_t made[4] = {};
    ASSERT_TRUE(device.read(0, 0, made, sizeof(made)).isOk());
    for (int b = 0; b < 4; ++b)
      EXPECT_EQ(made[b], 100 * b + 7);
  }
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CudaLoad, BlocksGetTheSharedMemoryThatLaunchesAskFor) {
  // 45 KiB are too much, unasked, beside what is static.
  std::string ptx = kernelText(45 * 1024);
  for (const std::vector<int> &bytes : {std::vector<int>{45 * 1024}, {60 * 1024, 45 * 1024}}) {
    Program program = launches(bytes);
    auto device = createWith(ptx);
    Status prepared = device->prepare(program);
    ASSERT_TRUE(prepared.isOk()) << prepared.message();
    expectResult(*device, program);
  }
}

TEST(CudaLoad, RefusesMoreSharedMemoryThanTheGpuHas) {
  if (!isEmulated())
    GTEST_SKIP() << "how much there is depends on the GPU";
  std::string ptx = kernelText(45 * 1024);
  Program program = launches({97 * 1024});
  Status status = createWith(ptx)->prepare(program);
  expectPart(status.message(), "kernel through_shared: GPU 0 (emulated GPU): cuFuncSetAttribute, "
                               "99328 bytes of shared memory: CUDA_ERROR_INVALID_VALUE");
  program = launches({100 * 1024});
  status = createWith(ptx)->prepare(program);
  expectPart(status.message(), "wants 102400 bytes of shared memory, this GPU has 101376");
}

// A driver of CUDA 12 takes no machine code of CUDA 13's assembler, the emulated one none at all.
TEST(CudaLoad, TakesPtxWhereTheDriverRefusesMachineCode) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated driver only";
  std::vector<uint8_t> cubin{0x7f, 'E', 'L', 'F', 2, 1, 1, 0x41};
  std::string ptx = kernelText(64);
  Program program = launches({64});
  auto device = createWith(ptx, cubin);
  Status prepared = device->prepare(program);
  ASSERT_TRUE(prepared.isOk()) << prepared.message();
  expectResult(*device, program);
  // What is wrong with that is said.
  ptx.replace(ptx.find("mad.lo.u32"), 10, "odd.lo.u32");
  Status status = createWith(ptx, cubin)->prepare(program);
  expectPart(status.message(), "the artifact's kernels are refused: kernel through_shared");
  expectPart(status.message(), "CUDA_ERROR_INVALID_PTX");
}

namespace fs = std::filesystem;

/// A folder of copies of emulated libraries, each with its name in it.
fs::path folderOf(const std::string &name,
                  const std::vector<std::pair<std::string, std::string>> &libraries) {
  fs::path folder = fs::path(::testing::TempDir()) / ("autopar-load-" + name);
  fs::create_directories(folder);
  for (const auto &[from, to] : libraries)
    fs::copy_file(fs::path(EMULATED_CUDA) / from, folder / to,
                  fs::copy_options::overwrite_existing);
  return folder;
}

[[noreturn]] void multiplyWith(const fs::path &folder) {
  CudaOptions options;
  options.libraries = folder.string();
  options.target = {"cuda", CudaTarget().toText()};
  Program program;
  Matmul matmul;
  matmul.geometry.a = matmul.geometry.b = matmul.geometry.c = {{4, 4}, {4, 1}};
  matmul.a = matmul.b = matmul.c = addBuffer(program, 16, DataType::F32);
  Instruction instruction;
  instruction.payload = matmul;
  program.entries = {{"step", {instruction}}};
  auto device = createCudaDevice(options);
  Status status = device ? (*device)->prepare(program) : device.status();
  std::fprintf(stderr, "%s", status.isOk() ? "good" : status.message().c_str());
  std::exit(status.exitCode());
}

/// Processes of their own, whose libraries are theirs.
class CudaLibrariesOf : public ::testing::Test {
protected:
  void SetUp() override {
    if (!isEmulated())
      GTEST_SKIP() << "with emulated libraries only";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  void TearDown() override {
    unsetenv("AUTOPAR_EMULATED_CUDA_DRIVER");
    unsetenv("LD_LIBRARY_PATH");
  }
  static constexpr const char *driver = "libcuda.so.1", *blas = "libcublasLt.so.13";
};

TEST_F(CudaLibrariesOf, FoldersThatAreNamedComeBeforeTheSystems) {
  // The system's library is newer, and would not do.
  fs::path own = folderOf("own", {{driver, driver}, {blas, "libcublasLt.so.12"}}),
           system = folderOf("system", {{driver, "libcublasLt.so.13"}});
  setenv("LD_LIBRARY_PATH", system.c_str(), 1);
  EXPECT_EXIT(multiplyWith(own), ::testing::ExitedWithCode(0), "good");
}

TEST_F(CudaLibrariesOf, DriversOfCuda12GetLibrariesOfCuda12) {
  fs::path both = folderOf("both", {{driver, driver}, {blas, blas}, {blas, "libcublasLt.so.12"}});
  setenv("AUTOPAR_EMULATED_CUDA_DRIVER", "12080", 1);
  EXPECT_EXIT(multiplyWith(both), ::testing::ExitedWithCode(0), "good");
  fs::path newer = folderOf("newer", {{driver, driver}, {blas, blas}});
  EXPECT_EXIT(multiplyWith(newer), ::testing::ExitedWithCode(69),
              "with a driver of CUDA 12.8: cuBLASLt, which multiplies matrices, is missing: no "
              "libcublasLt.so.12 in ");
}

} // namespace
