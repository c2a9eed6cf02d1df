// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// Of two bytes a lane takes two neighbours on both sides: a thread has 32 bytes under way.

// CHECK: .visible .entry k0(
// CHECK: .maxntid 256
// CHECK: .shared .align 16 .b8 k0_shared_0[8320]
// CHECK-COUNT-8: ld.global.nc.v2.b16
// CHECK-NOT: ld.global
// CHECK: bar.sync
// CHECK-COUNT-8: st.global.v2.b16
// CHECK-NOT: st.global
func.func @main(%x: tensor<512x1024xbf16> {autopar.name = "x"}) -> (tensor<1024x512xbf16> {autopar.name = "y"}) {
  %y = autopar.transpose %x permutation [1, 0] : tensor<512x1024xbf16> -> tensor<1024x512xbf16>
  %z = autopar.unary neg %y : tensor<1024x512xbf16>
  return %z : tensor<1024x512xbf16>
}
