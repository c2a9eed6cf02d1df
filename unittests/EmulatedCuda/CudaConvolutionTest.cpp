// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients on an emulated GPU against their definition, which engine is
// taken, and what is refused.
#include "TestProgram.h"
#include "autopar/Artifact/CudaScratch.h"

#include <cmath>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

using Dims = std::vector<int64_t>;
constexpr ConvolutionKind kKinds[] = {ConvolutionKind::Forward, ConvolutionKind::InputGradient,
                                      ConvolutionKind::FilterGradient};

struct Sizes {
  Dims input, filter;
  Dims strides, padsBegin, padsEnd, dilations;
  int64_t groups = 1;
};

const Sizes kSizes[] = {
    {{2, 3, 5, 5}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 5, 9, 7}, {6, 5, 3, 2}, {2, 1}, {1, 0}, {1, 0}, {1, 2}},
    {{2, 8, 9, 7}, {8, 8, 3, 3}, {2, 2}, {0, 0}, {1, 1}, {1, 1}}, // padded behind only
    {{2, 8, 6, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8},
    {{2, 6, 11, 9}, {4, 3, 3, 2}, {2, 1}, {2, 1}, {2, 1}, {2, 3}, 2},
    {{2, 4, 10}, {6, 4, 5}, {2}, {2}, {1}, {1}},
    {{1, 2, 5, 4, 6}, {3, 2, 3, 2, 3}, {2, 1, 1}, {1, 0, 1}, {1, 0, 1}, {1, 1, 2}},
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
};

ConvolutionGeometry geometryOf(const Sizes &s, DataType type, ConvolutionKind kind) {
  ConvolutionGeometry g;
  g.xType = g.wType = g.yType = type;
  g.kind = kind;
  g.strides = s.strides, g.padsBegin = s.padsBegin, g.padsEnd = s.padsEnd;
  g.dilations = s.dilations, g.groups = s.groups;
  Dims output{s.input[0], s.filter[0]};
  for (size_t i = 0; i < s.strides.size(); ++i)
    output.push_back((s.input[i + 2] + s.padsBegin[i] + s.padsEnd[i] -
                      (s.filter[i + 2] - 1) * s.dilations[i] - 1) /
                         s.strides[i] +
                     1);
  bool isForward = kind == ConvolutionKind::Forward;
  g.x = kind == ConvolutionKind::InputGradient ? output : s.input;
  g.w = kind == ConvolutionKind::FilterGradient ? output : s.filter;
  g.y = isForward ? output : kind == ConvolutionKind::InputGradient ? s.input : s.filter;
  return g;
}

int64_t count(const Dims &dims) {
  int64_t all = 1;
  for (int64_t dim : dims)
    all *= dim;
  return all;
}

/// Visits every index, last dimension fastest.
template <typename F>
void forEach(const Dims &dims, F visit) {
  Dims index(dims.size());
  for (int64_t i = 0, all = count(dims); i < all; ++i) {
    visit(index, size_t(i));
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];)
      index[d] = 0;
  }
}

size_t placeOf(const Dims &dims, const Dims &index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    at = at * dims[d] + index[d];
  return size_t(at);
}

/// By definition: whichever of the three is sought gets the products of the other two.
std::vector<double> expected(const ConvolutionGeometry &g, const std::vector<double> &x,
                             const std::vector<double> &w) {
  std::vector<double> y(size_t(count(g.y)));
  int64_t outPerGroup = g.filter()[0] / g.groups, inPerGroup = g.filter()[1];
  forEach(g.output(), [&](const Dims &out, size_t outAt) {
    forEach(g.filter(), [&](const Dims &tap, size_t filterAt) {
      if (tap[0] != out[1])
        return;
      Dims in{out[0], out[1] / outPerGroup * inPerGroup + tap[1]};
      for (size_t i = 0; i < g.strides.size(); ++i) {
        int64_t at = out[i + 2] * g.strides[i] + tap[i + 2] * g.dilations[i] - g.padsBegin[i];
        if (at < 0 || at >= g.input()[i + 2])
          return;
        in.push_back(at);
      }
      size_t inAt = placeOf(g.input(), in);
      if (g.kind == ConvolutionKind::Forward)
        y[outAt] += x[inAt] * w[filterAt];
      else if (g.kind == ConvolutionKind::InputGradient)
        y[inAt] += x[outAt] * w[filterAt];
      else
        y[filterAt] += x[inAt] * w[outAt];
    });
  });
  return y;
}

Convolution addConvolution(Program &program, const ConvolutionGeometry &g) {
  Convolution call;
  call.geometry = g;
  call.x = addBuffer(program, count(g.x), g.xType);
  call.w = addBuffer(program, count(g.w), g.wType);
  call.y = addBuffer(program, count(g.y), g.yType);
  call.scratch = addBuffer(program, cudaScratchBytes(g), DataType::U8);
  Instruction instruction;
  instruction.id = "conv1";
  instruction.payload = call;
  program.entries = {{"step", {instruction}}};
  return call;
}

void compare(const ConvolutionGeometry &g, const std::string &what) {
  Program program;
  Convolution call = addConvolution(program, g);
  auto device = createDevice();
  Status prepared = device->prepare(program);
  ASSERT_TRUE(prepared.isOk()) << what << ": " << prepared.message();
  EXPECT_EQ(device->unplannedBytes(), 0) << what;
  auto fill = [&](int32_t buffer, const Dims &dims, int seed) {
    std::vector<uint8_t> bytes = encode(numbers(count(dims), seed), g.xType);
    EXPECT_TRUE(device->write(buffer, 0, bytes.data(), int64_t(bytes.size())).isOk());
    std::vector<double> values;
    for (size_t at = 0; at < bytes.size(); at += size_t(byteSize(g.xType)))
      values.push_back(decode(&bytes[at], g.xType));
    return values;
  };
  std::vector<double> x = fill(call.x, g.x, 1), w = fill(call.w, g.w, 2), y = expected(g, x, w);
  finish(*device, device->issue(program.entries[0].instructions[0], 0, {}));
  std::vector<uint8_t> made(y.size() * size_t(byteSize(g.yType)));
  ASSERT_TRUE(device->read(call.y, 0, made.data(), int64_t(made.size())).isOk());
  // The real library may take an engine that transforms its tiles (Winograd, FFT).
  double ofF32 = isEmulated() ? 1e-5 : 1e-4;
  double tolerance = g.yType == DataType::BF16 ? 0.01 : g.yType == DataType::F16 ? 2e-3 : ofF32;
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_NEAR(decode(&made[i * size_t(byteSize(g.yType))], g.yType), y[i],
                tolerance * (1 + std::fabs(y[i])))
        << what << ", element " << i;
}

// The emulated library first suggests engines on tensor cores, such that do not sum in f32 or not
// in the same order every time, and one that wants more workspace than there is; their numbers are
// coarse.
TEST(CudaConvolution, IsItsDefinitionAndSoAreItsGradients) {
  for (DataType type : {DataType::F32, DataType::BF16, DataType::F16})
    for (size_t i = 0; i < std::size(kSizes); ++i)
      for (ConvolutionKind kind : kKinds)
        compare(geometryOf(kSizes[i], type, kind), std::string(name(type)) + " case " +
                                                       std::to_string(i) + " kind " +
                                                       std::to_string(int(kind)));
}

std::string refusal(const ConvolutionGeometry &g, bool hasScratch = true) {
  Program program;
  Convolution call = addConvolution(program, g);
  if (!hasScratch)
    call.scratch = -1;
  program.entries[0].instructions[0].payload = call;
  Status status = createDevice()->prepare(program);
  EXPECT_EQ(status.code(), StatusCode::Mismatch) << status.message();
  return status.message();
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CudaConvolution, RefusesWhatTheLibraryDoesNotHave) {
  ConvolutionGeometry plain = geometryOf(kSizes[0], DataType::F32, ConvolutionKind::Forward), g;
  g = plain, g.hasBias = true;
  expectPart(refusal(g), "instruction 0 (conv1)");
  expectPart(refusal(g), "cuDNN has no such convolution: with an epilogue; compile the model with "
                         "--convolutions kernels");
  g = plain, g.wType = DataType::BF16;
  expectPart(refusal(g), "of several types");
  g = plain, g.xLayout = Layout::ChannelsLast;
  expectPart(refusal(g), "on blocks of channels");
  g = plain, g.padsBegin = {-1, 1}, g.padsEnd = {3, 1};
  expectPart(refusal(g), "with a negative padding");
  g = plain, g.x[0] = g.y[0] = 0;
  expectPart(refusal(g), "of an empty tensor");
}

// The emulated library has no other engine for long lines.
TEST(CudaConvolution, TakesNoEngineThatChangesTheNumbers) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  Sizes line{{1, 1, 5000}, {1, 1, 1}, {1}, {0}, {0}, {1}};
  expectPart(refusal(geometryOf(line, DataType::F32, ConvolutionKind::Forward)),
             "its engines would change the numbers");
}

TEST(CudaConvolution, TakesNoMoreWorkspaceThanIsPlanned) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  ConvolutionGeometry g = geometryOf(kSizes[0], DataType::F32, ConvolutionKind::Forward);
  expectPart(refusal(g, false), "its engines want 4096 bytes of workspace, planned are 0");
}

TEST(CudaConvolution, LayersThatAreAlikeShareAPlan) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  Program program;
  addConvolution(program, geometryOf(kSizes[1], DataType::F32, ConvolutionKind::Forward));
  Instruction other = program.entries[0].instructions[0];
  addConvolution(program, geometryOf(kSizes[0], DataType::F32, ConvolutionKind::Forward));
  Instruction layer = program.entries[0].instructions[0];
  program.entries[0].instructions = {layer, layer, other, layer};
  auto plans = [] {
    void *library = dlopen(EMULATED_CUDA "/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<uint64_t (*)()>(dlsym(library, "emulatedCudnnPlans"))();
  };
  auto built = [&] {
    uint64_t before = plans();
    auto device = createDevice();
    EXPECT_TRUE(device->prepare(program).isOk());
    return plans() - before;
  };
  uint64_t each = built();
  program.entries[0].instructions = {layer, other};
  EXPECT_EQ(each, built());
  // Another room, another choice.
  Convolution &roomy = std::get<Convolution>(program.entries[0].instructions[1].payload);
  roomy = std::get<Convolution>(layer.payload);
  roomy.scratch = addBuffer(program, int64_t{8} << 20, DataType::U8);
  EXPECT_EQ(each, built());
}

[[noreturn]] void prepareIn(const std::string &folder) {
  CudaOptions options;
  options.libraries = folder;
  options.target = {"cuda", CudaTarget().toText()};
  Program program;
  addConvolution(program, geometryOf(kSizes[0], DataType::F32, ConvolutionKind::Forward));
  auto device = createCudaDevice(options);
  Status status = device ? (*device)->prepare(program) : device.status();
  std::fprintf(stderr, "%s", status.message().c_str());
  std::exit(status.exitCode());
}

TEST(CudaConvolution, SaysThatTheLibraryIsMissing) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated driver only";
  namespace fs = std::filesystem;
  fs::path folder = fs::path(::testing::TempDir()) / "autopar-no-cudnn-for-convolutions";
  fs::create_directories(folder);
  fs::copy_file(EMULATED_CUDA "/libcuda.so.1", folder / "libcuda.so.1",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "libcudnn.so.9") << "none";
  EXPECT_EXIT(prepareIn(folder.string()), ::testing::ExitedWithCode(69),
              "cuDNN, which computes convolutions, cannot be opened: .*libcudnn.so.9.*"
              "--convolutions kernels");
}

} // namespace
