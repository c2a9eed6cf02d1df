// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx
// RUN: FileCheck %s --input-file %t.ptx --check-prefix=ALONE

// A scatter without atomics: warps vote on which of 128 updates lie in their range of targets, and add these in their
// order, 16 bytes per lane. Indices are read before the first vote; of four updates, they and their targets before
// anything is added.
// CHECK: .visible .entry k0(
// CHECK: .minnctapersm 1
// CHECK-COUNT-4: ld.global.nc.b64
// CHECK-COUNT-4: vote.sync.ballot.b32
// CHECK-COUNT-4: shfl.sync.idx.b32
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: add.rn.f32
// CHECK-NOT: ld.global
// CHECK-COUNT-4: st.global.v4.b32
// CHECK-NOT: st.global
// ALONE-NOT: atom.
// ALONE-NOT: red.global
func.func @main(%x: tensor<20000x64xf32> {autopar.name = "x"}, %i: tensor<16x128x1xi64> {autopar.name = "i"}, %u: tensor<16x128x64xf32> {autopar.name = "u"})
    -> (tensor<20000x64xf32> {autopar.name = "y"}) {
  %r = autopar.scatter add %x, %i, %u {autopar.id = "s"} : (tensor<20000x64xf32>, tensor<16x128x1xi64>, tensor<16x128x64xf32>) -> tensor<20000x64xf32>
  return %r : tensor<20000x64xf32>
}
