// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// What the library cannot do becomes kernels; what is left of a group becomes a kernel of its own; a
// view that must be in order is copied; an input that is returned is copied.

// CHECK: exec.port parameter "constant.0" %{{.*}} : tensor<2xf32> {value = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}
// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch @k0({{.*}}, {{.*}}) -> ({{.*}}) {{.*}} id = "int"
// CHECK-NEXT: exec.matmul {{.*}} id = "product"
// CHECK-NEXT: exec.launch @k1({{.*}}) -> ({{.*}}) {{.*}} id = "product"
// CHECK-NEXT: exec.launch @k2
// CHECK-NEXT: exec.copy
// CHECK-NEXT: exec.copy
// CHECK-NEXT: {{^ *}}}
func.func @main(%a: tensor<2x3xi32> {autopar.name = "a"}, %b: tensor<3x4xi32> {autopar.name = "b"},
                %x: tensor<2x3xf32> {autopar.name = "x"}, %w: tensor<3x4xf32> {autopar.name = "w"})
    -> (tensor<2x4xi32>, tensor<2x4xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<2xf32>) {
  %int = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "int"} : (tensor<2x3xi32>, tensor<3x4xi32>) -> tensor<2x4xi32>
  %product = autopar.group %x, %w {autopar.id = "product"} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32> {
  ^bb0(%gx: tensor<2x3xf32>, %gw: tensor<3x4xf32>):
    %0 = autopar.dot_general %gx, %gw contract [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = autopar.unary tanh %0 : tensor<2x4xf32>
    autopar.yield %1 : tensor<2x4xf32>
  }
  %xt = autopar.transpose %x permutation [1, 0] {autopar.id = "turn"} : tensor<2x3xf32> -> tensor<3x2xf32>
  %c = autopar.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %int, %product, %xt, %x, %c : tensor<2x4xi32>, tensor<2x4xf32>, tensor<3x2xf32>, tensor<2x3xf32>, tensor<2xf32>
}
