// SPDX-License-Identifier: Apache-2.0
// The emulated GPU itself: numbers of kernels that a CUDA compiler made, and that what is wrong on
// a real one is refused here.
#include "EmulatedGpuFixture.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

using namespace autopar;
using namespace autopar::runtime::cuda;
using namespace autopar::testing;

namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

float value(size_t i) { return float(int(i * 7919 % 2003) - 1001) / 250.0f; }

TEST_F(EmulatedGpu, RunsWhatACompilerMade) {
  Module module = load(readText(SAMPLES_PTX));
  {
    std::vector<float> x(1000);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = value(i);
    DevicePointer in = give(x), out = give(std::vector<float>(1000)),
                  count = give(std::vector<long long>{1000});
    expect(launch(function(module, "gelu"), 4, 256, 0, {in, out, count}));
    std::vector<float> y = take<float>(out, 1000);
    for (size_t i = 0; i < x.size(); ++i) {
      double v = 2.0 * x[i] + 0.5;
      EXPECT_NEAR(y[i], 0.5 * v * (1 + std::tanh(0.79788456 * (v + 0.044715 * v * v * v))), 2e-5)
          << i;
    }
  }
  {
    int rows = 3, columns = 777;
    std::vector<float> x(size_t(rows * columns));
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = value(i);
    DevicePointer in = give(x), out = give(std::vector<float>(x.size())),
                  count = give(std::vector<int>{columns});
    expect(launch(function(module, "softmax"), unsigned(rows), 128, 0, {in, out, count}));
    std::vector<float> y = take<float>(out, x.size());
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int c = 0; c < columns; ++c)
        sum += std::exp(double(x[size_t(r * columns + c)]));
      for (int c = 0; c < columns; ++c)
        EXPECT_NEAR(y[size_t(r * columns + c)], std::exp(double(x[size_t(r * columns + c)])) / sum,
                    1e-7);
    }
  }
  {
    std::vector<uint16_t> x(1024);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = uint16_t(i);
    DevicePointer in = give(x), out = give(std::vector<uint16_t>(1024));
    expect(launch(function(module, "transpose"), 1, 256, 32 * 33 * 2, {in, out}));
    std::vector<uint16_t> y = take<uint16_t>(out, 1024);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], i % 32 * 32 + i / 32);
  }
}

TEST_F(EmulatedGpu, ComputesInAllTypes) {
  Module module = load(readText(SAMPLES_PTX));
  std::vector<float> x(128);
  std::vector<uint16_t> b(32), h(32);
  std::vector<int8_t> c(32);
  std::vector<double> expected(32);
  std::vector<int> counts(5);
  auto bf = [](float v) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  };
  auto back = [](uint16_t v) {
    uint32_t bits = uint32_t(v) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  };
  auto half = [](float v) { return double(_Float16(v)); };
  for (size_t i = 0; i < 32; ++i) {
    for (size_t k = 0; k < 4; ++k)
      x[4 * i + k] = value(4 * i + k);
    float fb = value(i + 500), fh = value(i + 900);
    b[i] = bf(fb);
    _Float16 narrow = _Float16(fh);
    std::memcpy(&h[i], &narrow, 2);
    int n = int(i * 37 % 251) - 120;
    c[i] = int8_t(n);
    const float *v = &x[4 * i];
    double sum = double(v[0] + v[1] * 2.0f - v[2] / 3.0f + v[3]);
    sum += double(back(b[i]) + float(narrow));
    sum += double(back(bf(v[0])) + back(bf(v[1])) + float(half(v[2])) + float(half(v[3])));
    sum += double(float(half(float(narrow) + float(narrow))) + back(bf(back(b[i]) * back(b[i]))));
    sum += n / 3 + n % 5 + (n >> 1) + __builtin_popcount(unsigned(n)) +
           (n & 1023 ? __builtin_clz(unsigned(n & 1023)) : 32);
    if (n & 1)
      for (int k = 0; k < (n & 7); ++k)
        sum += k * 0.5;
    else
      sum -= double(i);
    expected[i] = sum;
    ++counts[size_t(n & 3)];
    counts[4] += n > 0;
  }
  DevicePointer out = give(std::vector<double>(32)), counted = give(std::vector<int>(5));
  expect(launch(function(module, "mixed"), 1, 32, 0,
                {give(x), give(b), give(h), give(c), out, counted}));
  std::vector<double> y = take<double>(out, 32);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_NEAR(y[i], expected[i], 1e-4) << i;
  EXPECT_EQ(take<int>(counted, 5), counts);
}

TEST_F(EmulatedGpu, IsFastEnoughForWholeModels) {
  Module module = load(readText(SAMPLES_PTX));
  constexpr size_t n = 1 << 18;
  DevicePointer in = give(std::vector<float>(n, 0.5f)), out = give(std::vector<float>(n)),
                count = give(std::vector<long long>{n});
  expect(calls().streamSynchronize(stream));
  auto begin = std::chrono::steady_clock::now();
  expect(launch(function(module, "gelu"), n / 256, 256, 0, {in, out, count}));
  expect(calls().streamSynchronize(stream));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  // About 40 instructions a thread; far below what is needed, so that a busy machine passes.
  RecordProperty("millionThreadsPerSecond", std::to_string(n / seconds / 1e6));
  EXPECT_LT(seconds, 10);
  std::printf("%.2f million threads per second\n", n / seconds / 1e6);
}

TEST_F(EmulatedGpu, NamesWhatItDoesNotKnow) {
  char log[512] = {};
  int names[] = {kJitErrorLog, kJitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  const char *ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n"
      "dp4a.s32.s32 %r1, %r2, %r2, %r2;\nret;\n}\n";
  Module module = nullptr;
  EXPECT_EQ(calls().moduleLoadDataEx(&module, ptx, 2, names, values), DriverError::InvalidPtx);
  EXPECT_NE(std::string(log).find("dp4a.s32.s32"), std::string::npos) << log;
  EXPECT_NE(std::string(log).find("line 7"), std::string::npos) << log;
}

TEST_F(EmulatedFault, OutsideOfMemory) {
  refuses("st.global.u32 [%rd1+128], 0;", DriverError::IllegalAddress,
          "kernel k, block 0,0,0, thread 0.*not allocated.*st.global.u32");
  refuses("mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; ld.global.u32 "
          "%r2, [%rd3];",
          DriverError::IllegalAddress, "thread 16");
  refuses("ld.shared.u32 %r1, [16];", DriverError::IllegalAddress,
          "shared memory, which has 0 bytes");
}
TEST_F(EmulatedFault, PastTheEndOfASharedVariable) {
  refuses(".shared .align 16 .b8 three[12];\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [three];",
          DriverError::IllegalAddress, "shared memory, which has 12 bytes");
  refuses(".shared .align 16 .b8 three[12];\n.shared .align 4 .b8 more[8];\n"
          "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [three];",
          DriverError::IllegalAddress,
          "16 bytes at 0 of shared memory are not within one variable");
}
TEST_F(EmulatedGpu, RefusesMoreSharedMemoryThanABlockHas) {
  EXPECT_EQ(outcome(".shared .align 16 .b8 most[49152];"), DriverError::Success);
  EXPECT_EQ(outcome(".shared .align 16 .b8 tooMuch[49153];"), DriverError::InvalidPtx);
}
TEST_F(EmulatedGpu, RefusesMoreParametersThanOldPtxHas) {
  auto loaded = [&](int count) {
    std::string ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(\n";
    for (int i = 0; i < count; ++i)
      ptx += (i ? ",\n.param .u64 k_p" : ".param .u64 k_p") + std::to_string(i);
    Module module = nullptr;
    return calls().moduleLoadDataEx(&module, (ptx + "\n)\n{\nret;\n}\n").c_str(), 0, nullptr,
                                    nullptr);
  };
  EXPECT_EQ(loaded(544), DriverError::Success);
  EXPECT_EQ(loaded(545), DriverError::InvalidPtx);
}
TEST_F(EmulatedFault, Misaligned) {
  refuses("ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", DriverError::MisalignedAddress,
          "not a multiple of 8");
}
TEST_F(EmulatedFault, AfterFree) {
  refuses("ld.global.u32 %r1, [%rd1];", DriverError::IllegalAddress, "not allocated", true);
}
TEST_F(EmulatedFault, LanesThatDoNotTakePart) {
  refuses("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7; @%p1 ret; setp.lt.u32 %p2, %r1, 9;\n@%p2 "
          "bra AROUND;\n"
          "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nAROUND:\nbar.warp.sync -1;",
          DriverError::LaunchFailed, "lanes");
}

TEST_F(EmulatedGpu, ApproximatesAsRoughlyAsItMay) {
  const char *ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 "
                    "k_p)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [k_p];\n"
                    "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
                    "rcp.approx.ftz.f32 %r5, %r1;\nrcp.approx.ftz.f32 %r6, %r2;\n"
                    "rcp.rn.f32 %r7, %r1;\nex2.approx.ftz.f32 %r8, %r3;\n"
                    "st.global.v4.u32 [%rd1], {%r5, %r6, %r7, %r8};\nret;\n}\n";
  DevicePointer memory = give(std::vector<float>{3, 1e-40f, 0, 0});
  expect(launch(function(load(ptx), "k"), 1, 1, 0, {memory}));
  std::vector<float> y = take<float>(memory, 4);
  EXPECT_EQ(std::fabs(y[0] - 1.0f / 3), std::ldexp(1.0f, -25)); // a unit in the last place
  EXPECT_EQ(y[1], INFINITY);                                    // a denormal is 0
  EXPECT_EQ(y[2], 1.0f / 3);
  EXPECT_EQ(y[3], 1);
}

TEST_F(EmulatedGpu, ConvertsTheLowBitsOfWiderRegisters) {
  const char *ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 "
                    "k_p)\n{\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [k_p];\n"
                    "ld.global.u64 %rd2, [%rd1];\ncvt.s64.s32 %rd3, %rd2;\n"
                    "cvt.u64.u16 %rd4, %rd2;\nst.global.v2.u64 [%rd1], {%rd3, %rd4};\nret;\n}\n";
  DevicePointer memory = give(std::vector<int64_t>{0x1fffffffe, 0});
  expect(launch(function(load(ptx), "k"), 1, 1, 0, {memory}));
  EXPECT_EQ(take<int64_t>(memory, 2), (std::vector<int64_t>{-2, 0xfffe}));
}

TEST_F(EmulatedGpu, HostMemoryIsNotDeviceMemory) {
  DevicePointer memory = give(std::vector<float>(4));
  EXPECT_DEATH({ *reinterpret_cast<volatile float *>(memory) = 1; }, "");
}

TEST_F(EmulatedGpu, WorkWaitsForNothingButWhatItIsToldTo) {
  // Two streams write the same place; without an event the order is open, with one it is not.
  Stream other = nullptr;
  expect(calls().streamCreate(&other, kStreamNonBlocking));
  Event event = nullptr;
  expect(calls().eventCreate(&event, kEventDisableTiming));
  DevicePointer memory = give(std::vector<uint8_t>(1));
  expect(calls().streamSynchronize(stream));
  int wrong[2] = {};
  for (bool waits : {false, true})
    for (int i = 0; i < 100; ++i) {
      expect(calls().memsetD8Async(memory, 1, 1, stream));
      expect(calls().eventRecord(event, stream));
      if (waits)
        expect(calls().streamWaitEvent(other, event, 0));
      expect(calls().memsetD8Async(memory, 2, 1, other));
      expect(calls().streamSynchronize(other));
      expect(calls().streamSynchronize(stream));
      wrong[waits] += take<uint8_t>(memory, 1)[0] != 2;
    }
  EXPECT_GT(wrong[0], 5);
  EXPECT_EQ(wrong[1], 0);
}

TEST_F(EmulatedGpu, CapturesGraphs) {
  Stream other = nullptr;
  expect(calls().streamCreate(&other, kStreamNonBlocking));
  Event fork = nullptr, join = nullptr;
  expect(calls().eventCreate(&fork, kEventDisableTiming));
  expect(calls().eventCreate(&join, kEventDisableTiming));
  DevicePointer memory = give(std::vector<uint8_t>(2));
  auto capture = [&](bool joins, GraphExec &exec) {
    Graph graph = nullptr;
    expect(calls().streamBeginCapture(stream, kCaptureThreadLocal));
    expect(calls().eventRecord(fork, stream));
    expect(calls().streamWaitEvent(other, fork, 0));
    expect(calls().memsetD8Async(memory, 5, 1, other));
    expect(calls().memsetD8Async(memory + 1, 6, 1, stream));
    expect(calls().eventRecord(join, other));
    if (joins)
      expect(calls().streamWaitEvent(stream, join, 0));
    DriverError end = calls().streamEndCapture(stream, &graph);
    if (end == DriverError::Success) {
      expect(calls().graphInstantiate(&exec, graph, 0));
      expect(calls().graphDestroy(graph));
    }
    return end;
  };
  GraphExec exec = nullptr;
  EXPECT_EQ(capture(false, exec), DriverError::CaptureUnjoined);
  ASSERT_EQ(capture(true, exec), DriverError::Success);
  EXPECT_EQ(take<uint8_t>(memory, 2), (std::vector<uint8_t>{0, 0}));
  expect(calls().graphLaunch(exec, stream));
  EXPECT_EQ(take<uint8_t>(memory, 2), (std::vector<uint8_t>{5, 6}));
  expect(calls().graphExecDestroy(exec));
}

TEST_F(EmulatedGpu, RefusesWhatNoCaptureMayHold) {
  Stream other = nullptr;
  expect(calls().streamCreate(&other, kStreamNonBlocking));
  Event event = nullptr;
  expect(calls().eventCreate(&event, kEventDisableTiming));
  DevicePointer memory = give(std::vector<uint8_t>(4)), more = 0;
  uint8_t pageable = 0;
  expect(calls().streamSynchronize(stream));
  /// What a call within a capture answers; afterwards the capture is none.
  auto within = [&](const std::function<DriverError()> &call) {
    Graph graph = nullptr;
    expect(calls().streamBeginCapture(stream, kCaptureThreadLocal));
    DriverError answer = call();
    EXPECT_EQ(calls().streamEndCapture(stream, &graph), DriverError::CaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    return answer;
  };
  EXPECT_EQ(within([&] { return calls().memAlloc(&more, 4); }), DriverError::CaptureUnsupported);
  EXPECT_EQ(within([&] { return calls().memFree(memory); }), DriverError::CaptureUnsupported);
  EXPECT_EQ(within([&] { return calls().streamSynchronize(stream); }),
            DriverError::CaptureUnsupported);
  EXPECT_EQ(
      within([&] { return calls().memcpyAsync(DevicePointer(&pageable), memory, 1, stream); }),
      DriverError::CaptureUnsupported);
  EXPECT_EQ(within([&] {
              expect(calls().eventRecord(event, other));
              return calls().streamWaitEvent(stream, event, 0);
            }),
            DriverError::CaptureIsolation);
  EXPECT_EQ(within([&] {
              expect(calls().eventRecord(event, stream));
              return calls().eventQuery(event);
            }),
            DriverError::CapturedEvent);
  expect(calls().eventRecord(event, other));
  EXPECT_EQ(within([&] { return calls().eventQuery(event); }), DriverError::CaptureUnsupported);
  // Another thread may do as it likes.
  Graph graph = nullptr;
  expect(calls().streamBeginCapture(stream, kCaptureThreadLocal));
  std::thread([&] {
    expect(calls().contextSetCurrent(nullptr));
    EXPECT_TRUE(gpu->select().isOk());
    expect(calls().memAlloc(&more, 4));
  }).join();
  expect(calls().streamEndCapture(stream, &graph));
}

} // namespace
