// REQUIRES: autopar-compile, autopar-translate
// RUN: autopar-compile %s --quiet --target cuda -o %t.bin
// RUN: autopar-translate --extract-kernels %t.bin -o %t.ptx
// RUN: FileCheck %s --input-file %t.ptx

// All of a lane's elements are at one address, but for constants: each four of them are one access.

// CHECK: .visible .entry k0(
// CHECK: %laneid
// CHECK-COUNT-8: ld.global.nc.v4
// CHECK-NOT: ld.global
// CHECK-COUNT-8: st.global.v4
// CHECK-NOT: st.global
// CHECK: ret;
func.func @main(%x: tensor<600x1024xf32> {autopar.name = "x"}) -> (tensor<600x1024xf32> {autopar.name = "y"}) {
  %y = autopar.softmax %x dim 1 {autopar.id = "softmax"} : tensor<600x1024xf32>
  return %y : tensor<600x1024xf32>
}
