// SPDX-License-Identifier: Apache-2.0
// The CUDA device on an emulated GPU: products of all kinds against loops, and queues that wait for
// each other.
#include "PlainProduct.h"
#include "TestProgram.h"
#include "autopar/Runtime/Executor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;
using namespace autopar::testing;

namespace {

double apply(Epilogue epilogue, double x) {
  return epilogue == Epilogue::Relu ? std::max(x, 0.0)
         : epilogue == Epilogue::GeluTanh
             ? 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
             : x;
}

int64_t span(const StridedShape &shape) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.dims.size(); ++d)
    last += (shape.dims[d] - 1) * shape.strides[d];
  return last + 1;
}

/// How many bytes behind a multiple of 256 operands of a product start.
struct Shift {
  int64_t c = 0, bias = 0, residual = 0;
};

/// A program of one product.
Matmul addProduct(Program &program, const MatmulGeometry &g, const Shift &shift = {}) {
  auto shifted = [&](int64_t elements, DataType type, int64_t by) {
    int32_t buffer = addBuffer(program, elements + by, type);
    program.buffers[size_t(buffer)].offset += by;
    return buffer;
  };
  Matmul matmul;
  matmul.geometry = g;
  matmul.a = addBuffer(program, span(g.a), g.aType);
  matmul.b = addBuffer(program, span(g.b), g.bType);
  matmul.c = shifted(span(g.c), g.cType, shift.c);
  matmul.bias = g.hasBias ? shifted(g.c.dims.back(), g.biasType, shift.bias) : -1;
  matmul.residual = g.hasResidual ? shifted(span(g.c), g.cType, shift.residual) : -1;
  Instruction instruction;
  instruction.id = "product";
  instruction.payload = matmul;
  program.entries = {{"step", {instruction}}};
  return matmul;
}

/// Runs one product on the device and compares it with its definition.
void compareProduct(const MatmulGeometry &g, const std::string &what, const Shift &shift = {}) {
  Program program;
  size_t rank = g.c.dims.size();
  int64_t n = g.c.dims[rank - 1], k = g.a.dims[rank - 1];
  Matmul matmul = addProduct(program, g, shift);
  auto device = createDevice();
  Status prepared = device->prepare(program);
  ASSERT_TRUE(prepared.isOk()) << what << ": " << prepared.message();
  auto fill = [&](int32_t buffer, int64_t count, int seed, DataType dtype) {
    std::vector<uint8_t> bytes = encode(numbers(count, seed), dtype);
    EXPECT_TRUE(device->write(buffer, 0, bytes.data(), int64_t(bytes.size())).isOk());
    return bytes;
  };
  auto a = fill(matmul.a, span(g.a), 1, g.aType), b = fill(matmul.b, span(g.b), 2, g.bType);
  std::vector<uint8_t> bias, residual, c(size_t(span(g.c) * byteSize(g.cType)));
  if (g.hasBias)
    bias = fill(matmul.bias, n, 3, g.biasType);
  if (g.hasResidual)
    residual = fill(matmul.residual, span(g.c), 4, g.cType);
  finish(*device, device->issue(program.entries[0].instructions[0], 0, {}));
  ASSERT_TRUE(device->read(matmul.c, 0, c.data(), int64_t(c.size())).isOk());
  int64_t all = 1;
  for (int64_t dim : g.c.dims)
    all *= dim;
  // The library may take the GPU's instruction for tanh, which is right to 2^-11.
  bool isApproximate = g.epilogue == Epilogue::GeluTanh;
  double tolerance = g.cType == DataType::BF16  ? 0.06
                     : g.cType == DataType::F16 ? 8e-3
                     : isApproximate            ? 1e-3
                                                : 1e-5;
  for (int64_t e = 0; e < all; ++e) {
    std::vector<int64_t> index(rank);
    int64_t rest = e;
    for (size_t d = rank; d-- > 0; rest /= g.c.dims[d])
      index[d] = rest % g.c.dims[d];
    auto batch = [&](const StridedShape &shape) {
      int64_t at = 0;
      for (size_t d = 0; d + 2 < rank; ++d)
        at += shape.dims[d] == 1 ? 0 : index[d] * shape.strides[d];
      return at;
    };
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += decode(&a[size_t((batch(g.a) + index[rank - 2] * g.a.strides[rank - 2] +
                               j * g.a.strides[rank - 1]) *
                              byteSize(g.aType))],
                    g.aType) *
             decode(&b[size_t((batch(g.b) + j * g.b.strides[rank - 2] +
                               index[rank - 1] * g.b.strides[rank - 1]) *
                              byteSize(g.bType))],
                    g.bType);
    if (g.hasBias)
      sum += decode(&bias[size_t(index[rank - 1] * byteSize(g.biasType))], g.biasType);
    sum *= double(g.scale);
    int64_t at = batch(g.c) + index[rank - 2] * g.c.strides[rank - 2] +
                 index[rank - 1] * g.c.strides[rank - 1];
    double other = g.hasResidual ? decode(&residual[size_t(at * byteSize(g.cType))], g.cType) : 0;
    double expected = apply(g.epilogue, sum + other);
    ASSERT_NEAR(decode(&c[size_t(at * byteSize(g.cType))], g.cType), expected,
                tolerance * (1 + std::fabs(expected)))
        << what << ", element " << e;
  }
}

TEST(CudaDevice, ProductsAgainstLoops) {
  int number = 0;
  for (bool transposedA : {false, true})
    for (bool transposedB : {false, true})
      for (bool transposedC : {false, true})
        for (bool bias : {false, true})
          for (bool residual : {false, true})
            for (float scale : {1.0f, 0.5f})
              for (Epilogue epilogue : {Epilogue::None, Epilogue::Relu, Epilogue::GeluTanh}) {
                // Types and sizes take turns.
                constexpr DataType types[][2] = {{DataType::F32, DataType::F32},
                                                 {DataType::BF16, DataType::BF16},
                                                 {DataType::BF16, DataType::F32},
                                                 {DataType::F16, DataType::F16},
                                                 {DataType::F16, DataType::F32}};
                auto [type, result] = types[number % 5];
                const int64_t outer = 2, inner = 3, m = number % 7 == 0 ? 1 : 5,
                              k = number % 3 == 0 ? 70 : 7, n = number % 11 == 0 ? 1 : 9;
                MatmulGeometry g;
                g.aType = g.bType = type;
                g.cType = g.biasType = result;
                // A batch of which b takes a part; heads lie between the rows of a.
                g.a = {{outer, inner, m, k}, {m * inner * k, k, inner * k, 1}};
                if (transposedA)
                  g.a.strides = {inner * m * k, m * k, 1, m};
                g.b = {{1, inner, k, n}, {0, k * n, n, 1}};
                if (transposedB)
                  g.b.strides = {0, k * n, 1, k};
                g.c = {{outer, inner, m, n}, {inner * m * n, m * n, n, 1}};
                if (transposedC)
                  g.c.strides = {inner * m * n, m * n, 1, m};
                g.hasBias = bias;
                g.hasResidual = residual;
                g.scale = scale;
                g.epilogue = epilogue;
                compareProduct(g, "product " + std::to_string(number));
                ++number;
              }
}

// The epilogue reads a bias in pieces of 16 bytes; another one is added before.
TEST(CudaDevice, ProductsOfEightBitsAgainstLoops) {
  for (DataType result : {DataType::BF16, DataType::F32})
    for (int64_t m : {1, 5}) {
      const int64_t batch = 2, k = 48, n = 32;
      MatmulGeometry g;
      g.aType = g.bType = DataType::F8E4M3FN;
      g.cType = g.biasType = result;
      g.a = {{batch, m, k}, {m * k, k, 1}};
      g.b = {{batch, k, n}, {k * n, 1, k}};
      g.c = {{batch, m, n}, {m * n, n, 1}};
      compareProduct(g, std::string(name(result)) + ", " + std::to_string(m) + " rows");
    }
}

TEST(CudaDevice, ProductsOfOperandsThatAreHardlyAligned) {
  for (DataType type : {DataType::F32, DataType::BF16})
    for (float scale : {1.0f, 0.5f})
      for (bool hasResidual : {false, true})
        for (Shift shift : {Shift{.bias = 4}, Shift{.c = 4}, Shift{.residual = 4}}) {
          MatmulGeometry g = plainProduct(5, 70, 9, type);
          g.hasBias = true;
          g.hasResidual = hasResidual;
          g.scale = scale;
          g.epilogue = Epilogue::Relu;
          compareProduct(g, std::string(name(type)) + ", bias at " + std::to_string(shift.bias),
                         shift);
        }
}

// A grid is no higher.
TEST(CudaDevice, ProductsOfMoreMatricesThanACallTakes) {
  for (int64_t count : {70000, 65536}) {
    MatmulGeometry g;
    g.a = {{count, 1, 2}, {2, 2, 1}};
    g.b = {{count, 2, 1}, {2, 1, 1}};
    g.c = {{count, 1, 1}, {1, 1, 1}};
    compareProduct(g, std::to_string(count));
  }
}

// Some versions of the library have no bias beside a single row or column; it is then added before.
TEST(CudaDevice, ProductsWhoseBiasTheEpilogueDoesNotTake) {
  for (DataType type : {DataType::F32, DataType::BF16})
    for (bool hasResidual : {false, true})
      for (auto [m, k, n] : {std::array{6, 70, 1}, {1, 70, 6}, {6, 1, 9}}) {
        MatmulGeometry g = plainProduct(m, k, n, type);
        g.hasBias = true;
        g.hasResidual = hasResidual;
        g.epilogue = Epilogue::Relu;
        compareProduct(g, std::string(name(type)) + (hasResidual ? ", residual" : ""));
      }
}

TEST(CudaDevice, AWorkspaceIsPlannedWhereTheLibraryTakesIt) {
  if (!isEmulated())
    GTEST_SKIP() << "how much a library wants differs";
  Program program;
  Matmul matmul = addProduct(program, plainProduct(5, 70, 9, DataType::F32));
  matmul.scratch = addBuffer(program, 4096, DataType::U8);
  Instruction &product = program.entries[0].instructions[0];
  product.payload = matmul;
  auto device = createDevice();
  ASSERT_TRUE(device->prepare(program).isOk());
  EXPECT_EQ(device->unplannedBytes(), 0);
  finish(*device, device->issue(product, 0, {}));
  // A program that was planned in steps of 64 bytes.
  program.buffers[size_t(matmul.scratch)].offset += 64;
  program.arenaBytes[0] += 64;
  Status status = createDevice()->prepare(program);
  EXPECT_EQ(status.code(), StatusCode::Mismatch);
  EXPECT_NE(status.message().find("b3, a library's workspace, does not start at a multiple of 256 "
                                  "bytes; compile the model with this version"),
            std::string::npos)
      << status.message();
  // What wants none takes it wherever it is.
  std::get<Matmul>(product.payload).geometry = plainProduct(5, 7, 9, DataType::F32);
  device = createDevice();
  ASSERT_TRUE(device->prepare(program).isOk());
  finish(*device, device->issue(product, 0, {}));
}

TEST(CudaDevice, SaysWhatTheLibraryForProductsSays) {
  if (!isEmulated())
    GTEST_SKIP() << "with the emulated library only";
  Program program;
  addProduct(program, plainProduct(4, 4, 4, DataType::F32));
  auto failure = [&](const char *variable) {
    setenv(variable, "13", 1);
    Status status = createDevice()->prepare(program);
    unsetenv(variable);
    EXPECT_EQ(status.code(), StatusCode::Internal);
    return status.message();
  };
  EXPECT_NE(failure("AUTOPAR_EMULATED_CUBLASLT_CREATE")
                .find("cublasLtCreate: CUBLAS_STATUS_EXECUTION_FAILED 13"),
            std::string::npos);
  EXPECT_NE(failure("AUTOPAR_EMULATED_CUBLASLT_HEURISTIC")
                .find("cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_EXECUTION_FAILED 13"),
            std::string::npos);
}

TEST(CudaDevice, RefusesProductsThatTheLibraryDoesNotHave) {
  auto refusal = [](MatmulGeometry g) {
    Program program;
    Matmul matmul;
    matmul.geometry = g;
    matmul.a = addBuffer(program, 64, g.aType);
    matmul.b = addBuffer(program, 64, g.bType);
    matmul.c = addBuffer(program, 64, g.cType);
    matmul.residual = g.hasResidual ? addBuffer(program, 64, g.cType) : -1;
    Instruction instruction;
    instruction.id = "h.0/dot";
    instruction.payload = matmul;
    program.entries = {{"step", {instruction}}};
    Status status = createDevice()->prepare(program);
    EXPECT_EQ(status.code(), StatusCode::Mismatch);
    return status.message();
  };
  MatmulGeometry g;
  g.a = g.b = g.c = {{4, 4}, {4, 1}};
  g.epilogue = Epilogue::GeluErf;
  std::string exactGelu = refusal(g);
  EXPECT_NE(exactGelu.find("entry step, instruction 0 (h.0/dot): GPU 0 ("), std::string::npos);
  EXPECT_NE(exactGelu.find("cuBLASLt has no such product: with an exact GELU"), std::string::npos);
  g.epilogue = Epilogue::None;
  g.bType = DataType::BF16;
  EXPECT_NE(refusal(g).find("f32 by bf16"), std::string::npos);
  g.bType = DataType::F32;
  auto says = [&](const std::string &what) {
    std::string said = refusal(g); // the name of the GPU is the machine's
    EXPECT_EQ(said.substr(said.find("): cuBLASLt") + 3),
              "cuBLASLt has no such product: " + what + "; compile the model for this device");
  };
  g.a.strides = {8, 2};
  says("a matrix of 4 x 4 with strides 2, 8");
  g.a.strides = {4, 1};
  g.packedB = true;
  says("with packed weights");
  g.packedB = false;
  g.aType = g.bType = DataType::F8E4M3FN;
  says("of 8 bits whose terms are no neighbours");
  g.aType = g.bType = DataType::F32;
  g.a.dims[1] = g.b.dims[0] = 0;
  says("over no terms");
}

/// Sends what must not be needed.
class NoCommunicator : public Communicator {
public:
  int32_t rank() const override { return 0; }
  int32_t worldSize() const override { return 1; }
  Result<Token> collective(const CollectiveCall &) override { return Status::internal("no"); }
  Result<Token> permute(const void *, void *, int64_t, int32_t, int32_t) override {
    return Status::internal("no");
  }
  Result<Token> send(int32_t, int32_t, const void *, int64_t) override {
    return Status::internal("no");
  }
  Result<Token> receive(int32_t, int32_t, void *, int64_t) override {
    return Status::internal("no");
  }
  Result<bool> test(Token) override { return true; }
  void wait(std::chrono::microseconds) override {}
  void abort(const Status &) override {}
};
class NoParameters : public ParameterSource {
public:
  Status read(const Port &, const PortShard &, void *, const std::vector<int64_t> &) override {
    return Status::internal("no");
  }
};

/// Runs a program of one row, once one by one and then `captured` times as a graph.
void runCaptured(const Program &program, Device &device, int captured) {
  ASSERT_TRUE(device.prepare(program).isOk());
  SharedProgram shared(program);
  RankTable table;
  NoCommunicator communicator;
  NoParameters parameters;
  Executor executor(shared, table, 0, device, communicator, parameters);
  ASSERT_TRUE(executor.captureSteps().isOk());
  for (int step = 0; step < 1 + captured; ++step) {
    executor.startStep(step);
    Progress progress = Progress::Pending;
    while ((progress = executor.advance()) == Progress::Pending) {
    }
    ASSERT_EQ(progress, Progress::Done) << executor.status().message();
  }
}

/// Copies of one byte, on the queues in turn; each comes after all of its own queue.
Program copiesOn(std::vector<Queue> queues, int32_t count) {
  Program program;
  int32_t from = addBuffer(program, 1, DataType::U8), to = addBuffer(program, count, DataType::U8);
  Entry entry{"step", {}};
  for (int32_t i = 0; i < count; ++i) {
    Instruction instruction;
    instruction.queue = queues[size_t(i) % queues.size()];
    instruction.id = "copy" + std::to_string(i);
    instruction.payload = Copy{from, 0, to, i, 1};
    for (int32_t earlier = i - int32_t(queues.size()); earlier >= 0;
         earlier -= int32_t(queues.size()))
      instruction.after.push_back(earlier);
    entry.instructions.push_back(instruction);
  }
  program.entries = {entry};
  program.timetable = {{0, 0}};
  return program;
}

// Work on a stream comes after what it was given before. The emulated driver counts waits; of a
// real one it shows that such a step is captured.
TEST(CudaDevice, AQueueWaitsForNothingOfItsOwn) {
  auto waits = []() -> uint64_t {
    if (!isEmulated())
      return 0;
    void *driver = dlopen(EMULATED_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<uint64_t (*)(const char *)>(dlsym(driver, "emulatedCudaCount"))(
        "waits");
  };
  auto device = createDevice();
  uint64_t before = waits();
  Program program = copiesOn({Queue::Compute}, 20);
  runCaptured(program, *device, 2);
  EXPECT_EQ(waits() - before, 0u);
}

// One in 128 instructions, and the ends of queues where there are several.
TEST(CudaDevice, AGraphMarksHowFarItCame) {
  auto device = createDevice();
  Program one = copiesOn({Queue::Compute}, 300);
  runCaptured(one, *device, 2);
  EXPECT_EQ(device->capture()->reached(Queue::Compute), 2);
  device = createDevice();
  Program two = copiesOn({Queue::Compute, Queue::CopyOut}, 300);
  runCaptured(two, *device, 2);
  EXPECT_EQ(device->capture()->reached(Queue::Compute), 2);
  EXPECT_EQ(device->capture()->reached(Queue::CopyOut), 2);
  EXPECT_EQ(device->capture()->reached(Queue::CopyIn), 0);
}

/// A byte goes through many buffers, on another queue each time, in one row or in one for each of
/// them; how many steps of a hundred end with another one than they began with.
int wrongSteps(bool withWaits, bool captures, bool inRows) {
  Program program;
  constexpr int length = 12;
  std::vector<int32_t> buffers;
  for (int i = 0; i <= length; ++i)
    buffers.push_back(
        addBuffer(program, 1, DataType::U8, i % 5 == 4 ? Space::PinnedHost : Space::Device));
  program.entries = {{"step", {}}};
  for (int i = 0; i < length; ++i) {
    Instruction instruction;
    constexpr Queue queues[] = {Queue::CopyIn, Queue::Compute, Queue::CopyOut, Queue::Host};
    instruction.queue = queues[i % 4];
    instruction.id = "copy" + std::to_string(i);
    instruction.payload = Copy{buffers[size_t(i)], 0, buffers[size_t(i) + 1], 0, 1};
    if (i > 0 && withWaits && inRows)
      instruction.awaits = {{i - 1, 0}};
    if (i > 0 && withWaits && !inRows)
      instruction.after = {i - 1};
    if (i > 0 && inRows)
      program.entries.push_back({"step" + std::to_string(i), {}});
    program.entries.back().instructions.push_back(instruction);
  }
  for (size_t entry = 0; entry < program.entries.size(); ++entry)
    program.timetable.push_back({int32_t(entry), 0});
  auto device = createDevice();
  EXPECT_TRUE(device->prepare(program).isOk());
  SharedProgram shared(program);
  RankTable table;
  NoCommunicator communicator;
  NoParameters parameters;
  Executor executor(shared, table, 0, *device, communicator, parameters);
  if (captures)
    EXPECT_TRUE(executor.captureSteps().isOk());
  int wrong = 0;
  for (int step = 0; step < 100; ++step) {
    uint8_t byte = uint8_t(step * 7 + 1), end = 0;
    EXPECT_TRUE(device->write(buffers[0], 0, &byte, 1).isOk());
    executor.startStep(step);
    Progress progress = Progress::Pending;
    while ((progress = executor.advance()) == Progress::Pending) {
    }
    EXPECT_EQ(progress, Progress::Done) << executor.status().message();
    EXPECT_TRUE(device->read(buffers[length], 0, &end, 1).isOk());
    wrong += end != byte;
  }
  return wrong;
}

TEST(CudaDevice, QueuesWaitForEachOther) {
  for (bool inRows : {false, true})
    for (bool captures : {false, true}) {
      EXPECT_EQ(wrongSteps(true, captures, inRows), 0);
      // The emulation shows a wait that is missing.
      if (isEmulated())
        EXPECT_GT(wrongSteps(false, captures, inRows), 50);
    }
}

} // namespace
