// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// The label's element is read where it is, and stored once more by the thread that has it: no other is asked whether it
// is the label's.

// CHECK: .visible .entry k0(
// CHECK: setp.eq.b32
// CHECK: ld.global.nc.b16
// CHECK-NOT: setp.eq
// CHECK-NOT: ld.global.nc.b16
// CHECK: st.global.v4
// CHECK-NOT: setp.eq
// CHECK: st.global.b16
// CHECK-NOT: st.global
// CHECK: ret;
func.func @main(%x: tensor<600x30000xbf16> {autopar.name = "x"}, %l: tensor<600xi32> {autopar.name = "l"})
    -> (tensor<600xf32> {autopar.name = "own"}, tensor<600x30000xbf16> {autopar.name = "rest"}) {
  %i = autopar.iota dim 1 : tensor<600x30000xi32>
  %b = autopar.broadcast %l dims [0] : tensor<600xi32> -> tensor<600x30000xi32>
  %hot = autopar.compare eq %i, %b : (tensor<600x30000xi32>, tensor<600x30000xi32>) -> tensor<600x30000xi1>
  %w = autopar.cast %x : tensor<600x30000xbf16> -> tensor<600x30000xf32>
  %zero = autopar.constant dense<0.0> : tensor<600x30000xf32>
  %one = autopar.constant dense<1.0> : tensor<600x30000xf32>
  %only = autopar.select %hot, %w, %zero : (tensor<600x30000xi1>, tensor<600x30000xf32>, tensor<600x30000xf32>) -> tensor<600x30000xf32>
  %own = autopar.reduce sum %only dims [1] {autopar.id = "own"} : tensor<600x30000xf32> -> tensor<600xf32>
  %spread = autopar.broadcast %own dims [0] : tensor<600xf32> -> tensor<600x30000xf32>
  %target = autopar.select %hot, %one, %zero : (tensor<600x30000xi1>, tensor<600x30000xf32>, tensor<600x30000xf32>) -> tensor<600x30000xf32>
  %less = autopar.binary sub %w, %spread : tensor<600x30000xf32>
  %rest = autopar.binary sub %less, %target : tensor<600x30000xf32>
  %y = autopar.cast %rest {autopar.id = "rest"} : tensor<600x30000xf32> -> tensor<600x30000xbf16>
  return %own, %y : tensor<600xf32>, tensor<600x30000xbf16>
}
