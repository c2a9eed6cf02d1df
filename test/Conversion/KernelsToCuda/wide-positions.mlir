// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// The sum over an outer product has more points than 32 bits count, though no buffer has: 65537 * 65537, of which 32 bits
// would leave 131073.

// CHECK: .visible .entry k0(
// CHECK: setp.{{..}}.{{[bu]}}64 {{.*}}, 429509836
// CHECK-NOT: 131073
func.func @main(%x: tensor<65537xf32> {autopar.name = "x"}, %z: tensor<65537xf32> {autopar.name = "z"}) -> (tensor<f32> {autopar.name = "y"}) {
  %a = autopar.broadcast %x dims [0] : tensor<65537xf32> -> tensor<65537x65537xf32>
  %b = autopar.broadcast %z dims [1] : tensor<65537xf32> -> tensor<65537x65537xf32>
  %p = autopar.binary mul %a, %b : tensor<65537x65537xf32>
  %y = autopar.reduce sum %p dims [0, 1] : tensor<65537x65537xf32> -> tensor<f32>
  return %y : tensor<f32>
}
