// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// The 32 warps of a block read a row once, eight elements of a lane together; the elements that are found are read
// again. A warp keeps its best by shuffles, and the warps join theirs in five steps.
// DUMP: grid [64, 1024, 0]
// CHECK: .visible .entry k0(
// CHECK: .shared .align 16 .b8 k0_shared_0[8192]
// CHECK-COUNT-8: ld.global.nc.b32
// CHECK-NOT: ld.global
// CHECK: vote.sync.ballot.b32
// CHECK: shfl.sync.bfly
// CHECK-NOT: ld.global
// CHECK-COUNT-5: bar.sync
// CHECK-NOT: bar.sync
// CHECK-COUNT-1: ld.global.nc.b32
// CHECK-NOT: ld.global
// CHECK: ret;
func.func @main(%x: tensor<64x50257xf32> {autopar.name = "x"}) -> (tensor<64x8xf32> {autopar.name = "y"}, tensor<64x8xi64> {autopar.name = "i"}) {
  %y, %i = autopar.top_k %x dim 1 {autopar.id = "s"} : (tensor<64x50257xf32>) -> (tensor<64x8xf32>, tensor<64x8xi64>)
  return %y, %i : tensor<64x8xf32>, tensor<64x8xi64>
}
