// SPDX-License-Identifier: Apache-2.0
// Attention on an emulated GPU against the kernel of the CPU, and what is refused.
#include "TestDevice.h"
#include "autopar/Artifact/CudaScratch.h"
#include "autopar/CpuMath/AttentionCall.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

struct Sizes {
  int64_t batch = 2, heads = 4, groups = 4, queries = 16, keys = 16, depth = 16, valueDepth = 16;
  bool causal = false;
  /// Which of batch, heads, queries and keys a bias has, as "bhqk"; others it repeats.
  std::string_view bias = "";
  DataType biasType = DataType::F32;
  int64_t hiddenKeys = 0, window = 0;
};

/// Heads lie between the rows, as they do after a product with all of them.
StridedShape shapeOf(int64_t batch, int64_t heads, int64_t rows, int64_t depth) {
  return {{batch, heads, rows, depth}, {heads * rows * depth, depth, heads * depth, 1}};
}

AttentionGeometry geometryOf(const Sizes &s, DataType type, bool isGradient) {
  AttentionGeometry g;
  g.type = type;
  g.scale = 0.25f;
  g.causal = s.causal;
  g.hiddenKeys = s.hiddenKeys;
  g.window = s.window;
  StridedShape query = shapeOf(s.batch, s.heads, s.queries, s.depth),
               key = shapeOf(s.batch, s.groups, s.keys, s.depth),
               value = shapeOf(s.batch, s.groups, s.keys, s.valueDepth),
               output = shapeOf(s.batch, s.heads, s.queries, s.valueDepth);
  g.operands = {query, key, value, output};
  if (isGradient)
    g.operands.insert(g.operands.end(), {output, query, key, value});
  if (s.bias.empty())
    return g;
  g.biasType = s.biasType;
  g.bias = {{s.batch, s.heads, s.queries, s.keys}, {0, 0, 0, 0}};
  int64_t stride = 1;
  for (size_t dim = 4; dim-- > 0;)
    if (s.bias.find("bhqk"[dim]) != s.bias.npos) {
      g.bias.strides[dim] = stride;
      stride *= g.bias.dims[dim];
    }
  return g;
}

int64_t biasCount(const AttentionGeometry &g) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < 4; ++dim)
    elements *= g.bias.strides[dim] == 0 ? 1 : g.bias.dims[dim];
  return elements;
}

int64_t count(const StridedShape &shape) {
  return shape.dims[0] * shape.dims[1] * shape.dims[2] * shape.dims[3];
}

using Bytes = std::vector<uint8_t>;

uint16_t narrow(float value, DataType type) {
  uint16_t brief;
  if (type == DataType::F16) {
    _Float16 half = _Float16(value);
    std::memcpy(&brief, &half, 2);
    return brief;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float wide(uint16_t brief, DataType type) {
  if (type == DataType::F16) {
    _Float16 half;
    std::memcpy(&half, &brief, 2);
    return float(half);
  }
  uint32_t bits = uint32_t(brief) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

Bytes numbers(int64_t count, int seed, DataType type) {
  Bytes bytes(size_t(count) * 2);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t brief = narrow(float((i * 37 + seed * 17) % 41 - 20) / 16.0f, type);
    std::memcpy(&bytes[size_t(i) * 2], &brief, 2);
  }
  return bytes;
}

/// Of every fifth column, and of the first row all, a bias as masks have it where they are bounded.
Bytes biases(const AttentionGeometry &g) {
  Bytes bytes(size_t(biasCount(g) * byteSize(g.biasType)));
  for (int64_t i = 0; i < biasCount(g); ++i) {
    bool isHidden = i % 5 == 3 || i < g.bias.dims[3];
    float bias = isHidden ? (g.biasType == DataType::F16 ? -65504.0f : -0x1p100f)
                          : float(i * 29 % 31 - 15) / 8.0f;
    uint16_t brief = narrow(bias, g.biasType);
    if (g.biasType == DataType::F32)
      std::memcpy(&bytes[size_t(i) * 4], &bias, 4);
    else
      std::memcpy(&bytes[size_t(i) * 2], &brief, 2);
  }
  return bytes;
}

/// The same call on either device.
struct Call {
  Attention attention;
  std::vector<Bytes> inputs;
  std::vector<int64_t> outputBytes;
};

std::vector<Bytes> onCpu(const Call &call) {
  auto kernel = AttentionCall::create(call.attention.geometry, 1);
  EXPECT_TRUE(kernel.isOk()) << kernel.status().message();
  std::vector<Bytes> outputs;
  for (int64_t bytes : call.outputBytes)
    outputs.emplace_back(size_t(bytes));
  std::vector<void *> in, out;
  for (const Bytes &bytes : call.inputs)
    in.push_back(const_cast<uint8_t *>(bytes.data()));
  for (Bytes &bytes : outputs)
    out.push_back(bytes.data());
  std::unique_ptr<void, decltype(&std::free)> scratch(
      std::aligned_alloc(64, size_t(kernel->scratchBytes() / 64 * 64 + 64)), &std::free);
  kernel->run(in.data(), out.data(), scratch.get());
  return outputs;
}

int32_t addBuffer(Program &program, int64_t bytes) {
  Buffer buffer;
  buffer.name = "b" + std::to_string(program.buffers.size());
  buffer.space = Space::Device;
  buffer.dtype = DataType::U8;
  buffer.shape = {bytes};
  buffer.bytes = bytes;
  buffer.offset = program.arenaBytes[size_t(Space::Device)];
  program.arenaBytes[size_t(Space::Device)] += (bytes + 255) / 256 * 256;
  program.buffers.push_back(buffer);
  return int32_t(program.buffers.size() - 1);
}

std::vector<Bytes> onGpu(const Call &call, bool isPlanned, int64_t *unplanned) {
  Program program;
  Attention attention = call.attention;
  for (const Bytes &bytes : call.inputs)
    attention.inputs.push_back(addBuffer(program, int64_t(bytes.size())));
  for (int64_t bytes : call.outputBytes)
    attention.outputs.push_back(addBuffer(program, bytes));
  if (isPlanned)
    attention.scratch = addBuffer(program, cudaScratchBytes(attention.geometry));
  Instruction instruction;
  instruction.id = "attention";
  instruction.payload = attention;
  program.entries = {{"step", {instruction}}};
  auto device = createDevice();
  Status prepared = device->prepare(program);
  EXPECT_TRUE(prepared.isOk()) << prepared.message();
  if (!prepared.isOk())
    return {};
  *unplanned = device->unplannedBytes();
  for (size_t i = 0; i < call.inputs.size(); ++i)
    EXPECT_TRUE(
        device->write(attention.inputs[i], 0, call.inputs[i].data(), int64_t(call.inputs[i].size()))
            .isOk());
  // Whatever was there before is none of the result.
  for (size_t i = 0; i < attention.outputs.size(); ++i) {
    Bytes before(size_t(call.outputBytes[i]), 0xff);
    EXPECT_TRUE(device->write(attention.outputs[i], 0, before.data(), call.outputBytes[i]).isOk());
  }
  auto token = device->issue(program.entries[0].instructions[0], 0, {});
  EXPECT_TRUE(token.isOk()) << token.status().message();
  std::vector<Bytes> outputs;
  for (size_t i = 0; token && i < attention.outputs.size(); ++i) {
    for (auto done = device->test(*token); done && !*done;)
      done = device->test(*token);
    Bytes &bytes = outputs.emplace_back(size_t(call.outputBytes[i]));
    EXPECT_TRUE(device->read(attention.outputs[i], 0, bytes.data(), int64_t(bytes.size())).isOk());
  }
  return outputs;
}

void compare(const Bytes &is, const Bytes &expected, DataType type, const std::string &what) {
  ASSERT_EQ(is.size(), expected.size()) << what;
  for (size_t i = 0; i < is.size() / size_t(byteSize(type)); ++i) {
    float left, right;
    if (type == DataType::F32) {
      std::memcpy(&left, &is[i * 4], 4);
      std::memcpy(&right, &expected[i * 4], 4);
    } else {
      uint16_t a, b;
      std::memcpy(&a, &is[i * 2], 2);
      std::memcpy(&b, &expected[i * 2], 2);
      left = wide(a, type), right = wide(b, type);
    }
    float tolerance = type == DataType::BF16 ? 0.04f : type == DataType::F16 ? 5e-3f : 1e-3f;
    ASSERT_NEAR(left, right, tolerance * (1 + std::fabs(right))) << what << ", element " << i;
  }
}

/// What programs do (autopar-bound-attention-bias): the sum of a row that is hidden whole is
/// infinite for the gradient.
void hideRows(Bytes &sums) {
  for (size_t i = 0; i < sums.size(); i += 4) {
    float sum;
    std::memcpy(&sum, &sums[i], 4);
    if (sum < -0x1p17f)
      sum = std::numeric_limits<float>::infinity();
    std::memcpy(&sums[i], &sum, 4);
  }
}

std::string textOf(const Sizes &s, DataType type) {
  return std::string(name(type)) + " " + std::to_string(s.queries) + "x" + std::to_string(s.keys) +
         (s.causal ? " causal" : "") + (s.bias.empty() ? "" : " bias " + std::string(s.bias));
}

/// Fills the call and what the CPU makes of it.
void compareForward(const Sizes &s, DataType type, bool isPlanned, Call &forward,
                    std::vector<Bytes> &expected) {
  forward.attention.geometry = geometryOf(s, type, false);
  const auto &operands = forward.attention.geometry.operands;
  for (int i = 0; i < 3; ++i)
    forward.inputs.push_back(numbers(count(operands[size_t(i)]), i, type));
  if (forward.attention.geometry.hasBias())
    forward.inputs.push_back(biases(forward.attention.geometry));
  int64_t rows = s.batch * s.heads * s.queries;
  forward.outputBytes = {count(operands[3]) * 2, rows * 4};
  int64_t unplanned = -1;
  auto made = onGpu(forward, isPlanned, &unplanned);
  expected = onCpu(forward);
  std::string what = textOf(s, type);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_TRUE(unplanned == 0 || !isPlanned) << what;
  compare(made[0], expected[0], type, what);
  compare(made[1], expected[1], DataType::F32, what + ", sums");
}

void compareOnBoth(const Sizes &s, DataType type, bool isPlanned) {
  Call forward;
  std::vector<Bytes> expected;
  compareForward(s, type, isPlanned, forward, expected);
  ASSERT_EQ(expected.size(), 2u);
  hideRows(expected[1]);
  const auto &operands = forward.attention.geometry.operands;
  Call gradient;
  gradient.attention.geometry = geometryOf(s, type, true);
  gradient.inputs.assign(forward.inputs.begin(), forward.inputs.begin() + 3);
  gradient.inputs.insert(gradient.inputs.end(),
                         {expected[0], expected[1], numbers(count(operands[3]), 5, type)});
  if (gradient.attention.geometry.hasBias())
    gradient.inputs.push_back(forward.inputs[3]);
  gradient.outputBytes = {count(operands[0]) * 2, count(operands[1]) * 2, count(operands[2]) * 2};
  int64_t unplanned = -1;
  auto made = onGpu(gradient, isPlanned, &unplanned);
  expected = onCpu(gradient);
  std::string what = textOf(s, type);
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(unplanned == 0, isPlanned) << what;
  for (size_t i = 0; i < 3; ++i)
    compare(made[i], expected[i], type, what + ", gradient " + std::to_string(i));
}

TEST(CudaAttention, IsThatOfTheCpu) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (Sizes sizes : {Sizes{}, Sizes{.causal = true}, Sizes{.groups = 2, .causal = true},
                        Sizes{.groups = 1, .queries = 5, .keys = 33, .depth = 24, .valueDepth = 8},
                        Sizes{.batch = 1, .queries = 1, .keys = 24},
                        Sizes{.groups = 2, .queries = 9, .keys = 24, .causal = true},
                        Sizes{.batch = 1, .queries = 1, .keys = 24, .causal = true},
                        Sizes{.batch = 1, .queries = 77, .keys = 77, .depth = 64, .causal = true}})
      compareOnBoth(sizes, type, true);
}

TEST(CudaAttention, AddsABias) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (DataType biasType : {DataType::F32, type})
      for (Sizes sizes :
           {Sizes{.bias = "k"}, Sizes{.groups = 2, .bias = "qk"}, Sizes{.bias = "bqk"},
            Sizes{.groups = 1, .queries = 5, .keys = 33, .depth = 24, .valueDepth = 8, .bias = "k"},
            Sizes{.batch = 1, .queries = 1, .keys = 24, .bias = "bhqk"},
            Sizes{.groups = 2, .causal = true, .bias = "hqk"},
            Sizes{.queries = 7, .keys = 301, .bias = "bqk"}}) {
        sizes.biasType = biasType;
        compareOnBoth(sizes, type, true);
      }
}

// A rank that has some rows of a triangle; it gives zeros for keys that only others see.
TEST(CudaAttention, HidesTheKeysBehindItsRows) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (Sizes sizes :
         {Sizes{.keys = 64, .causal = true, .hiddenKeys = 48},
          Sizes{.groups = 2, .keys = 64, .causal = true, .hiddenKeys = 16},
          Sizes{
              .batch = 1, .groups = 1, .queries = 9, .keys = 27, .causal = true, .hiddenKeys = 9}})
      compareOnBoth(sizes, type, true);
}

TEST(CudaAttention, SeesAWindow) {
  for (DataType type : {DataType::BF16, DataType::F16})
    for (Sizes sizes : {Sizes{.causal = true, .window = 5},
                        Sizes{.groups = 2, .keys = 24, .causal = true, .window = 1},
                        Sizes{.keys = 64, .causal = true, .hiddenKeys = 16, .window = 20},
                        Sizes{.queries = 1, .keys = 40, .causal = true, .window = 7}})
      compareOnBoth(sizes, type, true);
}

TEST(CudaAttention, TakesAWorkspaceThatIsNotPlanned) {
  compareOnBoth({.groups = 2, .causal = true}, DataType::BF16, false);
}

std::string refusal(AttentionGeometry g, StatusCode code = StatusCode::Mismatch) {
  Program program;
  int32_t x = addBuffer(program, 1 << 22);
  Instruction instruction;
  instruction.id = "h.0/attention";
  size_t inputCount = (g.isGradient() ? 6 : 3) + (g.hasBias() ? 1 : 0);
  std::vector<int32_t> inputs(inputCount, x), outputs(g.isGradient() ? 3 : 2, x);
  instruction.payload = Attention{std::move(g), inputs, outputs, -1};
  program.entries = {{"step", {instruction}}};
  Status status = createDevice()->prepare(program);
  EXPECT_EQ(status.code(), code) << status.message();
  return status.message();
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Its gradients read such a one wrongly.
TEST(CudaAttention, RepeatsRowsOfABiasOfSamplesForwardOnly) {
  for (DataType biasType : {DataType::F32, DataType::BF16})
    for (Sizes sizes : {Sizes{.bias = "bk"}, Sizes{.groups = 2, .keys = 24, .bias = "hk"},
                        Sizes{.bias = "bhk"}, Sizes{.causal = true, .bias = "bk"}}) {
      sizes.biasType = biasType;
      Call forward;
      std::vector<Bytes> expected;
      compareForward(sizes, DataType::BF16, true, forward, expected);
      expectPart(refusal(geometryOf(sizes, DataType::BF16, true)),
                 "the gradient with a bias that differs by sample or head and repeats its rows");
    }
}

TEST(CudaAttention, RefusesWhatTheLibraryDoesNotHave) {
  AttentionGeometry g = geometryOf({}, DataType::F32, false);
  expectPart(refusal(g), "instruction 0 (h.0/attention)");
  expectPart(refusal(g), "cuDNN has no such attention: of f32; compile the model with --attention "
                         "products");
  expectPart(refusal(geometryOf({.bias = "k", .biasType = DataType::F16}, DataType::BF16, false)),
             "with a bias of f16");
  expectPart(refusal(geometryOf({.keys = 24, .causal = true, .bias = "k"}, DataType::BF16, false)),
             "with a bias beside a causal mask over 16 x 24 scores");
  expectPart(refusal(geometryOf({.queries = 32, .causal = true}, DataType::BF16, false)),
             "a causal mask over 32 x 16 scores, which leaves rows without a key");
  expectPart(refusal(geometryOf({.depth = 12}, DataType::BF16, false)),
             "rows that do not start at multiples of 16 bytes");
  // Forward, newer versions have such long rows on some GPUs.
  expectPart(refusal(geometryOf({.depth = 264}, DataType::BF16, true)),
             "cuDNN has no such attention: ");
  g = geometryOf({}, DataType::BF16, false);
  g.operands[0].strides[0] += 4;
  expectPart(refusal(g), "rows that do not start at multiples of 16 bytes");
}

// The real library compiles each.
TEST(CudaAttention, LayersThatAreAlikeShareAPlan) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  Program program;
  int32_t x = addBuffer(program, 1 << 16);
  auto layer = [&](const Sizes &sizes) {
    Instruction instruction;
    instruction.payload =
        Attention{geometryOf(sizes, DataType::BF16, false), {x, x, x}, {x, x}, -1};
    return instruction;
  };
  program.entries = {{"step", {layer({}), layer({}), layer({.causal = true}), layer({})}}};
  auto plans = [] {
    void *library = dlopen(EMULATED_CUDA "/libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<uint64_t (*)()>(dlsym(library, "emulatedCudnnPlans"))();
  };
  uint64_t before = plans();
  auto device = createDevice();
  ASSERT_TRUE(device->prepare(program).isOk());
  EXPECT_EQ(plans() - before, 2u);
}

[[noreturn]] void prepareIn(const std::string &folder) {
  CudaOptions options;
  options.libraries = folder;
  options.target = {"cuda", CudaTarget().toText()};
  Program program;
  int32_t x = addBuffer(program, 1 << 16);
  Instruction instruction;
  instruction.payload = Attention{geometryOf({}, DataType::BF16, false), {x, x, x}, {x, x}, -1};
  program.entries = {{"step", {instruction}}};
  auto device = createCudaDevice(options);
  Status status = device ? (*device)->prepare(program) : device.status();
  std::fprintf(stderr, "%s", status.message().c_str());
  std::exit(status.exitCode());
}

TEST(CudaAttention, SaysThatTheLibraryIsMissing) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated driver only";
  namespace fs = std::filesystem;
  fs::path folder = fs::path(::testing::TempDir()) / "autopar-no-cudnn";
  fs::create_directories(folder);
  fs::copy_file(EMULATED_CUDA "/libcuda.so.1", folder / "libcuda.so.1",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "libcudnn.so.9") << "none";
  EXPECT_EXIT(
      prepareIn(folder.string()), ::testing::ExitedWithCode(69),
      "cuDNN, which computes attention, cannot be opened: .*libcudnn.so.9.*--attention products");
}

} // namespace
