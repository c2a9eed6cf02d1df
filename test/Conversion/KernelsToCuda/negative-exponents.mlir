// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// The greatest of its row is subtracted: exp takes the form for what is never positive. In the second kernel the
// least is, and it takes the general one.

// CHECK: .visible .entry k0(
// CHECK-NOT: cvt.sat
// CHECK: ex2.approx.ftz.f32
// CHECK-NOT: cvt.sat
// CHECK: .visible .entry k1(
// CHECK: cvt.sat
// CHECK: ex2.approx.ftz.f32
func.func @main(%x: tensor<600x1024xf32> {autopar.name = "x"}, %z: tensor<600x768xf32> {autopar.name = "z"})
    -> (tensor<600xf32> {autopar.name = "own"}, tensor<600xf32> {autopar.name = "other"}) {
  %max = autopar.reduce max %x dims [1] {autopar.id = "max"} : tensor<600x1024xf32> -> tensor<600xf32>
  %spread = autopar.broadcast %max dims [0] : tensor<600xf32> -> tensor<600x1024xf32>
  %shifted = autopar.binary sub %x, %spread {autopar.id = "shifted"} : tensor<600x1024xf32>
  %e = autopar.unary exp %shifted {autopar.id = "exp"} : tensor<600x1024xf32>
  %own = autopar.reduce sum %e dims [1] {autopar.id = "own"} : tensor<600x1024xf32> -> tensor<600xf32>
  %least = autopar.reduce min %z dims [1] {autopar.id = "least"} : tensor<600x768xf32> -> tensor<600xf32>
  %wide = autopar.broadcast %least dims [0] : tensor<600xf32> -> tensor<600x768xf32>
  %grown = autopar.binary sub %z, %wide {autopar.id = "grown"} : tensor<600x768xf32>
  %f = autopar.unary exp %grown {autopar.id = "exp2"} : tensor<600x768xf32>
  %other = autopar.reduce sum %f dims [1] {autopar.id = "other"} : tensor<600x768xf32> -> tensor<600xf32>
  return %own, %other : tensor<600xf32>, tensor<600xf32>
}
