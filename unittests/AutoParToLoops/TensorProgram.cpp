// SPDX-License-Identifier: Apache-2.0
// See TensorProgram.h.
#include "TensorProgram.h"

#include "EmulatedGpu.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Conversion/KernelsToCuda.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::autopar;

namespace autopar::test {

std::string Tensor::mlirType() const {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

int64_t Tensor::size() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

Tensor makeTensor(const std::string &type, std::vector<int64_t> shape, double low, double high,
                  unsigned seed) {
  Tensor tensor{type, std::move(shape), {}};
  uint64_t state = 0x9E3779B97F4A7C15u * (seed + 1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = low + (high - low) * static_cast<double>(state >> 40) / (1 << 24);
    bool isFloat = type[0] == 'f' || type[0] == 'b';
    tensor.data.push_back(isFloat ? static_cast<float>(value) : std::floor(value));
  }
  return tensor;
}

//===-- bytes --------------------------------------------------------------------------------===//

namespace {

/// Memory aligned as kernels expect.
class Storage {
public:
  explicit Storage(size_t size) : bytes(size + 64 + 64) {}
  char *data() {
    auto address = reinterpret_cast<uintptr_t>(bytes.data());
    return reinterpret_cast<char *>((address + 63) & ~uintptr_t(63));
  }

private:
  std::vector<char> bytes;
};

size_t byteWidth(Type type) { return (type.getIntOrFloatBitWidth() + 7) / 8; }

void writeElement(char *place, Type type, double value) {
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat number(value);
    bool inexact;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
    uint64_t bits = number.bitcastToAPInt().getZExtValue();
    std::memcpy(place, &bits, byteWidth(type));
    return;
  }
  bool isUnsigned = type.isUnsignedInteger();
  // The greatest number of 64 bits is no double.
  int64_t whole = value >= 0x1p63 && !isUnsigned ? std::numeric_limits<int64_t>::max()
                                                 : static_cast<int64_t>(value);
  uint64_t bits = isUnsigned ? static_cast<uint64_t>(value) : static_cast<uint64_t>(whole);
  std::memcpy(place, &bits, byteWidth(type));
}

double readElement(const char *place, Type type) {
  uint64_t bits = 0;
  std::memcpy(&bits, place, byteWidth(type));
  unsigned width = byteWidth(type) * 8;
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat number(floating.getFloatSemantics(), APInt(floating.getWidth(), bits));
    bool inexact;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    return number.convertToDouble();
  }
  if (type.isUnsignedInteger() || width == 8 * sizeof(bits))
    return type.isUnsignedInteger() ? static_cast<double>(bits)
                                    : static_cast<double>(static_cast<int64_t>(bits));
  return static_cast<double>(APInt(width, bits).getSExtValue());
}

/// Kernels of one program, loaded.
class Library {
public:
  explicit Library(const std::vector<char> &bytes) {
    descriptor = memfd_create("kernels", MFD_CLOEXEC);
    EXPECT_EQ(write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
  }
  ~Library() {
    if (library)
      dlclose(library);
    close(descriptor);
  }
  void call(const std::string &name, const std::vector<void *> &arguments, int64_t begin,
            int64_t end) {
    using Kernel = void (*)(void *const *, int64_t, int64_t);
    auto kernel = library ? reinterpret_cast<Kernel>(dlsym(library, name.c_str())) : nullptr;
    ASSERT_NE(kernel, nullptr) << name;
    kernel(arguments.data(), begin, end);
  }

private:
  int descriptor = -1;
  void *library = nullptr;
};

class ProgramRunner {
public:
  explicit ProgramRunner(Target target = Target::Cpu)
      : target(target), context(makeRegistry(), MLIRContext::Threading::DISABLED) {
    context.loadDialect<AutoParDialect>();
  }

  bool parse(const std::string &text, bool formGroups) {
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return false;
    if (formGroups) {
      PassManager passes(&context);
      passes.addNestedPass<func::FuncOp>(createFormFusionGroupsPass());
      if (failed(passes.run(*module)))
        return false;
    }
    return true;
  }
  Block &body() { return (*module->getOps<func::FuncOp>().begin()).getBody().front(); }

  std::vector<Tensor> run(const std::vector<Tensor> &inputs);

private:
  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registerLoweringModels(registry);
    return registry;
  }
  char *allocate(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    storages.push_back(
        std::make_unique<Storage>(type.getNumElements() * byteWidth(type.getElementType())));
    return buffers[value] = storages.back()->data();
  }
  bool emitAll(ModuleOp kernels);
  bool compile(ModuleOp kernels);
  void execute(Operation &op);

  Target target;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<std::unique_ptr<Storage>> storages;
  DenseMap<Value, char *> buffers;
  struct Kernel {
    std::string name;
    int64_t extent = 0;
    GpuLaunch shape; ///< on a GPU
  };
  DenseMap<Operation *, Kernel> names;
  std::unique_ptr<Library> library;
  std::unique_ptr<EmulatedGpu> gpu;
};

bool ProgramRunner::emitAll(ModuleOp kernels) {
  for (Operation &op : body().without_terminator()) {
    if (isa<ReshapeOp, mlir::autopar::ConstantOp>(op))
      continue;
    std::string name = "k" + std::to_string(names.size());
    int64_t extent = 0;
    FailureOr<func::FuncOp> function = emitKernel(&op, kernels, name, extent, {}, target);
    if (failed(function))
      return false;
    names[&op] = {name, extent, {}};
    if (auto grid = (*function)->getAttrOfType<DenseI64ArrayAttr>(kGridAttribute))
      names[&op].shape = {grid[0], grid[1], grid[2]};
  }
  if (getenv("AUTOPAR_PRINT_KERNELS"))
    kernels->dump();
  return succeeded(verify(kernels));
}

bool ProgramRunner::compile(ModuleOp kernels) {
  if (names.empty())
    return true;
  if (target == Target::Cuda) {
    auto ptx = ::autopar::compileKernelsToPtx(kernels, 1);
    if (failed(ptx))
      return false;
    if (getenv("AUTOPAR_PRINT_KERNELS"))
      llvm::errs() << *ptx;
    gpu = std::make_unique<EmulatedGpu>(*ptx);
    return true;
  }
  auto compiled = ::autopar::compileKernels(kernels, {}, 1);
  if (failed(compiled))
    return false;
  library = std::make_unique<Library>(*compiled);
  return true;
}

void ProgramRunner::execute(Operation &op) {
  if (isa<ReshapeOp>(op)) {
    buffers[op.getResult(0)] = buffers.lookup(op.getOperand(0));
    return;
  }
  std::vector<void *> arguments;
  for (Value operand : op.getOperands())
    arguments.push_back(buffers.lookup(operand));
  for (Value result : op.getResults())
    arguments.push_back(allocate(result));
  if (auto constant = dyn_cast<mlir::autopar::ConstantOp>(op)) {
    auto values = cast<DenseElementsAttr>(constant.getValue());
    Type element = values.getElementType();
    for (int64_t i = 0; i < values.getNumElements(); ++i) {
      double value = isa<FloatType>(element)
                         ? values.getValues<APFloat>()[i].convertToDouble()
                         : static_cast<double>(values.getValues<APInt>()[i].getSExtValue());
      writeElement(static_cast<char *>(arguments.back()) + i * byteWidth(element), element,
                   element.isInteger(1) ? value != 0 : value);
    }
    return;
  }
  Kernel kernel = names.lookup(&op);
  if (library) {
    library->call(kernel.name, arguments, 0, kernel.extent / 3);
    library->call(kernel.name, arguments, kernel.extent / 3, kernel.extent);
    return;
  }
  std::vector<GpuArgument> passed;
  for (auto [value, address] : llvm::zip(
           llvm::concat<Value>(llvm::to_vector(op.getOperands()), llvm::to_vector(op.getResults())),
           arguments)) {
    auto type = cast<RankedTensorType>(value.getType());
    passed.push_back({address, type.getNumElements() * byteWidth(type.getElementType())});
  }
  gpu->launch(kernel.name, kernel.shape, passed);
}

std::vector<Tensor> ProgramRunner::run(const std::vector<Tensor> &inputs) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(&context));
  if (!emitAll(*kernels) || !compile(*kernels))
    return {};
  for (auto [argument, tensor] : llvm::zip_equal(body().getArguments(), inputs)) {
    char *data = allocate(argument);
    Type element = cast<RankedTensorType>(argument.getType()).getElementType();
    for (int64_t i = 0; i < tensor.size(); ++i)
      writeElement(data + i * byteWidth(element), element, tensor.data[i]);
  }
  for (Operation &op : body().without_terminator())
    execute(op);
  std::vector<Tensor> results;
  for (Value value : body().getTerminator()->getOperands()) {
    auto type = cast<RankedTensorType>(value.getType());
    Type element = type.getElementType();
    std::string name;
    llvm::raw_string_ostream(name) << element;
    Tensor tensor{name, std::vector<int64_t>(type.getShape().begin(), type.getShape().end()), {}};
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data.push_back(readElement(buffers.lookup(value) + i * byteWidth(element), element));
    results.push_back(tensor);
  }
  return results;
}

/// How far the results of a GPU and of a CPU may be apart: sums are added in another order.
double toleranceOf(const std::string &type) {
  return type == "f64"    ? 1e-12
         : type == "f32"  ? 5e-5
         : type == "f16"  ? 2e-3
         : type == "bf16" ? 1e-2
                          : 0;
}

void compareWithGpu(const std::string &text, const std::vector<Tensor> &inputs, bool formGroups,
                    const std::vector<Tensor> &results) {
  ProgramRunner runner(Target::Cuda);
  std::vector<Tensor> same;
  if (runner.parse(text, formGroups))
    same = runner.run(inputs);
  EXPECT_EQ(same.size(), results.size()) << text;
  for (size_t i = 0; i < std::min(same.size(), results.size()); ++i)
    expectClose(same[i], results[i].data, toleranceOf(same[i].type), "on a GPU:\n" + text);
}

} // namespace

std::vector<Tensor> runOnCpu(const std::string &text, const std::vector<Tensor> &inputs,
                             bool formGroups) {
  ProgramRunner runner;
  std::vector<Tensor> results;
  if (runner.parse(text, formGroups))
    results = runner.run(inputs);
  EXPECT_FALSE(results.empty()) << text;
  // Empty tensors after a failure, so that the test ends with a message instead of a crash.
  constexpr size_t mostResults = 4;
  if (results.empty())
    results.resize(mostResults);
  return results;
}

std::vector<Tensor> runProgram(const std::string &text, const std::vector<Tensor> &inputs,
                               bool formGroups) {
  std::vector<Tensor> results = runOnCpu(text, inputs, formGroups);
  compareWithGpu(text, inputs, formGroups, results);
  return results;
}

std::vector<Tensor> runOperation(const std::string &line, const std::vector<Tensor> &inputs,
                                 const std::vector<std::string> &resultTypes) {
  std::string arguments, types, values;
  for (size_t i = 0; i < inputs.size(); ++i)
    arguments += (i ? ", %" : "%") + std::to_string(i) + ": " + inputs[i].mlirType();
  for (size_t i = 0; i < resultTypes.size(); ++i) {
    types += (i ? ", " : "") + resultTypes[i];
    values += (i ? ", %r#" : "%r#") + std::to_string(i);
  }
  std::string text = "func.func @f(" + arguments + ") -> (" + types +
                     ") {\n  %r:" + std::to_string(resultTypes.size()) + " = " + line +
                     "\n  return " + values + " : " + types + "\n}\n";
  return runProgram(text, inputs, false);
}

std::string countKernels(const std::string &text) {
  ProgramRunner runner;
  if (!runner.parse(text, true))
    return "failed";
  int groups = 0, others = 0;
  for (Operation &op : runner.body().without_terminator()) {
    groups += isa<GroupOp>(op);
    others += !isa<GroupOp, ReshapeOp, mlir::autopar::ConstantOp>(op);
  }
  return std::to_string(groups) + "+" + std::to_string(others);
}

void expectClose(const Tensor &actual, const std::vector<double> &expected, double tolerance,
                 const std::string &what) {
  ASSERT_EQ(actual.data.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    double a = actual.data[i], e = expected[i];
    bool same = (std::isnan(a) && std::isnan(e)) || a == e ||
                std::abs(a - e) <= tolerance * std::max(1.0, std::abs(e));
    ASSERT_TRUE(same) << what << " at " << i << ": got " << a << ", expected " << e;
  }
}

} // namespace autopar::test
