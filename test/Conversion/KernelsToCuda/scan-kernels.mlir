// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// The 32 warps of a block share a row. A lane reads 16 elements of it in vectors, and what is before it comes by
// shuffles; what is before a warp lies in shared memory, behind one barrier per stretch of 16,384 elements.
// DUMP: grid [64, 1024, 0]
// CHECK: .visible .entry k0(
// CHECK: .shared .align 16 .b8 k0_shared_0[256]
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: shfl.sync.up
// CHECK: st.shared
// CHECK-COUNT-1: bar.sync
// CHECK-NOT: bar.sync
// CHECK: shfl.sync.idx
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: st.global
// CHECK: ret;
func.func @main(%x: tensor<64x50256xf32> {autopar.name = "x"}) -> (tensor<64x50256xf32> {autopar.name = "y"}) {
  %y = autopar.cumulative sum %x dim 1 {autopar.id = "s"} : tensor<64x50256xf32>
  return %y : tensor<64x50256xf32>
}
