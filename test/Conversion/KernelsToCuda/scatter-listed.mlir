// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// Many updates: the 16 warps of a block read each index once for all of them, and list in shared memory what falls into
// their ranges; a warp votes on the list, and adds what is its own as ever. 20,000 targets are 6,667 ranges, 417 blocks.
// CHECK: .visible .entry k0(
// CHECK: .maxntid 512
// CHECK: .minnctapersm 1
// CHECK-COUNT-4: ld.global.nc.b64
// CHECK-NOT: ld.global
// CHECK-COUNT-4: vote.sync.ballot.b32
// CHECK: bar.sync 0
// CHECK: st.shared.b32
// CHECK: bar.sync 0
// CHECK: ld.shared.b32
// CHECK: vote.sync.ballot.b32
// CHECK-COUNT-4: ld.global.nc.v4.b32
// CHECK-COUNT-4: ld.global.v4.b32
// CHECK: add.rn.f32
// CHECK-COUNT-4: st.global.v4.b32
func.func @main(%x: tensor<20000x64xf32> {autopar.name = "x"}, %i: tensor<16x512x1xi64> {autopar.name = "i"}, %u: tensor<16x512x64xf32> {autopar.name = "u"})
    -> (tensor<20000x64xf32> {autopar.name = "y"}) {
  %r = autopar.scatter add %x, %i, %u {autopar.id = "s"} : (tensor<20000x64xf32>, tensor<16x512x1xi64>, tensor<16x512x64xf32>) -> tensor<20000x64xf32>
  return %r : tensor<20000x64xf32>
}
