// SPDX-License-Identifier: Apache-2.0
// Whole kernels: right results, deterministic bytes, and errors that name the kernel.
#include "LoadedKernels.h"

#include "llvm/Support/CommandLine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

using namespace autopar;
using namespace autopar::test;

namespace {

const char *axpy = R"(
func.func @axpy(%a: memref<1000xf32>, %x: memref<1000xf32>, %y: memref<1000xf32>, %begin: index, %end: index) {
  %one = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  scf.for %i = %begin to %end step %one {
    %u = memref.load %a[%i] : memref<1000xf32>
    %v = memref.load %x[%i] : memref<1000xf32>
    %m = arith.mulf %u, %two : f32
    %s = arith.addf %m, %v : f32
    memref.store %s, %y[%i] : memref<1000xf32>
  }
  return
})";

const char *softmax = R"(
func.func @softmax(%x: memref<64x300xf32>, %y: memref<64x300xf32>, %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 300 : index
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %unit = arith.constant 1.0 : f32
  scf.for %i = %begin to %end step %c1 {
    %max = scf.for %j = %c0 to %n step %c1 iter_args(%m = %low) -> f32 {
      %v = memref.load %x[%i, %j] : memref<64x300xf32>
      %r = arith.maxnumf %m, %v fastmath<nnan,nsz> : f32
      scf.yield %r : f32
    }
    %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %x[%i, %j] : memref<64x300xf32>
      %d = arith.subf %v, %max : f32
      %e = math.exp %d fastmath<afn,ninf> : f32
      memref.store %e, %y[%i, %j] : memref<64x300xf32>
      %r = arith.addf %s, %e fastmath<reassoc,contract> : f32
      scf.yield %r : f32
    }
    %inverse = arith.divf %unit, %sum : f32
    scf.for %j = %c0 to %n step %c1 {
      %v = memref.load %y[%i, %j] : memref<64x300xf32>
      %r = arith.mulf %v, %inverse : f32
      memref.store %r, %y[%i, %j] : memref<64x300xf32>
    }
  }
  return
})";

const char *layerNorm = R"(
memref.global "private" constant @epsilon : memref<1xf32> = dense<1.0e-5>
func.func private @reciprocal_root(%v: f32) -> f32 {
  %r = math.rsqrt %v : f32
  return %r : f32
}
func.func @layer_norm(%x: memref<16x256xf32>, %g: memref<256xf32>, %b: memref<256xf32>, %y: memref<16x256xf32>,
                      %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 256 : index
  %zero = arith.constant 0.0 : f32
  %share = arith.constant 0.00390625 : f32
  %table = memref.get_global @epsilon : memref<1xf32>
  %eps = memref.load %table[%c0] : memref<1xf32>
  scf.for %i = %begin to %end step %c1 {
    %row = memref.alloca() : memref<256xf32>
    %in = memref.subview %x[%i, 0] [1, 256] [1, 1] : memref<16x256xf32> to memref<256xf32, strided<[1], offset: ?>>
    memref.copy %in, %row : memref<256xf32, strided<[1], offset: ?>> to memref<256xf32>
    %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %row[%j] : memref<256xf32>
      %r = arith.addf %s, %v fastmath<reassoc,contract> : f32
      scf.yield %r : f32
    }
    %mean = arith.mulf %sum, %share : f32
    %squares = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %row[%j] : memref<256xf32>
      %d = arith.subf %v, %mean : f32
      %q = arith.mulf %d, %d fastmath<contract> : f32
      %r = arith.addf %s, %q fastmath<reassoc,contract> : f32
      scf.yield %r : f32
    }
    %variance = arith.mulf %squares, %share : f32
    %shifted = arith.addf %variance, %eps : f32
    %scale = func.call @reciprocal_root(%shifted) : (f32) -> f32
    scf.for %j = %c0 to %n step %c1 {
      %v = memref.load %row[%j] : memref<256xf32>
      %gain = memref.load %g[%j] : memref<256xf32>
      %bias = memref.load %b[%j] : memref<256xf32>
      %d = arith.subf %v, %mean : f32
      %q = arith.mulf %d, %scale : f32
      %r = math.fma %q, %gain, %bias : f32
      memref.store %r, %y[%i, %j] : memref<16x256xf32>
    }
  }
  return
})";

const char *gather = R"(
func.func @gather(%table: memref<50x8xf32>, %rows: memref<20xi64>, %y: memref<20x8xf32>, %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 8 : index
  %last = arith.constant 50 : i64
  %zero = arith.constant 0 : i64
  scf.for %i = %begin to %end step %c1 {
    %raw = memref.load %rows[%i] : memref<20xi64>
    %negative = arith.cmpi slt, %raw, %zero : i64
    %row64 = scf.if %negative -> i64 {
      %wrapped = arith.addi %raw, %last : i64
      scf.yield %wrapped : i64
    } else {
      scf.yield %raw : i64
    }
    %row = arith.index_cast %row64 : i64 to index
    scf.for %j = %c0 to %n step %c1 {
      %v = memref.load %table[%row, %j] : memref<50x8xf32>
      memref.store %v, %y[%i, %j] : memref<20x8xf32>
    }
  }
  return
})";

const char *integers = R"(
func.func @integers(%x: memref<64xi64>, %d: memref<64xi64>, %q: memref<64xi64>, %f: memref<64xf32>, %m: memref<64xi8>,
                    %begin: index, %end: index) {
  %c1 = arith.constant 1 : index
  %seven = arith.constant 7 : i64
  scf.for %i = %begin to %end step %c1 {
    %v = memref.load %x[%i] : memref<64xi64>
    %w = memref.load %d[%i] : memref<64xi64>
    %floor = arith.floordivsi %v, %w : i64
    %ceil = arith.ceildivsi %v, %w : i64
    %product = arith.muli %floor, %ceil : i64
    %rest = arith.remsi %product, %seven : i64
    memref.store %rest, %q[%i] : memref<64xi64>
    %real = arith.sitofp %v : i64 to f32
    memref.store %real, %f[%i] : memref<64xf32>
    %less = arith.cmpi slt, %v, %w : i64
    %bool = arith.extui %less : i1 to i8
    memref.store %bool, %m[%i] : memref<64xi8>
  }
  return
})";

const char *collatz = R"(
func.func @collatz(%x: memref<30xi64>, %y: memref<30xi64>, %begin: index, %end: index) {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  scf.for %i = %begin to %end step %c1 {
    %start = memref.load %x[%i] : memref<30xi64>
    %out:2 = scf.while (%v = %start, %steps = %zero) : (i64, i64) -> (i64, i64) {
      %go = arith.cmpi ne, %v, %one : i64
      scf.condition(%go) %v, %steps : i64, i64
    } do {
    ^bb0(%v: i64, %steps: i64):
      %r = arith.remui %v, %two : i64
      %even = arith.cmpi eq, %r, %zero : i64
      %next = scf.if %even -> i64 {
        %h = arith.divui %v, %two : i64
        scf.yield %h : i64
      } else {
        %t = arith.muli %v, %three : i64
        %u = arith.addi %t, %one : i64
        scf.yield %u : i64
      }
      %count = arith.addi %steps, %one : i64
      scf.yield %next, %count : i64, i64
    }
    memref.store %out#1, %y[%i] : memref<30xi64>
  }
  return
})";

int64_t floorDiv(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
int64_t ceilDiv(int64_t a, int64_t b) { return a / b + ((a % b != 0) && ((a < 0) == (b < 0))); }

TEST(CompileKernels, Axpy) {
  LoadedKernels kernels(axpy);
  Buffer<float> a(1000), x(1000), y(1000, -1);
  for (int i = 0; i < 1000; ++i)
    a[i] = i, x[i] = 0.5f * i;
  kernels.call("axpy", {a.data(), x.data(), y.data()}, 3, 997);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(y[i], i < 3 || i >= 997 ? -1.0f : 2.5f * i);
}

TEST(CompileKernels, Softmax) {
  LoadedKernels kernels(softmax);
  Buffer<float> x(64 * 300), y(64 * 300);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 5);
  for (int i = 0; i < 64 * 300; ++i)
    x[i] = normal(random);
  x[7] = -INFINITY; // a masked position becomes exactly 0
  kernels.call("softmax", {x.data(), y.data()}, 0, 64);
  EXPECT_EQ(y[7], 0.0f);
  for (int i = 0; i < 64; ++i) {
    double sum = 0, most = -INFINITY;
    for (int j = 0; j < 300; ++j)
      most = std::max<double>(most, x[i * 300 + j]);
    for (int j = 0; j < 300; ++j)
      sum += std::exp(x[i * 300 + j] - most);
    for (int j = 0; j < 300; ++j) {
      double want = std::exp(x[i * 300 + j] - most) / sum;
      EXPECT_NEAR(y[i * 300 + j], want, 5e-6 * want + 1e-30);
    }
  }
}

TEST(CompileKernels, LayerNormWithScratchCopyGlobalAndCall) {
  LoadedKernels kernels(layerNorm);
  Buffer<float> x(16 * 256), g(256), b(256), y(16 * 256);
  std::mt19937 random(2);
  std::normal_distribution<float> normal(3, 2);
  for (int i = 0; i < 16 * 256; ++i)
    x[i] = normal(random);
  for (int j = 0; j < 256; ++j)
    g[j] = normal(random), b[j] = normal(random);
  kernels.call("layer_norm", {x.data(), g.data(), b.data(), y.data()}, 0, 16);
  for (int i = 0; i < 16; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 256; ++j)
      mean += x[i * 256 + j] / 256.0;
    for (int j = 0; j < 256; ++j)
      variance += (x[i * 256 + j] - mean) * (x[i * 256 + j] - mean) / 256.0;
    for (int j = 0; j < 256; ++j)
      EXPECT_NEAR(y[i * 256 + j],
                  (x[i * 256 + j] - mean) / std::sqrt(variance + 1e-5) * g[j] + b[j], 2e-5);
  }
}

TEST(CompileKernels, GatherWithNegativeIndices) {
  LoadedKernels kernels(gather);
  Buffer<float> table(400), y(160);
  Buffer<int64_t> rows(20);
  for (int i = 0; i < 400; ++i)
    table[i] = i;
  for (int i = 0; i < 20; ++i)
    rows[i] = i % 3 == 0 ? -1 - i : 2 * i;
  kernels.call("gather", {table.data(), rows.data(), y.data()}, 0, 20);
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(y[i * 8 + j], ((rows[i] + 50) % 50) * 8 + j);
}

TEST(CompileKernels, IntegerDivisionConversionAndBooleans) {
  for (const char *level : {"x86-64-v3", "native"}) {
    LoadedKernels kernels(integers, {level, 0});
    Buffer<int64_t> x(64), d(64), q(64);
    Buffer<float> f(64);
    Buffer<int8_t> m(64);
    for (int i = 0; i < 64; ++i)
      x[i] = (i - 32) * 1234567891234567ll, d[i] = i % 2 ? i - 40 : 40 - i + (i == 40);
    kernels.call("integers", {x.data(), d.data(), q.data(), f.data(), m.data()}, 0, 64);
    for (int i = 0; i < 64; ++i) {
      auto product =
          static_cast<int64_t>(static_cast<uint64_t>(floorDiv(x[i], d[i])) * ceilDiv(x[i], d[i]));
      EXPECT_EQ(q[i], product % 7);
      EXPECT_EQ(f[i], static_cast<float>(x[i]));
      EXPECT_EQ(m[i], x[i] < d[i]);
    }
  }
}

TEST(CompileKernels, WhileLoops) {
  LoadedKernels kernels(collatz);
  Buffer<int64_t> x(30), y(30);
  for (int i = 0; i < 30; ++i)
    x[i] = i + 1;
  kernels.call("collatz", {x.data(), y.data()}, 0, 30);
  EXPECT_EQ(y[26], 111);
  EXPECT_EQ(y[0], 0);
}

TEST(CompileKernels, BytesDoNotDependOnThreads) {
  std::string text = std::string(axpy) + softmax + layerNorm + gather + integers + collatz, error;
  auto one = compileText(text, {}, error, 1);
  auto two = compileText(text, {}, error, 2);
  auto many = compileText(text, {}, error, 7);
  EXPECT_FALSE(one.empty()) << error;
  EXPECT_EQ(one, two);
  EXPECT_EQ(one, many);
}

TEST(CompileKernels, EveryLevelCompiles) {
  for (const char *level : {"x86-64-v3", "x86-64-v4", "x86-64-v4+amx", "native"}) {
    std::string error;
    EXPECT_FALSE(compileText(softmax, {level, 0}, error).empty()) << level << error;
  }
}

llvm::cl::opt<int> hostOption("kernels-test-option", llvm::cl::init(1));

/// Swaps the inner two of [2, 128, 4] at the front of a buffer of `count` elements.
std::string transposition(const std::string &count) {
  return "func.func @swap(%x: memref<" + count + "xf32>, %y: memref<" + count + R"(xf32>,
    %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c160 = arith.constant 160 : index
  %c640 = arith.constant 640 : index
  scf.for %i = %begin to %end step %c1 {
    scf.for %j = %c0 to %c2 step %c1 {
      scf.for %k = %c0 to %c4 step %c1 {
        scf.for %l = %c0 to %c160 step %c1 {
          %plane = arith.muli %j, %c640 : index
          %row = arith.muli %l, %c4 : index
          %a = arith.addi %plane, %row : index
          %from = arith.addi %a, %k : index
          %v = memref.load %x[%from] : memref<)" +
         count + R"(xf32>
          %column = arith.muli %k, %c160 : index
          %b = arith.addi %plane, %column : index
          %to = arith.addi %b, %l : index
          memref.store %v, %y[%to] : memref<)" +
         count + R"(xf32>
        }
      }
    }
  }
  return
})";
}

// What a tiny model launches is not written out into thousands of instructions.
TEST(CompileKernels, KernelsOfSmallBuffersKeepTheirLoops) {
  auto sizeOf = [](const std::string &text) {
    std::string error;
    size_t bytes = compileText(text, {"x86-64-v4", 0}, error).size();
    EXPECT_GT(bytes, 0u) << error;
    return bytes;
  };
  size_t small = sizeOf(transposition("1280")), large = sizeOf(transposition("65536"));
  EXPECT_LT(small, 3000u);
  EXPECT_GT(large, 2 * small);
}

TEST(CompileKernels, NeedsNoFolderForTemporaryFiles) {
  const char *before = std::getenv("TMPDIR");
  std::string kept = before ? before : "", error;
  setenv("TMPDIR", "/no/such/folder", 1);
  EXPECT_FALSE(compileText(axpy, {}, error).empty()) << error;
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

TEST(CompileKernels, LinkingKeepsTheCommandLineOptionsOfTheProcess) {
  const char *arguments[] = {"test", "--kernels-test-option=7"};
  llvm::cl::ParseCommandLineOptions(2, arguments);
  std::string error;
  EXPECT_FALSE(compileText(axpy, {}, error).empty()) << error;
  EXPECT_EQ(hostOption, 7);
  EXPECT_EQ(hostOption.getNumOccurrences(), 1);
}

TEST(CompileKernels, KernelsMayShareAGlobal) {
  std::string kernel = R"(
    func.func @NAME(%y: memref<4xf32>, %begin: index, %end: index) {
      %c1 = arith.constant 1 : index
      %t = memref.get_global @table : memref<4xf32>
      scf.for %i = %begin to %end step %c1 {
        %v = memref.load %t[%i] : memref<4xf32>
        memref.store %v, %y[%i] : memref<4xf32>
      }
      return
    })";
  std::string other = kernel;
  kernel.replace(kernel.find("NAME"), 4, "first");
  other.replace(other.find("NAME"), 4, "second");
  LoadedKernels kernels(
      "memref.global constant @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>\n" + kernel +
      other);
  Buffer<float> y(4);
  kernels.call("second", {y.data()}, 1, 3);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[2], 3);
}

/// Expects a refusal whose text holds `part`.
void expectError(const std::string &text, const std::string &part, const CpuTarget &target = {}) {
  std::string error;
  EXPECT_TRUE(compileText(text, target, error).empty());
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(CompileKernels, RefusesWhatItCannotCompile) {
  expectError("func.func @k(%a: memref<4xf32>) { return }", "last two arguments");
  expectError("func.func @k(%a: memref<?xf32>, %b: index, %e: index) { return }", "static shape");
  expectError("func.func @k(%a: memref<4xi1>, %b: index, %e: index) { return }", "booleans are i8");
  expectError("func.func @k(%b: index, %e: index) { %m = memref.alloc() : memref<4xf32> return }",
              "kernel 'k': 'memref.alloc'");
  expectError(
      "func.func @k(%b: index, %e: index) { %m = memref.alloca() : memref<1000000xf32> return }",
      "scratch");
  expectError("func.func private @f(index)\n"
              "func.func @k(%b: index, %e: index) { func.call @f(%b) : (index) -> () return }",
              "kernel 'k': needs the function 'f'");
  expectError("func.func @k(%b: index, %e: index) { \"other.op\"() : () -> () return }",
              "other.op");
  expectError("func.func @k(%b: index, %e: index) { \"other.op\"() {s = @f} : () -> () return }",
              "refers to unknown symbol @f");
  expectError("", "expected at least one public function to compile as a kernel");
  expectError("func.func @k(%b: index, %e: index) -> index { return %b : index }",
              "expected a kernel without results, got 1");
  expectError("func.func @k(%b: index) { return }",
              "expected the kernel's last two arguments to be its range, both of type index");
  expectError("func.func @k(%a: memref<4xf32>, %b: index, %e: index) { %d = memref.cast %a : "
              "memref<4xf32> to memref<?xf32> memref.copy %d, %d : memref<?xf32> to memref<?xf32> "
              "return }",
              "expected a source of static shape, got 'memref<?xf32>'");
  expectError("func.func @k(%a: memref<4xi4>, %b: index, %e: index) { return }",
              "kernel argument 0: expected elements of i8, i16, i32, i64, index, f16, bf16, f32 or "
              "f64 (booleans are i8), got 'i4'");
  expectError(axpy, "preferred vector width of 100 bits; expected 128, 256 or 512",
              {"x86-64-v3", 100});
  expectError(axpy, "preferred vector width of 512 bits, but x86-64-v3 has 256",
              {"x86-64-v3", 512});
  expectError(axpy, "unknown CPU level", {"pentium", 0});
  expectError(axpy, "x86-64-v3 has 256", {"x86-64-v3", 512});
}

} // namespace
