// SPDX-License-Identifier: Apache-2.0
// Kernels with races, unwritten memory and misused barriers, which a real GPU runs somehow, and
// their neighbours without.
#include "EmulatedGpuFixture.h"

using namespace autopar;
using namespace autopar::runtime::cuda;
using namespace autopar::testing;

namespace {

constexpr GridShape kTwoWarps = {1, 64}, kTwoBlocks = {2, 32};

/// Faults that a real GPU has no error for.
class EmulatedHazard : public EmulatedFault {
protected:
  void finds(const char *why, const std::string &body, GridShape shape = GridShape()) {
    refuses(body, DriverError::LaunchFailed, why, /*afterFree=*/false, shape);
  }
  /// A word of shared memory per thread; %rd2 is the thread's own, %rd3 that of thread number ^ 1,
  /// %rd4 that of thread number ^ 32, and %r1 the thread's number.
  static std::string words(const std::string &body) {
    return ".shared .align 16 .b8 words[256];\nmov.u32 %r1, %tid.x;\nmov.u64 %rd5, words;\n"
           "mul.wide.u32 %rd6, %r1, 4;\nadd.s64 %rd2, %rd5, %rd6;\n"
           "xor.b32 %r2, %r1, 1;\nmul.wide.u32 %rd6, %r2, 4;\nadd.s64 %rd3, %rd5, %rd6;\n"
           "xor.b32 %r2, %r1, 32;\nmul.wide.u32 %rd6, %r2, 4;\nadd.s64 %rd4, %rd5, %rd6;\n" +
           body;
  }
};

/// Accesses to global memory are checked.
class EmulatedGlobalHazard : public EmulatedHazard {
protected:
  void SetUp() override {
    setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1", 1);
    EmulatedHazard::SetUp();
  }
  void TearDown() override { unsetenv("AUTOPAR_EMULATED_CUDA_RACECHECK"); }
};

//===-- shared memory ------------------------------------------------------------------------===//

TEST_F(EmulatedHazard, BarriersOrderWarps) {
  const std::string store = "st.shared.u32 [%rd2], %r1;\n", load = "ld.shared.u32 %r3, [%rd4];\n",
                    loadOfSecond = "setp.ge.u32 %p1, %r1, 32;\n@%p1 " + load;
  finds("kernel k, block 0,0,0, thread 32, line .*thread 0 of block number 0 wrote in line "
        ".*read after write.*ld.shared.u32",
        words(store + loadOfSecond), kTwoWarps);
  finds("nothing orders the two", words(store + "bar.sync 0;\n" + load + store), kTwoWarps);
  accepts(words(store + "bar.sync 0;\n" + load + "bar.sync 0;\n" + store), kTwoWarps);
}

TEST_F(EmulatedHazard, LanesAreNotInStep) {
  const std::string store = "st.shared.u32 [%rd2], %r1;\n", load = "ld.shared.u32 %r3, [%rd3];\n";
  finds("read after write", words(store + load));
  finds("read after write", words(store + "shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;\n" + load));
  finds("write after read", words(store + "bar.warp.sync -1;\n" + load + store));
  accepts(words(store + "bar.warp.sync -1;\n" + load + "bar.warp.sync -1;\n" + store));
  accepts(words(store + "bar.sync 0;\n" + load));
  // A warp's barrier orders no other warp.
  finds("read after write",
        words(store + "bar.warp.sync -1;\nsetp.ge.u32 %p1, %r1, 32;\n"
                      "@%p1 ld.shared.u32 %r3, [%rd4];"),
        kTwoWarps);
}

TEST_F(EmulatedHazard, OneOfSeveralReadersIsEnough) {
  // All threads read the first word, the last of them writes it.
  const std::string read = "st.shared.u32 [%rd2], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [words];\n",
                    write = "setp.eq.u32 %p1, %r1, 63;\n@%p1 st.shared.u32 [words], 0;";
  finds("write after read", words(read + write), kTwoWarps);
  accepts(words(read + "bar.sync 0;\n" + write), kTwoWarps);
}

TEST_F(EmulatedHazard, WritesOfOneValueAreNone) {
  finds("write after write", words("st.shared.u32 [words], %r1;"));
  accepts(words("st.shared.u32 [words], 7;"), kTwoWarps);
}

TEST_F(EmulatedHazard, NarrowElementsHaveNeighbours) {
  const std::string own = ".shared .align 4 .b8 halves[64];\nmov.u32 %r1, %tid.x;\n"
                          "mov.u64 %rd5, halves;\nmul.wide.u32 %rd6, %r1, 2;\n"
                          "add.s64 %rd2, %rd5, %rd6;\nst.shared.b16 [%rd2], 3;\n";
  accepts(own);
  finds("read after write", own + "ld.shared.b32 %r3, [halves];");
}

TEST_F(EmulatedHazard, AtomicsAreForEachOtherOnly) {
  const std::string clear = "st.shared.u32 [%rd2], 0;\nbar.sync 0;\n",
                    count = "red.shared.add.u32 [words], 1;\n",
                    load = "ld.shared.u32 %r3, [words];\n";
  finds("nothing orders the two", words(clear + count + load), kTwoWarps);
  accepts(words(clear + count + "bar.sync 0;\n" + load), kTwoWarps);
}

TEST_F(EmulatedHazard, SharedMemoryIsUnwrittenAtFirst) {
  finds("4 bytes at 0 of shared memory that the block has not written",
        words("ld.shared.u32 %r3, [%rd2];"));
  finds("has not written", words("red.shared.add.u32 [%rd2], 1;"));
  const std::string inFirstBlock = "mov.u32 %r4, %ctaid.x;\nsetp.eq.u32 %p1, %r4, 0;\n"
                                   "@%p1 st.shared.u32 [%rd2], 1;\n";
  finds("block 1,0,0.*has not written", words(inFirstBlock + "ld.shared.u32 %r3, [%rd2];"),
        kTwoBlocks);
  accepts(words(inFirstBlock + "@%p1 ld.shared.u32 %r3, [%rd2];"), kTwoBlocks);
}

//===-- global memory ------------------------------------------------------------------------===//

TEST_F(EmulatedGlobalHazard, BlocksAreNotOrdered) {
  const std::string block = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"
                            "setp.eq.u32 %p1, %r1, 0;\n"
                            "mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd3, %rd1, %rd2;\n";
  finds("block 1,0,0, thread 0, .*of global memory are written that thread 0 of block number 0 "
        "wrote.*write after write",
        block + "@%p1 st.global.u32 [%rd1], %r2;", kTwoBlocks);
  finds("read after write", block + "@%p1 st.global.u32 [%rd3], %r2;\nld.global.u32 %r3, [%rd1];",
        kTwoBlocks);
  accepts(block + "@%p1 st.global.u32 [%rd3], %r2;\n@%p1 ld.global.u32 %r3, [%rd3];", kTwoBlocks);
  accepts(block + "red.global.add.u32 [%rd1], 1;", kTwoBlocks);
}

TEST_F(EmulatedGlobalHazard, BarriersOrderABlock) {
  const std::string own = "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
                          "add.s64 %rd3, %rd1, %rd2;\nxor.b32 %r2, %r1, 1;\n"
                          "mul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd4, %rd1, %rd2;\n"
                          "st.global.u32 [%rd3], %r1;\n";
  finds("read after write", own + "ld.global.u32 %r3, [%rd4];");
  accepts(own + "bar.sync 0;\nld.global.u32 %r3, [%rd4];");
  accepts(own + "bar.warp.sync -1;\nld.global.u32 %r3, [%rd4];");
}

TEST_F(EmulatedGlobalHazard, ReadOnlyMemoryIsNotWritten) {
  const std::string own = "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
                          "add.s64 %rd3, %rd1, %rd2;\n";
  finds("write after read", own + "ld.global.nc.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r1;");
  finds("read after write", own + "st.global.u32 [%rd3], %r1;\nld.global.nc.u32 %r2, [%rd3];");
  accepts(own + "ld.global.u32 %r2, [%rd3];\nst.global.u32 [%rd3], %r1;");
  accepts("ld.global.nc.u32 %r2, [%rd1];");
}

//===-- barriers and what warps do together --------------------------------------------------===//

TEST_F(EmulatedHazard, WholeWarpsComeToBarriers) {
  const std::string isLow = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, ";
  finds("lanes that should take part have ended", isLow + "16;\n@%p1 ret;\nbar.sync 0;");
  finds("lanes that should take part", isLow + "16;\n@!%p1 bra END;\nbar.sync 0;\nEND:\n");
  finds("wait for each other at different places",
        isLow + "16;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW:\nbar.sync 0;\nEND:\n");
  // A warp that has ended is waited for no more.
  accepts(isLow + "32;\n@%p1 ret;\nbar.sync 0;", kTwoWarps);
  accepts(isLow + "32;\n@%p1 bra JOIN;\nadd.u32 %r1, %r1, 1;\nJOIN:\nbar.sync 0;", kTwoWarps);
}

TEST_F(EmulatedHazard, WarpsWaitAtOneBarrier) {
  finds("warps of a block wait at different barriers, thread 0 in line",
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\n"
        "LOW:\nbar.sync 0;\nEND:\n",
        kTwoWarps);
}

TEST_F(EmulatedHazard, MembersAreThoseThatTakePart) {
  const std::string isLow = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\n";
  finds("a thread is not among the members that it names",
        "mov.u32 %r1, %tid.x;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, 65535;");
  finds("lanes that should take part have ended",
        isLow + "@%p1 ret;\nvote.sync.ballot.b32 %r2, %p1, -1;");
  finds("lanes that should take part do not", isLow + "@%p1 bar.warp.sync -1;");
  finds("name different members", isLow + "selp.b32 %r3, -1, 0xffff0000, %p1;\nbar.warp.sync %r3;");
  accepts(isLow + "@%p1 ret;\nvote.sync.ballot.b32 %r2, %p1, 0xffff0000;");
  accepts(isLow + "selp.b32 %r3, 65535, 0xffff0000, %p1;\n"
                  "shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r3;");
}

} // namespace
