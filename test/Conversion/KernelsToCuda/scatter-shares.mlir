// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: autopar-translate --dump %t.bin | FileCheck %s --check-prefix=DUMP

// Two targets of 768 elements are 12 warps' work. 32 warps of a block share the updates of one part, eight of which are
// read before they are added to what lies in registers; their sums meet in shared memory.
// DUMP: grid [12, 1024, 0]
// CHECK: .visible .entry k0(
// CHECK: .shared .align 16 .b8 k0_shared_0[16384]
// CHECK-COUNT-1: ld.global.nc.v4.b32
// CHECK-COUNT-4: ld.global.nc.b64
// CHECK-NOT: shfl.sync
// CHECK-COUNT-8: ld.global.nc.v4.b32
// CHECK: st.shared.v4.b32
// CHECK: bar.sync
// CHECK: ld.shared.v4.b32
func.func @main(%x: tensor<2x768xf32> {autopar.name = "x"}, %i: tensor<16384x1xi64> {autopar.name = "i"}, %u: tensor<16384x768xf32> {autopar.name = "u"})
    -> (tensor<2x768xf32> {autopar.name = "y"}) {
  %r = autopar.scatter add %x, %i, %u {autopar.id = "s"} : (tensor<2x768xf32>, tensor<16384x1xi64>, tensor<16384x768xf32>) -> tensor<2x768xf32>
  return %r : tensor<2x768xf32>
}
