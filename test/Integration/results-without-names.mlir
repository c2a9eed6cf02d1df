// RUN: autopar-compile %s -o %t.bin && autopar-translate --dump %t.bin | FileCheck %s

// A result without a name beside one that has the name it would get.

// CHECK-DAG: output "output0_"
// CHECK-DAG: output "output0"
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> (tensor<8xf32>, tensor<8xf32> {autopar.name = "output0"}) {
  %0 = autopar.unary exp %x : tensor<8xf32>
  %1 = autopar.unary tanh %x : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
