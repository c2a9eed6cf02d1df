// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// A bias over rows and an activation: what repeats is read in 16 bytes as well.

// CHECK: .visible .entry k0(
// CHECK-COUNT-2: ld.global.nc.v4.b32
// CHECK-NOT: ld.global
// CHECK: st.global.v4.b32
// CHECK-NOT: st.global
func.func @main(%x: tensor<4096x1024xf32> {autopar.name = "x"}, %b: tensor<1024xf32> {autopar.name = "b"}) -> (tensor<4096x1024xf32> {autopar.name = "y"}) {
  %bb = autopar.broadcast %b dims [1] : tensor<1024xf32> -> tensor<4096x1024xf32>
  %y = autopar.binary add %x, %bb : tensor<4096x1024xf32>
  %z = autopar.unary tanh %y : tensor<4096x1024xf32>
  return %z : tensor<4096x1024xf32>
}
