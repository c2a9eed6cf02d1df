// SPDX-License-Identifier: Apache-2.0
// Changes what the CUDA device has no use for: packed weights and the kernel.
#include "CudaSample.h"

#include "autopar/Artifact/CudaTarget.h"

namespace autopar::testing {

using namespace artifact;

namespace {

/// A block per row: args are in, out and the rank values, whose first word is the width of a row.
constexpr const char *kReluRows = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry relu_rows(.param .u64 in, .param .u64 out, .param .u64 values)
{
  .reg .pred %p<3>;
  .reg .b32 %r<6>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u64 %rd3, [values];
  ld.global.u32 %r1, [%rd3];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
LOOP:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra END;
  mad.lo.u32 %r5, %r3, %r1, %r2;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  ld.global.f32 %f1, [%rd5];
  max.f32 %f2, %f1, 0f00000000;
  st.global.f32 [%rd6], %f2;
  add.u32 %r2, %r2, %r4;
  bra LOOP;
END:
  ret;
}
)";

} // namespace

Contents cudaSampleContents(int32_t ranks, const std::string &weightFile) {
  Contents contents = sampleContents(ranks, {}, weightFile);
  contents.target = {"cuda", CudaTarget().toText()};
  contents.classes[0].ptx = kReluRows;
  Program &program = contents.classes[0].program;
  program.entries[0].instructions.pop_back(); // the packing
  Matmul &first = std::get<Matmul>(program.entries[1].instructions[0].payload);
  first.geometry.packedB = false;
  first.b = std::get<Read>(program.entries[0].instructions[0].payload).dst;
  Launch &launch = std::get<Launch>(program.entries[1].instructions[1].payload);
  launch.blocks = launch.extent;
  launch.threads = 32;
  return contents;
}

} // namespace autopar::testing
